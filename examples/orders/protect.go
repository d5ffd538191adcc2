package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/outbox"
	"github.com/oncebox/oncebox/store/postgres"
)

// The columns, in the order of the table. The last must balance.
var columns = []string{columnPlain, columnDeduplicator, columnOncebox}

const (
	columnPlain        = "plain"
	columnDeduplicator = "deduplicator"
	columnOncebox      = "oncebox"
)

// protection is what makes a column: where the handler has its transaction from, what is
// around it, and what becomes of the events that it returns.
type protection struct {
	handle    message.HandlerFunc
	around    message.HandlerMiddleware
	publisher message.Publisher
}

// protect returns the protection of a column. direct publishes to the broker at once.
func protect(column string, pool *pgxpool.Pool, b biller, direct message.Publisher) (protection, error) {
	switch column {
	case columnPlain:
		nothing := func(next message.HandlerFunc) message.HandlerFunc { return next }
		return protection{ownTransaction(pool, b), nothing, direct}, nil
	case columnDeduplicator:
		deduplicator, err := rememberOrders()
		return protection{ownTransaction(pool, b), deduplicator, direct}, err
	case columnOncebox:
		return claimOrders(pool, b)
	}
	return protection{}, fmt.Errorf("there is no column %q", column)
}

// ownTransaction is the handler as one writes it first. The router publishes what it returns
// after its COMMIT.
func ownTransaction(pool *pgxpool.Pool, b biller) message.HandlerFunc {
	return func(msg *message.Message) (events []*message.Message, err error) {
		err = pgx.BeginFunc(msg.Context(), pool, func(tx pgx.Tx) (err error) {
			events, err = b.bill(msg.Context(), tx, msg)
			return err
		})
		return events, err
	}
}

// rememberOrders is Watermill's Deduplicator as its documentation shows it, keyed by order.
// It remembers an order when it comes, before it is handled.
func rememberOrders() (message.HandlerMiddleware, error) {
	seen, err := middleware.NewMapExpiringKeyRepository(time.Hour)
	if err != nil {
		return nil, err
	}
	return (&middleware.Deduplicator{
		KeyFactory: middleware.NewMessageHasherFromMetadataField(headerOrder),
		Repository: seen,
		Timeout:    time.Second,
	}).Middleware, nil
}

// claimOrders is oncebox.
func claimOrders(pool *pgxpool.Pool, b biller) (protection, error) {
	st, err := postgres.New(pool, postgres.Config{Schema: b.schema})
	if err != nil {
		return protection{}, err
	}
	billing, err := consumer.New(st, consumer.Config{
		Name:      "billing",
		Key:       consumer.Metadata(headerOrder),
		BusyHold:  time.Second,
		NackDelay: 50 * time.Millisecond,
	})
	if err != nil {
		return protection{}, err
	}
	return protection{claimedTransaction(b), billing.Middleware, outbox.NewPublisher(st)}, nil
}

// claimedTransaction is the handler that writes where its claim is. What it returns is
// stored there too.
func claimedTransaction(b biller) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		tx, err := postgres.TxFrom(msg.Context())
		if err != nil {
			return nil, err
		}
		return b.bill(msg.Context(), tx, msg)
	}
}

// tally says what became of each delivery: it ran, or it was kept from running. It says so
// at once, so that a kill loses nothing of it.
func tally(say func(string)) message.HandlerMiddleware {
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			ran := false
			msg.SetContext(context.WithValue(msg.Context(), ranKey{}, &ran))
			produced, err := next(msg)
			if err == nil && !ran {
				say(saidBlocked)
			}
			return produced, err
		}
	}
}

type ranKey struct{}

// markRun tells tally that the handler itself was reached.
func markRun(handle message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		if ran, ok := msg.Context().Value(ranKey{}).(*bool); ok {
			*ran = true
		}
		return handle(msg)
	}
}
