package consumer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

// FingerprintFunc digests what must not differ between messages of one key. An error
// quarantines the message.
type FingerprintFunc func(msg *message.Message) (dedup.Fingerprint, error)

// ErrNoOutbox says that a handler returned messages to publish. They could only be
// published before or after COMMIT, and so be doubled or lost.
var ErrNoOutbox = errors.New("handler returned messages, which can't be published once: there is no outbox; return none")

// Middleware makes next take effect once for each intent. It is the innermost middleware
// but for those that [Chain] puts inside it.
func (c *Consumer) Middleware(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		return c.handleMessage(msg, next)
	}
}

// handleMessage runs handler for msg inside the engine. It returns messages only in
// observe mode, in which everything goes on as if oncebox were not there.
func (c *Consumer) handleMessage(msg *message.Message, handler message.HandlerFunc) (produced []*message.Message, err error) {
	ctx := msg.Context()
	defer msg.SetContext(ctx) // whoever retries must not see a transaction that has ended

	d := c.newDelivery(func(ctx context.Context) (err error) {
		produced, err = c.runGuarded(ctx, msg, handler)
		return err
	})
	d.letter, d.broker = c.letterOf(msg), nackDelayOf(msg)
	if err := c.identifyMessage(d, msg); err != nil {
		if !c.identity.Shadow {
			return nil, c.quarantine(ctx, d, dedup.ClassInvalidKey, err)
		}
		event := d.event(EventObserved)
		event.Class = dedup.ClassInvalidKey
		c.tell(ctx, event)
		// Something has to be claimed for the handler to have its transaction.
		_, _ = rand.Read(d.claim.ID[:]) // never fails
	}
	err = c.handle(ctx, d)
	if err != nil || !c.identity.Shadow {
		return nil, err
	}
	return produced, nil
}

func (c *Consumer) identifyMessage(d *delivery, msg *message.Message) error {
	key, err := c.config.Key.Key(msg)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if err := c.identify(d, key); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if c.config.Fingerprint != nil {
		if d.claim.Fingerprint, err = c.config.Fingerprint(msg); err != nil {
			return fmt.Errorf("fingerprint: %w", err)
		}
	}
	d.letter.ClaimID = d.claim.ID
	return nil
}

// letterOf is the whole message, for the day on which it is given up.
func (c *Consumer) letterOf(msg *message.Message) *store.DeadLetter {
	return &store.DeadLetter{
		Consumer: c.identity, Topic: message.SubscribeTopicFromCtx(msg.Context()), MessageID: msg.UUID,
		Metadata: maps.Clone(map[string]string(msg.Metadata)), Payload: msg.Payload,
	}
}
