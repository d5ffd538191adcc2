package consumer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store/memory"
)

func put(key string) func(context.Context) error {
	return func(ctx context.Context) error {
		tx, err := memory.TxFrom(ctx)
		if err != nil {
			return err
		}
		return tx.Put(key, "")
	}
}

func TestDo_RunsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	key := dedup.Key{Scope: "tenant", ID: "1"}
	verdict, err := b.Do(t.Context(), key, put("1"))
	require.NoError(t, err)
	require.Equal(t, dedup.Proceed, verdict)
	verdict, err = b.Do(t.Context(), key, put("2"))
	require.NoError(t, err)
	require.Equal(t, dedup.Replay, verdict)
	b.effects("1")
}

func TestDo_FailureIsTheCallers(t *testing.T) {
	t.Parallel()
	b := setup(t, func(config *consumer.Config) { config.MaxAttempts = 1 })
	key := dedup.Key{Scope: "tenant", ID: "secret"}
	_, err := b.Do(t.Context(), key, func(context.Context) error { return dedup.Permanent(errTax) })
	require.ErrorIs(t, err, errTax)
	require.NotContains(t, err.Error(), "secret")
	require.Empty(t, b.letters(), "there is no message to keep")
	_, err = b.Do(t.Context(), key, put("1"))
	require.NoError(t, err)
	_, err = b.Do(t.Context(), dedup.Key{Scope: "tenant"}, put("1"))
	require.ErrorIs(t, err, dedup.ErrInvalidKey)
}

func TestDo_BusyIsAnError(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	key := dedup.Key{Scope: "tenant", ID: "1"}
	_, err := b.Do(t.Context(), key, func(ctx context.Context) error {
		verdict, err := b.Do(context.WithoutCancel(ctx), key, put("inner"))
		require.ErrorIs(t, err, consumer.ErrBusy)
		require.Equal(t, dedup.Busy, verdict)
		return put("outer")(ctx)
	})
	require.NoError(t, err)
	b.effects("outer")
}

func TestRunOnce_OnceAWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		runs := 0
		job := func(context.Context) error { runs++; return nil }
		for range 10 { // every quarter of an hour, from a full hour on
			_, err := b.RunOnce(t.Context(), "report", time.Hour, job)
			require.NoError(t, err)
			time.Sleep(15 * time.Minute)
		}
		require.Equal(t, 3, runs)
		verdict, err := b.RunOnce(t.Context(), "other report", time.Hour, job)
		require.NoError(t, err)
		require.Equal(t, dedup.Proceed, verdict)
		_, err = b.RunOnce(t.Context(), "report", time.Millisecond, job)
		require.ErrorContains(t, err, "window")
		_, err = b.RunOnce(t.Context(), " ", time.Hour, job)
		require.ErrorContains(t, err, "job")
	})
}

func TestObserve_BlocksNothingAndTellsWhatItWouldHave(t *testing.T) {
	t.Parallel()
	b := setup(t, func(config *consumer.Config) { config.Mode = dedup.Observe; config.MaxAttempts = 1 })
	runs := 0
	produce := func(*message.Message) ([]*message.Message, error) {
		runs++
		return []*message.Message{message.NewMessage("produced", nil)}, nil
	}
	for range 2 {
		produced, err := b.Middleware(produce)(order("1"))
		require.NoError(t, err)
		require.Len(t, produced, 1, "messages go on as before")
	}
	_, err := b.Middleware(produce)(order(""))
	require.NoError(t, err)
	_, err = b.Middleware(failing(dedup.Permanent(errTax)))(order("2"))
	require.ErrorIs(t, err, errTax, "a failure is nacked as before")
	require.Equal(t, 3, runs)
	require.Empty(t, b.letters())
	b.effects()

	var observed []consumer.Event
	for _, event := range b.events {
		if event.Kind == consumer.EventObserved {
			observed = append(observed, event)
		}
	}
	require.Len(t, observed, 2)
	require.Equal(t, dedup.Replay, observed[0].Verdict)
	require.Equal(t, dedup.ClassInvalidKey, observed[1].Class)

	enforcing, err := consumer.New(b.memory, consumer.Config{Name: "billing", Key: consumer.Metadata("order_id")})
	require.NoError(t, err)
	_, err = enforcing.Middleware(bill)(order("1"))
	require.NoError(t, err)
	b.effects("1")
}

type orderPlaced struct{ ID string }

func TestCQRS_EventHandlersTakeEffectOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, func(config *consumer.Config) {
		config.Key = consumer.BusinessKey(func(event orderPlaced) string { return event.ID })
	})
	channel := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	require.NoError(t, err)
	processor, err := cqrs.NewEventProcessorWithConfig(router, cqrs.EventProcessorConfig{
		GenerateSubscribeTopic: func(params cqrs.EventProcessorGenerateSubscribeTopicParams) (string, error) {
			return params.EventName, nil
		},
		SubscriberConstructor: func(cqrs.EventProcessorSubscriberConstructorParams) (message.Subscriber, error) { return channel, nil },
		OnHandle:              b.HandleEvent,
		Marshaler:             cqrs.JSONMarshaler{},
	})
	require.NoError(t, err)
	handled := make(chan struct{}, 10)
	require.NoError(t, processor.AddHandlers(cqrs.NewEventHandler("bill", func(ctx context.Context, event *orderPlaced) error {
		handled <- struct{}{}
		return put(event.ID)(ctx)
	})))
	bus, err := cqrs.NewEventBusWithConfig(channel, cqrs.EventBusConfig{
		GeneratePublishTopic: func(params cqrs.GenerateEventPublishTopicParams) (string, error) { return params.EventName, nil },
		Marshaler:            cqrs.JSONMarshaler{},
	})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- router.Run(t.Context()) }()
	<-router.Running()
	for _, id := range []string{"1", "1", "2"} {
		require.NoError(t, bus.Publish(t.Context(), orderPlaced{id}))
	}
	require.Eventually(t, func() bool { return len(b.outcomes()) == 3 }, 10*time.Second, time.Millisecond)
	require.NoError(t, router.Close())
	require.NoError(t, <-ended)
	require.Len(t, handled, 2)
	b.effects("1", "2")
}
