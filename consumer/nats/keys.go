package nats

import (
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/dedup"
)

// ErrNoIdentity is returned by the key functions for a message that lacks what the key is
// made of. It wraps consumer.ErrNoKey, so consumer.FirstOf asks the next.
var ErrNoIdentity = fmt.Errorf("message has no such identity: %w", consumer.ErrNoKey)

// MsgID makes keys of the producer's Nats-Msg-Id, in the scope of the stream. It holds what
// the producer made of it: an id that is made anew for each try protects nothing, and an id
// that is used for two intents loses the second. The stream itself drops repeated ids only
// inside its duplicate window, two minutes by default; the claim does for as long as it is
// kept. A message without the header is an error that wraps ErrNoIdentity.
func MsgID() consumer.Keyer {
	return consumer.KeyFunc(func(msg *message.Message) (dedup.Key, error) {
		return key(msg, MetadataMsgID)
	})
}

// Coordinates makes keys of the message's place in the stream: its sequence and the time at
// which it was stored, in the scope of the stream. Such a key names the stored message, not
// the intent: redeliveries are found, but a producer that publishes twice has two effects.
// The time keeps the sequences of a stream that was deleted and made again apart from the
// old ones. A message that [Unmarshal] did not make is an error that wraps ErrNoIdentity.
func Coordinates() consumer.Keyer {
	return consumer.KeyFunc(func(msg *message.Message) (dedup.Key, error) {
		return key(msg, MetadataSequence, MetadataTimestamp)
	})
}

// key joins the values of the named metadata with @, which none but the last may hold.
func key(msg *message.Message, names ...string) (dedup.Key, error) {
	made := dedup.Key{Scope: msg.Metadata.Get(MetadataStream)}
	if made.Scope == "" {
		return dedup.Key{}, fmt.Errorf("read metadata %s: %w", MetadataStream, ErrNoIdentity)
	}
	for i, name := range names {
		value := msg.Metadata.Get(name)
		if value == "" {
			return dedup.Key{}, fmt.Errorf("read metadata %s: %w", name, ErrNoIdentity)
		}
		if i > 0 {
			made.ID += "@"
		}
		made.ID += value
	}
	return made, nil
}
