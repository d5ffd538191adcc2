//go:build failpoint

package crash_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/consumer/nats"
	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/internal/failpoint"
	"github.com/oncebox/oncebox/store/postgres"
)

// What a worker is told by its environment.
const (
	workerVariable = "ONCEBOX_CRASH_WORKER" // the stream to work on
	schemaVariable = "ONCEBOX_CRASH_SCHEMA"
)

// A message with this payload fails its first run for a transient reason.
const failsFirst = "fails first"

// A message with this payload fails for good.
const failsForGood = "fails for good"

// work consumes the stream until the process is killed.
func work(ctx context.Context) error {
	stream, schema := os.Getenv(workerVariable), os.Getenv(schemaVariable)
	pool, err := pgxpool.New(ctx, os.Getenv("ONCEBOX_POSTGRES_DSN"))
	if err != nil {
		return err
	}
	defer pool.Close()
	st, err := postgres.New(pool, postgres.Config{Schema: schema})
	if err != nil {
		return err
	}
	billing, err := consumer.New(st, consumer.Config{
		Name:           "billing",
		Key:            consumer.Metadata("order_id"),
		HandlerTimeout: ackWait / 2,
		NackDelay:      10 * time.Millisecond,
		BusyHold:       ackWait,
	})
	if err != nil {
		return err
	}
	sub, err := nats.NewSubscriber(nats.Config{
		URL: os.Getenv("ONCEBOX_NATS_URL"), Stream: stream, Durable: "billing",
		AckWait: ackWait, NackDelay: 10 * time.Millisecond, Concurrency: 4,
	})
	if err != nil {
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	router.AddConsumerHandler("billing", stream, sub, handler(schema)).AddMiddleware(billing.Middleware)
	return router.Run(ctx)
}

// handler writes one effect for each order.
func handler(schema string) message.NoPublishHandlerFunc {
	effect := pgx.Identifier{schema, "effect"}.Sanitize()
	attempt := pgx.Identifier{schema, "inbox_attempt"}.Sanitize()
	return func(msg *message.Message) error {
		ctx, order := msg.Context(), msg.Metadata.Get("order_id")
		tx, err := postgres.TxFrom(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO `+effect+` (order_id) VALUES ($1)`, order); err != nil {
			return fmt.Errorf("insert effect: %w", err)
		}
		failpoint.Hit(failpoint.Written)
		switch string(msg.Payload) {
		case failsForGood:
			return dedup.Permanent(errors.New("this order can't be billed"))
		case failsFirst:
			var failed bool
			if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+attempt+`)`).Scan(&failed); err != nil {
				return err
			}
			if !failed {
				return errors.New("not yet")
			}
		}
		return nil
	}
}
