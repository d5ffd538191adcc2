package outbox

import (
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/oncebox/oncebox/store"
)

// Publisher is a message.Publisher that stores messages in the transaction of the handler
// that publishes them. It is safe for concurrent use.
type Publisher struct {
	to     store.Appender
	config Config
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher returns a publisher with the zero [Config].
func NewPublisher(to store.Appender) *Publisher { return &Publisher{to: to} }

// NewPublisherWith returns a publisher with a configuration.
func NewPublisherWith(to store.Appender, config Config) *Publisher {
	return &Publisher{to: to, config: config}
}

// Publish stores the messages, each in the transaction that its context carries: make it
// msg.SetContext(ctx) with the context of the message that is handled. It fails with
// [store.ErrNoTx] for a message without one, and with [store.ErrTxClosed] after the handler
// has returned. Messages before the first that fails are stored.
func (p *Publisher) Publish(topic string, msgs ...*message.Message) error {
	if p.to == nil {
		return errors.New("publish: store: missing")
	}
	for i, msg := range msgs {
		encoded, err := p.config.Encode(msg.Context(), topic, msg)
		if err == nil {
			err = p.to.Append(msg.Context(), encoded)
		}
		if err != nil {
			return fmt.Errorf("publish message %d of %d: %w", i+1, len(msgs), err)
		}
	}
	return nil
}

// Close does nothing: the router closes its publishers while handlers still run.
func (p *Publisher) Close() error { return nil }
