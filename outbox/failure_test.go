package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/outbox"
	"github.com/oncebox/oncebox/store"
	"github.com/oncebox/oncebox/store/memory"
	"github.com/oncebox/oncebox/store/postgres"
)

// counts counts the events of relays by kind.
type counts map[outbox.EventKind]*atomic.Int64

func newCounts(kinds ...outbox.EventKind) counts {
	c := make(counts)
	for _, kind := range kinds {
		c[kind] = new(atomic.Int64)
	}
	return c
}

func (c counts) count(_ context.Context, e outbox.Event) {
	if counter := c[e.Kind]; counter != nil {
		counter.Add(1)
	}
}

func TestRelay_AMessageThatLooksLikeAnOutageIsBlamedWhenOthersGetThrough(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sink.failWith(func(one store.Outgoing) error {
		if string(one.Payload) == "hangs" {
			return fmt.Errorf("%w: timeout", outbox.ErrOutage)
		}
		return nil
	})
	b.append(text("bad", "hangs"))
	b.run(func(c *outbox.RelayConfig) { c.MaxAttempts = 2 })
	for i := 0; b.parked()["dead"] == 0; i++ {
		b.append(text(fmt.Sprint("key-", i), fmt.Sprint(i)))
		time.Sleep(20 * time.Millisecond)
		require.Less(t, i, 500, "it is never given up: %v", b.parked())
	}
	require.NotEmpty(t, b.sink.payloads())
}

// reborn is a store whose server seems to be another one at some point.
type reborn struct {
	store.Outbox
	since atomic.Int64
}

func (r *reborn) Open(ctx context.Context, beginnings []string) (store.Opening, error) {
	opening, err := r.Outbox.Open(ctx, beginnings)
	opening.Incarnation += fmt.Sprint(r.since.Load())
	return opening, err
}

func TestRelay_BeginsAnewOnAnotherServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	st := &reborn{Outbox: b.st}
	seen := newCounts(outbox.EventFailed)
	b.append(text("a", "1"))
	b.runOn(st, b.sink, func(c *outbox.RelayConfig) { c.OnEvent = seen.count })
	b.published("1")
	st.since.Add(1)
	b.append(text("a", "2"))
	b.published("1", "2")
	require.Positive(t, seen[outbox.EventFailed].Load())
}

func TestRelay_RefusesARestoredOutbox(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.db.Pool.Exec(t.Context(), `UPDATE "`+b.db.Schema+`".outbox_origin SET system_identifier = 1`)
	require.NoError(t, err)
	relay, err := outbox.NewRelay(b.st, b.sink, outbox.RelayConfig{})
	require.NoError(t, err)
	require.ErrorIs(t, relay.Run(t.Context()), store.ErrRestored)
}

// broken fails now and then, at every kind of call.
type broken struct {
	store.Outbox
	calls atomic.Int64
}

var errBroken = errors.New("broken")

func (b *broken) fails() bool { return b.calls.Add(1)%7 == 0 }

func (b *broken) SaveAndRead(ctx context.Context, c store.Cursor, limit store.Limit) (store.Page, error) {
	if b.fails() {
		return store.Page{}, errBroken
	}
	return b.Outbox.SaveAndRead(ctx, c, limit)
}

func (b *broken) Save(ctx context.Context, c store.Cursor) error {
	if b.fails() {
		return errBroken
	}
	return b.Outbox.Save(ctx, c)
}

func (b *broken) Open(ctx context.Context, beginnings []string) (store.Opening, error) {
	if b.fails() {
		return store.Opening{}, errBroken
	}
	return b.Outbox.Open(ctx, beginnings)
}

func TestRelay_ADatabaseThatFailsLosesAndReordersNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	st := &broken{Outbox: b.st}
	b.runOn(st, b.sink, nil)
	for i := range 60 {
		b.append(text("a", fmt.Sprint(i)))
	}
	distinct := func() (order []string) {
		seen := make(map[string]bool)
		for _, one := range b.sink.payloads() {
			if !seen[one] {
				seen[one] = true
				order = append(order, one)
			}
		}
		return order
	}
	b.eventually(func() bool { return len(distinct()) == 60 }, func() string { return fmt.Sprint(distinct()) })
	for i, one := range distinct() {
		require.Equal(t, fmt.Sprint(i), one)
	}
}

func TestRelay_AnOperatorsRetryIsSeen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sink.failWith(func(store.Outgoing) error { return errors.New("no") })
	seen := newCounts(outbox.EventParked, outbox.EventDead, outbox.EventHeldUp)
	b.append(text("a", "1"))
	b.run(func(c *outbox.RelayConfig) { c.MaxAttempts, c.OnEvent = 1, seen.count })
	b.eventually(func() bool { return b.parked()["dead"] == 1 }, func() string { return fmt.Sprint(b.parked()) })
	require.EqualValues(t, 1, seen[outbox.EventParked].Load())
	require.EqualValues(t, 1, seen[outbox.EventDead].Load())
	b.sink.failWith(nil)
	dead, err := b.st.ListParked(t.Context(), 0, 10, true)
	require.NoError(t, err)
	require.NoError(t, b.st.RetryParked(t.Context(), store.Order{Number: dead[0].Number, Who: "ann", Why: "mended"}))
	b.published("1")
	require.Positive(t, seen[outbox.EventHeldUp].Load())
}

func TestRelay_WorksOnEveryStore(t *testing.T) {
	t.Parallel()
	t.Run("database/sql", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		pool := stdlib.OpenDBFromPool(b.db.Pool)
		t.Cleanup(func() { require.NoError(t, pool.Close()) })
		st, err := postgres.NewSQL(pool, postgres.Config{Schema: b.db.Schema})
		require.NoError(t, err)
		stop := b.runOn(st, b.sink, nil)
		defer stop()
		tx, err := pool.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, outbox.Append(t.Context(), st.Tx(tx), text("a", "1"), text("a", "2")))
		require.NoError(t, tx.Commit())
		b.published("1", "2")
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		b := &bed{t: t, sink: newMemorySink()}
		st := memory.New()
		b.runOn(st, b.sink, nil)
		unit, _, err := st.Begin(t.Context(), store.Claim{ID: [16]byte{1}, Consumer: store.Consumer{Name: "c", Retention: time.Hour}})
		require.NoError(t, err)
		require.NoError(t, outbox.Append(unit.Context(t.Context()), st, text("a", "1"), text("a", "2")))
		require.NoError(t, unit.Commit(t.Context()))
		b.published("1", "2")
	})
}

func TestNewRelay_EachWrongFieldIsNamed(t *testing.T) {
	t.Parallel()
	b := &bed{t: t, sink: newMemorySink()}
	for field, config := range map[string]outbox.RelayConfig{
		"PageMessages":       {PageMessages: -1},
		"PageBytes":          {PageBytes: -1},
		"LeaseFor":           {LeaseFor: time.Millisecond},
		"PollMax":            {PollMax: time.Hour},
		"MaxAttempts":        {MaxAttempts: -1},
		"RetryMin, RetryMax": {RetryMin: time.Hour, RetryMax: time.Second},
		"ShutdownGrace":      {ShutdownGrace: -1},
		"OnDead":             {OnDead: "forget"},
	} {
		_, err := outbox.NewRelay(memory.New(), b.sink, config)
		require.ErrorContains(t, err, field+": ")
	}
	_, err := outbox.NewRelay(nil, b.sink, outbox.RelayConfig{})
	require.ErrorContains(t, err, "missing")
}

func TestRelay_ASlowHookStopsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 32 {
		b.append(text(fmt.Sprint("key-", i), fmt.Sprint(i)))
	}
	seen := newCounts(outbox.EventFenced)
	b.run(func(c *outbox.RelayConfig) {
		c.OnEvent = func(ctx context.Context, e outbox.Event) {
			seen.count(ctx, e)
			time.Sleep(2 * time.Millisecond)
		}
	})
	b.eventually(func() bool { return len(b.sink.messages()) == 32 }, func() string { return fmt.Sprint(len(b.sink.messages())) })
	require.Zero(t, seen[outbox.EventFenced].Load())
}

// A broker that comes and goes lets one message through now and then.
func TestRelay_AnOutageWithASingleSuccessBlamesNobody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var tries atomic.Int64
	b.sink.failWith(func(store.Outgoing) error {
		if tries.Add(1) == 12 {
			return nil
		}
		return fmt.Errorf("%w: gone", outbox.ErrOutage)
	})
	for i := range 160 {
		b.append(text(fmt.Sprint("key-", i), fmt.Sprint(i)))
	}
	b.run(func(c *outbox.RelayConfig) { c.MaxAttempts = 1 })
	b.eventually(func() bool { return tries.Load() > 14 }, func() string { return fmt.Sprint(tries.Load()) })
	require.Empty(t, b.parked())
	b.sink.failWith(nil)
	b.eventually(func() bool { return len(b.sink.messages()) >= 160 }, func() string { return fmt.Sprint(len(b.sink.messages())) })
	require.Empty(t, b.parked())
}
