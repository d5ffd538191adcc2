package outbox

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Metadata by which a Watermill message says how it is to be stored. It is not sent.
const (
	// MetadataKey is the ordering key.
	MetadataKey = "oncebox_ordering_key"
	// MetadataDelay is how long the message is kept back, as time.Duration prints it.
	MetadataDelay = "oncebox_delay"
)

// Config says how Watermill messages become messages of the outbox. The zero Config works.
type Config struct {
	// Key returns a message's ordering key, empty for none. Defaults to the metadata
	// [MetadataKey].
	Key func(topic string, msg *message.Message) string
	// LockKeys makes transactions that send under one key take turns, from the append until
	// their COMMIT. Without it, order holds for transactions that lock the same row before
	// they append. Defaults to false.
	LockKeys bool
}

// Encode makes a message of the outbox of a Watermill message. Its UUID is the id; an empty
// one is derived when it is stored. ctx gives the trace context.
func (c Config) Encode(ctx context.Context, topic string, msg *message.Message) (Message, error) {
	key := msg.Metadata.Get(MetadataKey)
	if c.Key != nil {
		key = c.Key(topic, msg)
	}
	encoded := Message{
		ID: msg.UUID, Topic: topic, Key: key, LockKey: c.LockKeys && key != "",
		Headers: maps.Clone(map[string]string(msg.Metadata)), Payload: msg.Payload,
	}
	delete(encoded.Headers, MetadataKey)
	delete(encoded.Headers, MetadataDelay)
	if text := msg.Metadata.Get(MetadataDelay); text != "" {
		delay, err := time.ParseDuration(text)
		if err != nil {
			return Message{}, fmt.Errorf("metadata %s: %d bytes that are no duration", MetadataDelay, len(text))
		}
		encoded.Delay = delay
	}
	carry(ctx, &encoded)
	return encoded, nil
}

// EncodeAll is Encode for messages of one topic, in order.
func (c Config) EncodeAll(ctx context.Context, topic string, msgs ...*message.Message) ([]Message, error) {
	encoded := make([]Message, len(msgs))
	for i, msg := range msgs {
		var err error
		if encoded[i], err = c.Encode(ctx, topic, msg); err != nil {
			return nil, fmt.Errorf("message %d of %d: %w", i+1, len(msgs), err)
		}
	}
	return encoded, nil
}
