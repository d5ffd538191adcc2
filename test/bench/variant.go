package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/outbox"
	"github.com/oncebox/oncebox/store"
	"github.com/oncebox/oncebox/store/postgres"
)

// variant is one way to handle a message.
type variant struct {
	name   string
	handle message.HandlerFunc
	next   func() *message.Message
	// between, if any, comes before each message when the variant runs alone, uncounted.
	between func() *message.Message
}

// The variants, in the order of the tables.
const (
	bare      = iota // BEGIN, INSERT, COMMIT by hand
	ordered          // oncebox with a stable time: claims lie in time order
	random           // oncebox with random keys
	sending          // the same, and the handler sends a message through the outbox
	duplicate        // oncebox with keys that are claimed already, among new ones
	replay           // oncebox with nothing but keys that are claimed already
)

// claimedBefore is how many keys the duplicates are drawn from.
const claimedBefore = 10_000

const keyName = "order_id"

// body makes the business row about 300 bytes long.
var body = strings.Repeat("x", 240)

func newVariants(ctx context.Context, pool *pgxpool.Pool, st *postgres.Store) ([]variant, error) {
	inTime, err := newConsumer(st, "ordered", consumer.WithTime(consumer.Metadata(keyName), timeOf))
	if err != nil {
		return nil, err
	}
	plain, err := newConsumer(st, "random", consumer.Metadata(keyName))
	if err != nil {
		return nil, err
	}
	again, err := newConsumer(st, "replay", consumer.Metadata(keyName))
	if err != nil {
		return nil, err
	}
	for i := range claimedBefore {
		for _, one := range []*consumer.Consumer{plain, again} {
			msg := newMessage(claimedKey(i))
			msg.SetContext(ctx)
			if _, err := one.Middleware(writeClaimed)(msg); err != nil {
				return nil, fmt.Errorf("claim keys for duplicates: %w", err)
			}
		}
	}
	return []variant{
		bare:      {name: "bare handler", handle: writeBare(pool), next: randomMessage},
		ordered:   {name: "oncebox, time-ordered keys", handle: inTime.Middleware(writeClaimed), next: orderedMessage},
		random:    {name: "oncebox, random keys", handle: plain.Middleware(writeClaimed), next: randomMessage},
		sending:   {name: "oncebox, random keys, one message sent", handle: plain.Middleware(writeAndSend(st)), next: randomMessage},
		duplicate: {name: "oncebox, duplicate among new", handle: plain.Middleware(writeClaimed), next: claimedMessage, between: randomMessage},
		replay:    {name: "oncebox, run of duplicates", handle: again.Middleware(writeClaimed), next: claimedMessage},
	}, nil
}

func newConsumer(st store.Inbox, name string, key consumer.Keyer) (*consumer.Consumer, error) {
	return consumer.New(st, consumer.Config{Name: name, Key: key, StoreRetries: -1})
}

// writeBare is the handler as one writes it without protection.
func writeBare(pool *pgxpool.Pool) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		return nil, pgx.BeginFunc(msg.Context(), pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(msg.Context(), insertInvoice, rand.Int64(), body)
			return err
		})
	}
}

// writeClaimed is the same handler inside the claim's transaction.
func writeClaimed(msg *message.Message) ([]*message.Message, error) {
	tx, err := postgres.TxFrom(msg.Context())
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(msg.Context(), insertInvoice, rand.Int64(), body)
	return nil, err
}

// writeAndSend is the same handler, which tells of its invoice.
func writeAndSend(st *postgres.Store) message.HandlerFunc {
	publisher := outbox.NewPublisher(st)
	return func(msg *message.Message) ([]*message.Message, error) {
		if _, err := writeClaimed(msg); err != nil {
			return nil, err
		}
		event := message.NewMessage(uuid.NewString(), []byte(body))
		event.Metadata.Set(outbox.MetadataKey, "account-7")
		event.SetContext(msg.Context())
		return nil, publisher.Publish("invoices.issued", event)
	}
}

func newMessage(key string) *message.Message {
	msg := message.NewMessage(key, nil)
	msg.Metadata.Set(keyName, key)
	return msg
}

func randomMessage() *message.Message { return newMessage(uuid.NewString()) }

func orderedMessage() *message.Message {
	msg := randomMessage()
	msg.Metadata.Set("created", strconv.FormatInt(time.Now().UnixMilli(), 10))
	return msg
}

func timeOf(msg *message.Message) (time.Time, error) {
	ms, err := strconv.ParseInt(msg.Metadata.Get("created"), 10, 64)
	return time.UnixMilli(ms), err
}

func claimedMessage() *message.Message { return newMessage(claimedKey(rand.IntN(claimedBefore))) }

func claimedKey(i int) string { return fmt.Sprint("claimed-", i) }
