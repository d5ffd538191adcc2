package outbox_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/internal/pgtest"
	"github.com/oncebox/oncebox/migrations"
	"github.com/oncebox/oncebox/outbox"
	"github.com/oncebox/oncebox/store"
	"github.com/oncebox/oncebox/store/postgres"
)

// patience bounds every wait for a fact.
const patience = 20 * time.Second

// bed is a migrated schema with a store, and a sink that remembers.
type bed struct {
	t    *testing.T
	db   *pgtest.DB
	st   *postgres.Store
	sink *memorySink
}

func setup(t *testing.T) *bed {
	t.Helper()
	db := pgtest.Open(t)
	err := db.Pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
		return migrations.Up(t.Context(), conn.Conn(), migrations.Options{Schema: db.Schema})
	})
	require.NoError(t, err)
	st, err := postgres.New(db.Pool, postgres.Config{Schema: db.Schema})
	require.NoError(t, err)
	return &bed{t: t, db: db, st: st, sink: newMemorySink()}
}

// append commits messages in a transaction of their own.
func (b *bed) append(messages ...outbox.Message) {
	b.t.Helper()
	err := pgx.BeginFunc(b.t.Context(), b.db.Pool, func(tx pgx.Tx) error {
		return outbox.Append(b.t.Context(), b.st.Tx(tx), messages...)
	})
	require.NoError(b.t, err)
}

// run starts a relay; stop ends it and waits. change may be nil.
func (b *bed) run(change func(*outbox.RelayConfig)) (stop func()) {
	b.t.Helper()
	return b.runOn(b.st, b.sink, change)
}

func (b *bed) runOn(st store.Outbox, sink outbox.Sink, change func(*outbox.RelayConfig)) (stop func()) {
	b.t.Helper()
	config := outbox.RelayConfig{
		PollMax: 20 * time.Millisecond, LeaseFor: time.Second,
		RetryMin: 5 * time.Millisecond, RetryMax: 50 * time.Millisecond,
	}
	if change != nil {
		change(&config)
	}
	relay, err := outbox.NewRelay(st, sink, config)
	require.NoError(b.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				b.t.Errorf("Run: %v", err)
			}
		})
	}
	b.t.Cleanup(stop)
	return stop
}

// eventually waits for a fact and prints the last state when it does not come.
func (b *bed) eventually(fact func() bool, state func() string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); !fact(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("not in time; last state: %s", state())
		}
	}
}

// published waits until the sink has exactly these payloads, in any order.
func (b *bed) published(payloads ...string) {
	b.t.Helper()
	b.eventually(func() bool { return len(b.sink.payloads()) >= len(payloads) },
		func() string { return fmt.Sprint(b.sink.payloads()) })
	require.ElementsMatch(b.t, payloads, b.sink.payloads())
}

// text is a message with a payload.
func text(key, payload string) outbox.Message {
	return outbox.Message{Topic: "topic", Key: key, Payload: []byte(payload)}
}

// memorySink remembers what was published. fail may answer for a message.
type memorySink struct {
	mu   sync.Mutex
	sent []store.Outgoing
	fail func(store.Outgoing) error
}

func newMemorySink() *memorySink { return &memorySink{} }

func (s *memorySink) Publish(_ context.Context, page outbox.Page) []error {
	return outbox.PublishChains(page.Messages, 4, func(one store.Outgoing) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.fail != nil {
			if err := s.fail(one); err != nil {
				return err
			}
		}
		s.sent = append(s.sent, one)
		return nil
	})
}

// failWith changes how the sink fails.
func (s *memorySink) failWith(fail func(store.Outgoing) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

func (s *memorySink) messages() []store.Outgoing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]store.Outgoing(nil), s.sent...)
}

func (s *memorySink) payloads() []string {
	var all []string
	for _, one := range s.messages() {
		all = append(all, string(one.Payload))
	}
	return all
}

// payloadsOf are those of one key, in order.
func (s *memorySink) payloadsOf(key string) []string {
	var all []string
	for _, one := range s.messages() {
		if one.Key == key {
			all = append(all, string(one.Payload))
		}
	}
	return all
}
