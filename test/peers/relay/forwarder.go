package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
)

// counter is a publisher that does nothing but count.
type counter struct{ count atomic.Int64 }

func (c *counter) Publish(_ string, messages ...*message.Message) error {
	c.count.Add(int64(len(messages)))
	return nil
}

func (c *counter) Close() error { return nil }

// forward fills the table of Watermill's forwarder and measures, for a while, how fast it
// forwards, with all its defaults.
func (b *bed) forward(ctx context.Context, messages int, during time.Duration) (float64, error) {
	topic := fmt.Sprintf("peers_%d", time.Now().UnixNano())
	schema := sql.DefaultPostgreSQLSchema{}
	if err := b.fillForwarder(ctx, schema, topic, messages); err != nil {
		return 0, fmt.Errorf("fill: %w", err)
	}
	defer func() { _, _ = b.pool.Exec(context.WithoutCancel(ctx), `DROP TABLE `+schema.MessagesTable(topic)) }()
	subscriber, err := sql.NewSubscriber(sql.BeginnerFromPgx(b.pool), sql.SubscriberConfig{
		SchemaAdapter: schema, OffsetsAdapter: sql.DefaultPostgreSQLOffsetsAdapter{}, InitializeSchema: true,
	}, watermill.NopLogger{})
	if err != nil {
		return 0, err
	}
	to := &counter{}
	fwd, err := forwarder.NewForwarder(subscriber, to, watermill.NopLogger{}, forwarder.Config{ForwarderTopic: topic, CloseTimeout: time.Second})
	if err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- fwd.Run(ctx) }()
	for to.count.Load() < int64(messages) && time.Since(began) < during {
		time.Sleep(5 * time.Millisecond)
	}
	rate := float64(to.count.Load()) / time.Since(began).Seconds()
	if err := fwd.Close(); err != nil {
		return 0, err
	}
	return rate, <-ended
}

func (b *bed) fillForwarder(ctx context.Context, schema sql.SchemaAdapter, topic string, messages int) error {
	inner, err := sql.NewPublisher(sql.BeginnerFromPgx(b.pool), sql.PublisherConfig{SchemaAdapter: schema, AutoInitializeSchema: true}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	publisher := forwarder.NewPublisher(inner, forwarder.PublisherConfig{ForwarderTopic: topic})
	const atOnce = 5_000
	for done := 0; done < messages; done += atOnce {
		batch := make([]*message.Message, min(atOnce, messages-done))
		for i := range batch {
			batch[i] = message.NewMessage(watermill.NewUUID(), payload)
			batch[i].Metadata.Set("correlation_id", "0123456789")
		}
		if err := publisher.Publish("invoices.issued", batch...); err != nil {
			return err
		}
	}
	_, err = b.pool.Exec(ctx, `CHECKPOINT`)
	return err
}
