package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/oncebox/oncebox/dedup"
)

// MaxReasonBytes bounds the text that says why a message was given up.
const MaxReasonBytes = 2048

// DeadLetter is a message that was given up, whole, with the reason. It can be run again
// once its cause is mended.
type DeadLetter struct {
	// Consumer is the consumer that gave the message up.
	Consumer Consumer
	// ClaimID is the claim that the message stood for; zero when it gave no usable key.
	ClaimID dedup.ClaimID
	// Class says what kind of failure ended its way.
	Class dedup.Class
	// Reason is the error's text, cut to [MaxReasonBytes]. It is for operators with access
	// to the table; it is never logged.
	Reason string
	// Attempts is how many runs failed.
	Attempts int
	// Topic is the topic that the message came from, if known.
	Topic string
	// MessageID is the message's own id, as its broker or producer gave it; may be empty.
	MessageID string
	// Metadata is the message's metadata.
	Metadata map[string]string
	// Payload is the message's payload.
	Payload []byte
}

// StoredLetter is a dead letter as a store returns it.
type StoredLetter struct {
	DeadLetter
	// ID identifies the letter; see [DeadLetter.ID].
	ID [16]byte
	// Seen counts how often this letter was stored.
	Seen int
	// FirstAt and LastAt are the store's times of its first and latest storing.
	FirstAt, LastAt time.Time
}

// DeadLetters is the role of a store that keeps dead letters.
type DeadLetters interface {
	// Letters returns up to limit letters of the named consumer, newest first. The limit
	// must be from 1 to 1000.
	Letters(ctx context.Context, consumer string, limit int) ([]StoredLetter, error)
}

// ID identifies a letter: the same message given up by the same consumer under the same
// claim has the same id. Metadata takes no part, since brokers change it when they
// deliver again.
func (l DeadLetter) ID() [16]byte {
	hash := sha256.New()
	part := func(b []byte) {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		hash.Write(b)
	}
	part([]byte("oncebox dead letter 1"))
	part([]byte(l.Consumer.Name))
	part(l.ClaimID[:])
	part([]byte(l.Topic))
	part([]byte(l.MessageID))
	part(l.Payload)
	return [16]byte(hash.Sum(nil)[:16])
}
