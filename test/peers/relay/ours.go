package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncebox/oncebox/migrations"
	"github.com/oncebox/oncebox/outbox"
	"github.com/oncebox/oncebox/store/postgres"
)

// nowhere is a sink that does nothing but count.
type nowhere struct {
	count atomic.Int64
	on    func(outbox.Page)
}

func (n *nowhere) Publish(_ context.Context, page outbox.Page) []error {
	if n.on != nil {
		n.on(page)
	}
	n.count.Add(int64(len(page.Messages)))
	return make([]error, len(page.Messages))
}

func (b *bed) migrate(ctx context.Context) (*postgres.Store, error) {
	if err := b.drop(ctx); err != nil {
		return nil, err
	}
	err := b.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return migrations.Up(ctx, conn.Conn(), migrations.Options{Schema: schema})
	})
	if err != nil {
		return nil, err
	}
	return postgres.New(b.pool, postgres.Config{Schema: schema})
}

// fillAtOnce is how many messages a transaction appends: a backlog comes of many.
const fillAtOnce = 10_000

// fill appends messages as the library does, but many in a statement. Buckets are spread as
// keys spread them.
func (b *bed) fill(ctx context.Context, messages int) error {
	for done := 0; done < messages; done += fillAtOnce {
		_, err := b.pool.Exec(ctx, fmt.Sprintf(`
INSERT INTO %[1]s.outbox (xid, id, slot, bucket, message_id, topic, ordering_key, headers, payload)
SELECT drawn.xid, drawn.id, (drawn.id >> 20) & 63, hashint8(drawn.id) & 15, gen_random_uuid(), 'invoices.issued', 'account-' || drawn.id %% 5000, '{"correlation_id":"0123456789"}', $1
FROM (
  SELECT own.xid, nextval('%[1]s.outbox_id') AS id
  FROM (SELECT pg_current_xact_id() AS xid OFFSET 0) AS own, generate_series(1, $2::int)
  OFFSET 0
) AS drawn`, schema), payload, min(fillAtOnce, messages-done))
		if err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	_, err := b.pool.Exec(ctx, `CHECKPOINT`)
	return err
}

// drain fills the outbox and measures how fast a relay empties it, from its start to the
// last message, windows and leases included.
func (b *bed) drain(ctx context.Context, messages int, held bool) (float64, error) {
	st, err := b.migrate(ctx)
	if err != nil {
		return 0, err
	}
	if held {
		release, err := b.holdSnapshot(ctx)
		if err != nil {
			return 0, err
		}
		defer release()
	}
	if err := b.fill(ctx, messages); err != nil {
		return 0, err
	}
	sink := &nowhere{}
	began := time.Now()
	if err := runUntil(ctx, st, sink, messages); err != nil {
		return 0, err
	}
	return float64(messages) / time.Since(began).Seconds(), nil
}

// runUntil runs a relay until the sink has as many messages.
func runUntil(ctx context.Context, st *postgres.Store, sink *nowhere, messages int) error {
	relay, err := outbox.NewRelay(st, sink, outbox.RelayConfig{})
	if err != nil {
		return err
	}
	done := make(chan struct{})
	sink.on = func(page outbox.Page) {
		if sink.count.Load()+int64(len(page.Messages)) >= int64(messages) {
			select {
			case <-done:
			default:
				close(done)
			}
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	select {
	case <-done:
	case err := <-ended:
		return err
	case <-time.After(10 * time.Minute):
		return fmt.Errorf("drained %d of %d messages in 10 minutes", sink.count.Load(), messages)
	}
	go func() { stop(); <-ended }() // handing over is not part of it
	return nil
}
