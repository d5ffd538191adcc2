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
	"github.com/oncebox/oncebox/store/postgres"
)

// The columns, in the order of the table. The last must balance.
var columns = []string{columnPlain, columnDeduplicator, columnOncebox}

const (
	columnPlain        = "plain"
	columnDeduplicator = "deduplicator"
	columnOncebox      = "oncebox"
)

// protect returns the handler and the middleware of a column.
func protect(column string, pool *pgxpool.Pool, b biller) (message.NoPublishHandlerFunc, message.HandlerMiddleware, error) {
	switch column {
	case columnPlain:
		return ownTransaction(pool, b), func(next message.HandlerFunc) message.HandlerFunc { return next }, nil
	case columnDeduplicator:
		deduplicator, err := rememberOrders()
		return ownTransaction(pool, b), deduplicator, err
	case columnOncebox:
		billing, err := claimOrders(pool, b.schema)
		return claimedTransaction(b), billing, err
	}
	return nil, nil, fmt.Errorf("there is no column %q", column)
}

// ownTransaction is the handler as one writes it first.
func ownTransaction(pool *pgxpool.Pool, b biller) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		return pgx.BeginFunc(msg.Context(), pool, func(tx pgx.Tx) error { return b.bill(msg.Context(), tx, msg) })
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
func claimOrders(pool *pgxpool.Pool, schema string) (message.HandlerMiddleware, error) {
	st, err := postgres.New(pool, postgres.Config{Schema: schema})
	if err != nil {
		return nil, err
	}
	billing, err := consumer.New(st, consumer.Config{
		Name:      "billing",
		Key:       consumer.Metadata(headerOrder),
		BusyHold:  time.Second,
		NackDelay: 50 * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	return billing.Middleware, nil
}

// claimedTransaction is the handler that writes where its claim is.
func claimedTransaction(b biller) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		tx, err := postgres.TxFrom(msg.Context())
		if err != nil {
			return err
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
func markRun(handle message.NoPublishHandlerFunc) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		if ran, ok := msg.Context().Value(ranKey{}).(*bool); ok {
			*ran = true
		}
		return handle(msg)
	}
}
