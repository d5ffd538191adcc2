package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/consumer/nats"
	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/outbox"
	sink "github.com/oncebox/oncebox/outbox/sink/jetstream"
	"github.com/oncebox/oncebox/store"
	"github.com/oncebox/oncebox/store/postgres"
)

// outboxBed is a bed with an outbox and a stream that its messages go to.
type outboxBed struct {
	*bed
	st     *postgres.Store
	js     jetstream.JetStream
	stream jetstream.Stream
	topic  string
}

func setupOutbox(t *testing.T, change func(*jetstream.StreamConfig)) *outboxBed {
	t.Helper()
	b := &outboxBed{bed: setup(t)}
	var err error
	b.st, err = postgres.New(b.db.Pool, postgres.Config{Schema: b.db.Schema})
	require.NoError(t, err)
	nc, err := natsgo.Connect(os.Getenv("ONCEBOX_NATS_URL"))
	require.NoError(t, err, "ONCEBOX_NATS_URL must name a NATS server; run `make test`")
	t.Cleanup(nc.Close)
	b.js, err = jetstream.New(nc)
	require.NoError(t, err)
	b.topic = b.db.Schema + ".issued"
	config := jetstream.StreamConfig{Name: b.db.Schema, Subjects: []string{b.db.Schema + ".>"}, Storage: jetstream.MemoryStorage}
	if change != nil {
		change(&config)
	}
	b.stream, err = b.js.CreateStream(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.js.DeleteStream(context.WithoutCancel(t.Context()), config.Name) })
	return b
}

// relay runs a relay into the stream until the test ends. st is the bed's store or a wrapped
// one.
func (b *outboxBed) relay(st store.Outbox, change func(*outbox.RelayConfig)) (stop func()) {
	b.t.Helper()
	to, err := sink.New(b.js, sink.Config{})
	require.NoError(b.t, err)
	config := outbox.RelayConfig{LeaseFor: time.Second, PollMax: 20 * time.Millisecond}
	if change != nil {
		change(&config)
	}
	relay, err := outbox.NewRelay(st, to, config)
	require.NoError(b.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	var stopped atomic.Bool
	stop = func() {
		if !stopped.Swap(true) {
			cancel()
			require.NoError(b.t, <-done)
		}
	}
	b.t.Cleanup(stop)
	return stop
}

// inStream waits until the stream has as many messages and everything in the outbox is passed,
// and returns them.
func (b *outboxBed) inStream(count int) (all []jetstream.Msg) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		info, err := b.stream.Info(b.t.Context())
		return err == nil && info.State.Msgs >= uint64(count) && b.passed()
	}, patience, 10*time.Millisecond, "the stream has too few messages")
	info, err := b.stream.Info(b.t.Context())
	require.NoError(b.t, err)
	require.EqualValues(b.t, count, info.State.Msgs)
	reader, err := b.stream.OrderedConsumer(b.t.Context(), jetstream.OrderedConsumerConfig{})
	require.NoError(b.t, err)
	batch, err := reader.Fetch(count, jetstream.FetchMaxWait(5*time.Second))
	require.NoError(b.t, err)
	for msg := range batch.Messages() {
		all = append(all, msg)
	}
	require.NoError(b.t, batch.Error())
	require.Equal(b.t, count, len(all))
	return all
}

// passed reports that every message is published or parked, and saved as such.
func (b *outboxBed) passed() bool {
	state, err := b.st.State(b.t.Context())
	return err == nil && !slices.ContainsFunc(state.Buckets, func(one store.BucketState) bool { return one.Oldest > 0 })
}

func TestOutbox_WhatAHandlerReturnsIsSentOnceAndFoundByAConsumer(t *testing.T) {
	t.Parallel()
	b := setupOutbox(t, nil)
	b.relay(b.st, nil)
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	require.NoError(t, err)
	orders := newSource()
	handler := router.AddHandler("billing", "orders", orders, b.topic, outbox.NewPublisher(b.st), func(msg *message.Message) ([]*message.Message, error) {
		if err := insert(msg.Context(), b.db.Schema, msg.Metadata.Get("order_id")); err != nil {
			return nil, err
		}
		event := message.NewMessage("", []byte("issued "+msg.Metadata.Get("order_id")))
		event.Metadata.Set(outbox.MetadataKey, "account-7")
		return []*message.Message{event}, nil
	})
	handler.AddMiddleware(b.consumer(b.db.Pool, nil).Middleware)
	running(t, router)
	for range 3 { // the producer sends it three times
		in := order("1")
		in.Metadata.Set(middleware.CorrelationIDMetadataKey, "correlation")
		in.Metadata.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		orders.deliver(t, in)
	}
	orders.deliver(t, order("2"))

	all := b.inStream(2)
	require.Equal(t, "issued 1", string(all[0].Data()))
	require.Equal(t, "correlation", all[0].Headers().Get(middleware.CorrelationIDMetadataKey))
	require.Equal(t, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", all[0].Headers().Get("traceparent"))
	require.Equal(t, "account-7", all[0].Headers().Get(sink.HeaderKey))
	require.Empty(t, all[0].Headers().Get(outbox.MetadataKey))
	read, err := nats.Unmarshal(all[0])
	require.NoError(t, err)
	require.Len(t, read.UUID, 36)
	require.Equal(t, all[0].Headers().Get(natsgo.MsgIdHdr), read.UUID)
	b.onceEach("1", "2")
}

func TestOutbox_EventBusIsTransactional(t *testing.T) {
	t.Parallel()
	b := setupOutbox(t, nil)
	b.relay(b.st, nil)
	bus, err := cqrs.NewEventBusWithConfig(outbox.NewPublisher(b.st), cqrs.EventBusConfig{
		GeneratePublishTopic: func(cqrs.GenerateEventPublishTopicParams) (string, error) { return b.topic, nil },
		Marshaler:            cqrs.JSONMarshaler{},
	})
	require.NoError(t, err)
	type issued struct{ Order string }
	require.ErrorIs(t, bus.Publish(t.Context(), issued{"outside"}), store.ErrNoTx)

	billing := b.consumer(b.db.Pool, nil)
	errNo := errors.New("no")
	handle := func(id string, end error) error {
		_, err := billing.Do(t.Context(), key(id), func(ctx context.Context) error {
			if err := bus.Publish(ctx, issued{id}); err != nil {
				return err
			}
			return end
		})
		return err
	}
	require.ErrorIs(t, handle("fails", errNo), errNo)
	require.NoError(t, handle("works", nil))
	require.JSONEq(t, `{"Order":"works"}`, string(b.inStream(1)[0].Data()))
}

func TestOutbox_ObserveModeLeavesAForeignPublisherAlone(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string]int{"the outbox's own": 1, "another": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupOutbox(t, nil)
			other := &discard{}
			publisher := message.Publisher(other)
			if stored == 1 {
				publisher = outbox.NewPublisher(b.st)
			}
			router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
			require.NoError(t, err)
			orders := newSource()
			router.AddHandler("billing", "orders", orders, b.topic, publisher, func(*message.Message) ([]*message.Message, error) {
				return []*message.Message{message.NewMessage(watermill.NewUUID(), nil)}, nil
			}).AddMiddleware(b.consumer(b.db.Pool, func(c *consumer.Config) { c.Mode = dedup.Observe }).Middleware)
			running(t, router)
			orders.deliver(t, order("1"))
			require.Equal(t, stored, b.db.Counts(t, `SELECT 'all', count(*)::int FROM %s`, "outbox")["all"])
			require.EqualValues(t, 1-stored, other.count.Load())
		})
	}
}

// forgetful fails to save what was published, as a relay that dies does, until it has failed
// often enough.
type forgetful struct {
	store.Outbox
	left atomic.Int64
	wait time.Duration
}

var errForgotten = errors.New("not saved")

func (f *forgetful) Save(ctx context.Context, c store.Cursor) error {
	if c.Bucket == message0.Bucket() && f.left.Add(-1) >= 0 {
		time.Sleep(f.wait)
		return errForgotten
	}
	return f.Outbox.Save(ctx, c)
}

var message0 = store.Message{Key: "account-7"}

func TestJetStream_ALateTakeOverDoublesNothing(t *testing.T) {
	t.Parallel()
	b := setupOutbox(t, func(c *jetstream.StreamConfig) { c.Duplicates = 100 * time.Millisecond })
	require.NoError(t, b.append(20))
	st := &forgetful{Outbox: b.st, wait: 300 * time.Millisecond}
	st.left.Store(4)
	b.relay(st, nil)
	require.Eventually(t, func() bool { return st.left.Load() < 0 }, patience, 10*time.Millisecond, "it was never saved")
	require.NoError(t, b.append(5))
	all := b.inStream(25)
	for i, msg := range all {
		require.Equal(t, fmt.Sprint(i%20), string(msg.Data()))
	}
}

func TestJetStream_AnotherRelayTakesOverLateAndDoublesNothing(t *testing.T) {
	t.Parallel()
	b := setupOutbox(t, func(c *jetstream.StreamConfig) { c.Duplicates = 100 * time.Millisecond })
	require.NoError(t, b.append(20))
	st := &forgetful{Outbox: b.st}
	st.left.Store(1 << 40)
	stop := b.relay(st, nil)
	require.Eventually(t, func() bool {
		info, err := b.stream.Info(t.Context())
		return err == nil && info.State.Msgs >= 20
	}, patience, 10*time.Millisecond)
	stop()
	time.Sleep(300 * time.Millisecond)
	b.relay(b.st, nil)
	require.NoError(t, b.append(1))
	b.inStream(21)
}

// append commits messages of one key in a transaction.
func (b *outboxBed) append(count int) error {
	tx, err := b.db.Pool.Begin(b.t.Context())
	if err != nil {
		return err
	}
	for i := range count {
		one := outbox.Message{Topic: b.topic, Key: "account-7", Payload: fmt.Append(nil, i)}
		if err := outbox.Append(b.t.Context(), b.st.Tx(tx), one); err != nil {
			return err
		}
	}
	return tx.Commit(b.t.Context())
}

func TestJetStream_AMessageThatTheStreamCantTakeHoldsItsKeyUp(t *testing.T) {
	t.Parallel()
	b := setupOutbox(t, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 })
	var dead atomic.Int64
	b.relay(b.st, func(c *outbox.RelayConfig) {
		c.MaxAttempts, c.RetryMin = 2, time.Millisecond
		c.OnEvent = func(_ context.Context, e outbox.Event) {
			if e.Kind == outbox.EventDead {
				dead.Add(int64(e.Count))
			}
		}
	})
	tx, err := b.db.Pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, outbox.Append(t.Context(), b.st.Tx(tx),
		outbox.Message{Topic: b.topic, Key: "a", Payload: make([]byte, 2000)},
		outbox.Message{Topic: b.topic, Key: "a", Payload: []byte("after it")},
		outbox.Message{Topic: b.topic, Key: "b", Payload: []byte("other key")}))
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, "other key", string(b.inStream(1)[0].Data()))
	require.Eventually(t, func() bool { return dead.Load() == 1 }, patience, 10*time.Millisecond, "it is not dead")

	parked, err := b.st.ListParked(t.Context(), 0, 10, true)
	require.NoError(t, err)
	require.Len(t, parked, 1)
	require.NoError(t, b.st.DropParked(t.Context(), store.Order{Number: parked[0].Number, Who: "ann", Why: "too large"}))
	require.Equal(t, "after it", string(b.inStream(2)[1].Data()))
}

func TestJetStream_ATopicWithoutAStreamHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	b := setupOutbox(t, nil)
	var outages atomic.Int64
	b.relay(b.st, func(c *outbox.RelayConfig) {
		c.OnEvent = func(_ context.Context, e outbox.Event) {
			if e.Kind == outbox.EventOutage {
				outages.Add(1)
			}
		}
	})
	tx, err := b.db.Pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, outbox.Append(t.Context(), b.st.Tx(tx),
		outbox.Message{Topic: "nowhere." + b.topic, Key: "a"}, outbox.Message{Topic: b.topic, Key: "b", Payload: []byte("here")}))
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, "here", string(b.inStream(1)[0].Data()))
	parked, err := b.st.ListParked(t.Context(), 0, 10, false)
	require.NoError(t, err)
	require.Len(t, parked, 1)
	require.Contains(t, parked[0].Error, "no stream")
	require.Zero(t, outages.Load())
}

func TestJetStream_TheServersHeadersAreNotTheUsers(t *testing.T) {
	t.Parallel()
	b := setupOutbox(t, nil)
	b.relay(b.st, nil)
	tx, err := b.db.Pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, outbox.Append(t.Context(), b.st.Tx(tx), outbox.Message{
		Topic: b.topic, Headers: map[string]string{"Nats-Expected-Last-Sequence": "77", "mine": "1"},
	}))
	require.NoError(t, tx.Commit(t.Context()))
	headers := b.inStream(1)[0].Headers()
	require.Equal(t, "1", headers.Get("mine"))
	require.Empty(t, headers.Get("Nats-Expected-Last-Sequence"))
}
