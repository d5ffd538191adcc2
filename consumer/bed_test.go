package consumer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
	"github.com/oncebox/oncebox/store/memory"
)

// bed is a consumer on a memory store, which faults can be put into.
type bed struct {
	*consumer.Consumer
	t      *testing.T
	memory *memory.Store
	faulty *faultyStore

	mu     sync.Mutex
	events []consumer.Event
}

// faultyStore fails the next calls with what is put into it.
type faultyStore struct {
	*memory.Store
	mu                        sync.Mutex
	begins, commits, failures []error
	quarantines               []error
	begun                     int
}

func take(faults *[]error) error {
	if len(*faults) == 0 {
		return nil
	}
	fault := (*faults)[0]
	*faults = (*faults)[1:]
	return fault
}

func (f *faultyStore) Begin(ctx context.Context, claim store.Claim) (store.Unit, *store.Held, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun++
	if err := take(&f.begins); err != nil {
		return nil, nil, err
	}
	unit, held, err := f.Store.Begin(ctx, claim)
	if unit != nil {
		unit = faultyUnit{unit, f}
	}
	return unit, held, err
}

func (f *faultyStore) Fail(ctx context.Context, failure store.Failure) (store.Settlement, error) {
	f.mu.Lock()
	err := take(&f.failures)
	f.mu.Unlock()
	if err != nil {
		return store.Settlement{}, err
	}
	return f.Store.Fail(ctx, failure)
}

func (f *faultyStore) Quarantine(ctx context.Context, letter store.DeadLetter) error {
	f.mu.Lock()
	err := take(&f.quarantines)
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return f.Store.Quarantine(ctx, letter)
}

// faultyUnit commits and then says that it does not know, when told to.
type faultyUnit struct {
	store.Unit
	faults *faultyStore
}

func (u faultyUnit) Commit(ctx context.Context) error {
	u.faults.mu.Lock()
	fault := take(&u.faults.commits)
	u.faults.mu.Unlock()
	if err := u.Unit.Commit(ctx); err != nil {
		return err
	}
	return fault
}

func setup(t *testing.T, change func(*consumer.Config)) *bed {
	t.Helper()
	b := &bed{t: t, memory: memory.New()}
	b.faulty = &faultyStore{Store: b.memory}
	config := consumer.Config{
		Name: "billing", Key: consumer.Metadata("order_id"), MaxAttempts: 3,
		NackDelay: time.Millisecond, BusyHold: time.Millisecond,
		OnEvent: func(_ context.Context, event consumer.Event) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events = append(b.events, event)
		},
	}
	if change != nil {
		change(&config)
	}
	var err error
	b.Consumer, err = consumer.New(b.faulty, config)
	require.NoError(t, err)
	return b
}

func order(id string) *message.Message {
	msg := message.NewMessage("m-"+id, message.Payload(`{"order": {"id": "`+id+`"}, "cents": 10}`))
	msg.Metadata.Set("order_id", id)
	return msg
}

// bill is a handler that writes its order.
func bill(msg *message.Message) ([]*message.Message, error) {
	tx, err := memory.TxFrom(msg.Context())
	if err != nil {
		return nil, err
	}
	return nil, tx.Put(msg.Metadata.Get("order_id"), string(msg.Payload))
}

// failing writes and then fails.
func failing(failure error) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		if _, err := bill(msg); err != nil {
			return nil, err
		}
		return nil, failure
	}
}

func (b *bed) handle(msg *message.Message, handler message.HandlerFunc) error {
	b.t.Helper()
	ctx := msg.Context()
	produced, err := b.Middleware(handler)(msg)
	require.Empty(b.t, produced)
	require.Equal(b.t, ctx, msg.Context(), "the context is put back")
	return err
}

func (b *bed) acked(msg *message.Message, handler message.HandlerFunc) {
	b.t.Helper()
	require.NoError(b.t, b.handle(msg, handler))
}

func (b *bed) nacked(msg *message.Message, handler message.HandlerFunc) error {
	b.t.Helper()
	err := b.handle(msg, handler)
	require.Error(b.t, err)
	return err
}

func (b *bed) effects(ids ...string) {
	b.t.Helper()
	require.ElementsMatch(b.t, ids, b.memory.Keys())
}

func (b *bed) letters() []store.StoredLetter {
	b.t.Helper()
	letters, err := b.memory.Letters(context.WithoutCancel(b.t.Context()), "billing", 100)
	require.NoError(b.t, err)
	return letters
}

// dead checks that there is exactly one dead letter, of this class.
func (b *bed) dead(class dedup.Class) store.StoredLetter {
	b.t.Helper()
	letters := b.letters()
	require.Len(b.t, letters, 1)
	require.Equal(b.t, class, letters[0].Class)
	return letters[0]
}

// outcomes are the kinds of the events so far.
func (b *bed) outcomes() []consumer.EventKind {
	b.mu.Lock()
	defer b.mu.Unlock()
	var kinds []consumer.EventKind
	for _, event := range b.events {
		kinds = append(kinds, event.Kind)
	}
	return kinds
}
