package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/internal/deadline"
	"github.com/oncebox/oncebox/store"
)

// DefaultSchema is where the tables live unless another schema is named.
const DefaultSchema = "oncebox"

// defaultEndTimeout is long for a COMMIT and short for a shutdown.
const defaultEndTimeout = 10 * time.Second

var errEndTimeout = errors.New("time for the end of the transaction is over")

// Config is the configuration of a store. The zero Config works.
type Config struct {
	// Schema holds the tables that package migrations makes. Defaults to "oncebox".
	Schema string
	// EndTimeout bounds COMMIT and ROLLBACK, which are not interrupted when the caller's
	// context is cancelled. A COMMIT that takes longer has an unknown outcome, and its
	// connection is closed. Defaults to 10 s.
	EndTimeout time.Duration
	// MaxMessageBytes bounds a message that is appended to the outbox: topic, id, key, headers
	// and payload together. It must not exceed what the broker takes. Defaults to 1,000,000;
	// at most 64 MiB.
	MaxMessageBytes int
}

// maxMessageBytes keeps pages in memory.
const maxMessageBytes = 64 << 20

func (c Config) withDefaults() (Config, error) {
	var wrong []error
	if c.Schema == "" {
		c.Schema = DefaultSchema
	}
	if len(c.Schema) > 63 {
		wrong = append(wrong, fmt.Errorf("Schema: %d bytes, more than the 63 of a Postgres name", len(c.Schema)))
	}
	if strings.ContainsAny(c.Schema, "\x00\"'") {
		wrong = append(wrong, errors.New("Schema: holds a quote or NUL"))
	}
	if c.MaxMessageBytes == 0 {
		c.MaxMessageBytes = store.DefaultMaxMessageBytes
	}
	if c.MaxMessageBytes < 0 || c.MaxMessageBytes > maxMessageBytes {
		wrong = append(wrong, fmt.Errorf("MaxMessageBytes: %d is not from 1 to %d", c.MaxMessageBytes, maxMessageBytes))
	}
	if c.EndTimeout == 0 {
		c.EndTimeout = defaultEndTimeout
	}
	if c.EndTimeout < 0 {
		wrong = append(wrong, fmt.Errorf("EndTimeout: %v is negative", c.EndTimeout))
	}
	return c, errors.Join(wrong...)
}

// Store keeps claims and an outbox in Postgres through pgx. It implements [store.Inbox],
// [store.DeadLetters], [store.Outbox] and [store.Operator], and is safe for concurrent use.
type Store struct {
	ledger
	pool *pgxpool.Pool
	end  *deadline.Shared
}

// MaxUnits is the size of the pool; see [store.Limited].
func (s *Store) MaxUnits() int { return int(s.pool.Config().MaxConns) }

// MaxTimedRetention is [RingRetention]; see [store.Limited].
func (l *ledger) MaxTimedRetention() time.Duration { return RingRetention }

var (
	_ store.Inbox       = (*Store)(nil)
	_ store.Limited     = (*Store)(nil)
	_ store.DeadLetters = (*Store)(nil)
	_ store.Outbox      = (*Store)(nil)
	_ store.Operator    = (*Store)(nil)
)

// New returns a store on pool. It opens no connection; the tables are made by package
// migrations. A running handler holds one connection, so the pool should have one for each
// message that is handled at once.
func New(pool *pgxpool.Pool, config Config) (*Store, error) {
	if pool == nil {
		return nil, errors.New("open store: pool: missing")
	}
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return &Store{
		ledger: newLedger(config, pgxSource{pool}),
		pool:   pool,
		end:    deadline.New(config.EndTimeout, errEndTimeout),
	}, nil
}

// Classify says what kind of failure err is; see [store.Inbox].
func (l *ledger) Classify(err error) dedup.Class { return classify(err) }

// Now is the database's clock.
func (l *ledger) Now(ctx context.Context) (now time.Time, err error) {
	err = l.source.query(ctx, func(s session) error { return s.row(ctx, l.sql.now, nil, &now) })
	return now, unavailable("read clock", err)
}
