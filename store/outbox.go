package store

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
	"unicode/utf8"
)

// Buckets is how many buckets an outbox has. An ordering key always falls into the same
// one; each bucket is published by one relay at a time.
const Buckets = 16

// Limits of a [Message].
const (
	// MaxMessageTextBytes bounds topic, id, ordering key and the name of a header, each.
	MaxMessageTextBytes = 255
	// DefaultMaxMessageBytes bounds a message as a whole. It is what NATS and Kafka take
	// unless they are set otherwise, less some room for what a sink adds.
	DefaultMaxMessageBytes = 1_000_000
)

// Message is a message that a transaction decided to send.
type Message struct {
	// ID names the message, for those who receive it twice: at most 255 bytes. Left empty it
	// is derived from the claim and the message's number in the handler's run, so it is the
	// same on every run; without a claim it is random. Under one id a stream keeps one
	// message, so it must not be used again for something else.
	ID string
	// Topic is where the message goes, 1 to 255 bytes. Required.
	Topic string
	// Key is the ordering key, at most 255 bytes: messages of one key leave in the order of
	// their commits. Empty means that order does not matter.
	Key string
	// LockKey makes the transaction take a lock on Key until it commits. It is needed where
	// transactions that send under one key don't lock the same row before they do.
	LockKey bool
	// Headers travel with the message. Names and values are UTF-8 without control characters.
	Headers map[string]string
	// Payload is the message's content.
	Payload []byte
	// Delay keeps the message back for this long after its commit. It takes its place in the
	// order when the delay is over. Not negative.
	Delay time.Duration
}

// Appender stores messages in a transaction.
type Appender interface {
	// Append stores the messages, in order, in the transaction that ctx carries, or that the
	// Appender is for: they leave if and only if it commits. It fails with [ErrNoTx] when
	// there is none, and with [ErrTxClosed] when the handler has returned. An error about a
	// message itself wraps [ErrMessage]; then none was stored.
	//
	// The same id and topic twice in one unit of work is stored once, if the store can tell
	// that no savepoint has taken the first one back; the same id with another topic gets an
	// id derived from both.
	Append(ctx context.Context, messages ...Message) error
}

// ErrMessage says that a message can't be sent as it is.
var ErrMessage = errors.New("message is refused")

// Validate names every field that is wrong, without its value. maxBytes bounds the message
// as a whole.
func (m Message) Validate(maxBytes int) error {
	wrong := []error{checkText("Topic", m.Topic), checkText("ID", m.ID), checkText("Key", m.Key)}
	if m.Topic == "" {
		wrong = append(wrong, errors.New("Topic: is empty"))
	}
	if m.Delay < 0 {
		wrong = append(wrong, fmt.Errorf("Delay: %v is negative", m.Delay))
	}
	if m.LockKey && m.Key == "" {
		wrong = append(wrong, errors.New("LockKey: there is no Key to lock"))
	}
	size := len(m.Topic) + len(m.ID) + len(m.Key) + len(m.Payload)
	for name, value := range m.Headers {
		size += len(name) + len(value)
		if name == "" || strings.ContainsRune(name, ':') || checkText("", name) != nil {
			wrong = append(wrong, errors.New("Headers: a name is empty, longer than 255 bytes, or holds a colon, a control character or bad UTF-8"))
		} else if !plain(value) {
			wrong = append(wrong, fmt.Errorf("Headers: the value of %q holds a control character or bad UTF-8", name))
		}
	}
	if size > maxBytes {
		wrong = append(wrong, fmt.Errorf("Payload and the rest: %d bytes, more than %d", size, maxBytes))
	}
	if err := errors.Join(wrong...); err != nil {
		return fmt.Errorf("%w: %w", ErrMessage, err)
	}
	return nil
}

func checkText(field, text string) error {
	switch {
	case len(text) > MaxMessageTextBytes:
		return fmt.Errorf("%s: %d bytes, more than %d", field, len(text), MaxMessageTextBytes)
	case !plain(text):
		return fmt.Errorf("%s: holds a control character or bad UTF-8", field)
	}
	return nil
}

func plain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// Bucket is where the message belongs: by its key, or spread evenly by its id.
func (m Message) Bucket() int {
	text := m.Key
	if text == "" {
		text = m.ID
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(text)) // never fails
	mixed := sum.Sum64()
	return int((mixed ^ mixed>>32) % Buckets)
}
