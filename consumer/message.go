package consumer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/outbox"
	"github.com/oncebox/oncebox/store"
)

// FingerprintFunc digests what must not differ between messages of one key. An error
// quarantines the message.
type FingerprintFunc func(msg *message.Message) (dedup.Fingerprint, error)

// Errors of messages that a handler returned, which are never published beside COMMIT.
var (
	// ErrNoOutbox says that the store keeps no messages.
	ErrNoOutbox = errors.New("handler returned messages, and the store has no outbox for them")
	// ErrNoTopic says that the handler was added without a topic to publish to.
	ErrNoTopic = errors.New("handler returned messages, and has no topic to publish them to: add it by AddHandler, or publish through outbox.Publisher")
)

// Middleware makes next take effect once for each intent. It is the innermost middleware
// but for those that [Chain] puts inside it.
func (c *Consumer) Middleware(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		return c.handleMessage(msg, next)
	}
}

// handleMessage runs handler for msg inside the engine. What the handler returns is stored
// in its transaction. It returns messages only in observe mode, in which everything goes on
// as if oncebox were not there.
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

// send stores what the handler returned in its transaction, which ctx carries. The message's
// own context may have ended with the handler.
func (c *Consumer) send(ctx context.Context, produced []*message.Message) error {
	if len(produced) == 0 {
		return nil
	}
	to, ok := c.store.(store.Appender)
	if !ok {
		return ErrNoOutbox
	}
	topic := message.PublishTopicFromCtx(ctx)
	if topic == "" {
		return ErrNoTopic
	}
	encoded, err := c.config.Outbox.EncodeAll(ctx, topic, produced...)
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return to.Append(ctx, encoded...)
}

// publishesToOutbox reports whether the router would hand the handler's messages to an
// outbox, which can take them only inside the transaction.
func publishesToOutbox(ctx context.Context) bool {
	return message.PublisherNameFromCtx(ctx) == fmt.Sprintf("%T", outbox.Publisher{})
}
