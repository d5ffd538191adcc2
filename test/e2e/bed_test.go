package e2e_test

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/internal/pgtest"
	"github.com/oncebox/oncebox/migrations"
	"github.com/oncebox/oncebox/store/postgres"
)

// bed is a migrated schema with a table of effects.
type bed struct {
	t  *testing.T
	db *pgtest.DB
}

func setup(t *testing.T) *bed {
	t.Helper()
	db := pgtest.Open(t)
	err := db.Pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
		return migrations.Up(t.Context(), conn.Conn(), migrations.Options{Schema: db.Schema})
	})
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `CREATE TABLE `+pgx.Identifier{db.Schema, "effect"}.Sanitize()+` (order_id text NOT NULL)`)
	require.NoError(t, err)
	return &bed{t: t, db: db}
}

// consumer makes the consumer "billing" on pool, keyed by the metadata order_id and with
// waits that suit a test. change may be nil.
func (b *bed) consumer(pool *pgxpool.Pool, change func(*consumer.Config)) *consumer.Consumer {
	b.t.Helper()
	billing, err := newBilling(pool, b.db.Schema, change)
	require.NoError(b.t, err)
	return billing
}

func newBilling(pool *pgxpool.Pool, schema string, change func(*consumer.Config)) (*consumer.Consumer, error) {
	st, err := postgres.New(pool, postgres.Config{Schema: schema})
	if err != nil {
		return nil, err
	}
	config := consumer.Config{
		Name: "billing", Key: consumer.Metadata("order_id"),
		BusyHold: 10 * time.Millisecond, NackDelay: time.Millisecond, ShutdownGrace: patience,
	}
	if change != nil {
		change(&config)
	}
	return consumer.New(st, config)
}

// pool opens a pool of its own on the test's schema.
func (b *bed) pool(size int32, change func(*pgxpool.Config)) *pgxpool.Pool {
	b.t.Helper()
	config := b.db.Pool.Config()
	config.MaxConns = size
	if change != nil {
		change(config)
	}
	pool, err := pgxpool.NewWithConfig(b.t.Context(), config)
	require.NoError(b.t, err)
	b.t.Cleanup(pool.Close)
	return pool
}

// insert writes the effect of an order in the transaction that ctx carries.
func insert(ctx context.Context, schema, order string) error {
	tx, err := postgres.TxFrom(ctx)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO `+pgx.Identifier{schema, "effect"}.Sanitize()+` (order_id) VALUES ($1)`, order)
	return err
}

// write is the handler of most tests: it inserts the message's order.
func (b *bed) write(msg *message.Message) ([]*message.Message, error) {
	return nil, insert(msg.Context(), b.db.Schema, msg.Metadata.Get("order_id"))
}

func order(id string) *message.Message {
	msg := message.NewMessage(watermill.NewUUID(), message.Payload(`{}`))
	msg.Metadata.Set("order_id", id)
	return msg
}

// onceEach checks that exactly these orders took effect, each once.
func (b *bed) onceEach(orders ...string) {
	b.t.Helper()
	wanted := make(map[string]int, len(orders))
	for _, one := range orders {
		wanted[one] = 1
	}
	require.Equal(b.t, wanted, b.db.Counts(b.t, `SELECT order_id, count(*)::int FROM %s GROUP BY 1`, "effect"))
}

// letters counts dead letters by class.
func (b *bed) letters() map[string]int {
	b.t.Helper()
	return b.db.Counts(b.t, `SELECT class, count(*)::int FROM %s GROUP BY 1`, "dead_letter")
}

// attempts counts the failures that were held against messages.
func (b *bed) attempts() map[string]int {
	b.t.Helper()
	return b.db.Counts(b.t, `SELECT class, sum(attempts)::int FROM %s GROUP BY 1`, "inbox_attempt")
}

// claims counts the claims that are held.
func (b *bed) claims() int {
	b.t.Helper()
	return b.db.Counts(b.t, `SELECT 'all', count(*)::int FROM %s`, "claims")["all"]
}
