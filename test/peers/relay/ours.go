package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncebox/oncebox/migrations"
	"github.com/oncebox/oncebox/outbox"
	"github.com/oncebox/oncebox/store/postgres"
)

// nowhere is a sink that does nothing but count. A closed gate holds it up.
type nowhere struct {
	count atomic.Int64
	gate  chan struct{}
	on    func(outbox.Page)
}

func (n *nowhere) Publish(_ context.Context, page outbox.Page) []error {
	if n.gate != nil {
		<-n.gate
	}
	n.count.Add(int64(len(page.Messages)))
	if n.on != nil {
		n.on(page)
	}
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

// drain fills the outbox while a relay runs whose sink is held up, and measures how fast it
// drains from then on, windows included.
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
	sink := &nowhere{gate: make(chan struct{})}
	drained, stop, err := start(ctx, st, sink, messages)
	if err != nil {
		return 0, err
	}
	defer stop()
	if err := b.fill(ctx, messages); err != nil {
		return 0, err
	}
	began := time.Now()
	close(sink.gate)
	if err := drained(); err != nil {
		return 0, err
	}
	return float64(messages) / time.Since(began).Seconds(), nil
}

// start runs a relay. drained waits until the sink has as many messages.
func start(ctx context.Context, st *postgres.Store, sink *nowhere, messages int) (drained func() error, stop func(), err error) {
	relay, err := outbox.NewRelay(st, sink, outbox.RelayConfig{})
	if err != nil {
		return nil, nil, err
	}
	done := make(chan struct{})
	var once sync.Once
	sink.on = func(outbox.Page) {
		if sink.count.Load() >= int64(messages) {
			once.Do(func() { close(done) })
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	drained = func() error {
		select {
		case <-done:
			return nil
		case err := <-ended:
			return err
		case <-time.After(10 * time.Minute):
			return fmt.Errorf("drained %d of %d messages in 10 minutes", sink.count.Load(), messages)
		}
	}
	return drained, func() { cancel(); <-ended }, nil
}
