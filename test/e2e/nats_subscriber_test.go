package e2e_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer/nats"
)

func TestNATS_RestartGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	conn := startNATS(t).connect(t)
	orders := makeOrders(t, conn)
	orders.publish(t, 10)

	done := map[string]bool{}
	for range 2 {
		subscriber := openNATS(t, billing(conn))
		messages := subscribe(t, subscriber)
		for range 5 {
			msg := next(t, messages)
			require.False(t, done[string(msg.Payload)], "message %s came again", msg.Payload)
			done[string(msg.Payload)] = true
			msg.Ack()
			<-msg.Context().Done()
		}
		require.NoError(t, subscriber.Close())
		require.True(t, conn.IsConnected(), "Close closed a connection that is not its own")
	}
	require.Len(t, done, 10)
	orders.settled(t)
}

func TestNATS_DeletedDurableReplaysEverything(t *testing.T) {
	t.Parallel()
	conn := startNATS(t).connect(t)
	orders := makeOrders(t, conn)
	orders.publish(t, 3)

	for range 2 {
		subscriber := openNATS(t, billing(conn))
		messages := subscribe(t, subscriber)
		for i := range 3 {
			msg := next(t, messages)
			require.Equal(t, fmt.Sprint(i+1), string(msg.Payload))
			msg.Ack()
		}
		orders.settled(t)
		require.NoError(t, subscriber.Close())
		require.NoError(t, orders.DeleteConsumer(t.Context(), "billing"))
	}
}

func TestNATS_DeletedDurableEndsTheSubscription(t *testing.T) {
	t.Parallel()
	conn := startNATS(t).connect(t)
	orders := makeOrders(t, conn)
	messages := subscribe(t, openNATS(t, billing(conn)))
	require.Eventually(t, func() bool { return orders.state(t).NumWaiting == 1 }, patience, 5*time.Millisecond)

	require.NoError(t, orders.DeleteConsumer(t.Context(), "billing"))
	closedEmpty(t, messages)
}

func TestNATS_SubscribersShareTheDurable(t *testing.T) {
	t.Parallel()
	const count = 200
	running := startNATS(t)
	orders := makeOrders(t, running.connect(t))

	var mu sync.Mutex
	seen := map[string]int{}
	var shares [3]int
	var readers sync.WaitGroup
	var subscribers [3]*nats.Subscriber
	for i := range subscribers {
		config := billing(nil)
		config.URL, config.Concurrency = running.url(), 2
		subscribers[i] = openNATS(t, config)
		messages := subscribe(t, subscribers[i])
		readers.Go(func() {
			for msg := range messages {
				mu.Lock()
				seen[string(msg.Payload)]++
				shares[i]++
				mu.Unlock()
				msg.Ack()
			}
		})
	}
	orders.publish(t, count)
	orders.settled(t)
	for _, subscriber := range subscribers {
		require.NoError(t, subscriber.Close())
	}
	readers.Wait()
	require.Len(t, seen, count)
	for payload, times := range seen {
		require.Equal(t, 1, times, "deliveries of %s", payload)
	}
	for i, share := range shares {
		require.Positive(t, share, "subscriber %d got nothing", i)
	}
}

func TestNATS_NackedMessageStaysAwayForTheDelay(t *testing.T) {
	t.Parallel()
	conn := startNATS(t).connect(t)
	makeOrders(t, conn).publish(t, 1)
	config := billing(conn)
	config.NackDelay = 200 * time.Millisecond
	messages := subscribe(t, openNATS(t, config))

	next(t, messages).Nack()
	for delivered := 2; delivered <= 4; delivered++ {
		since := time.Now()
		msg := next(t, messages)
		require.Greater(t, time.Since(since), config.NackDelay*9/10)
		require.Equal(t, fmt.Sprint(delivered), msg.Metadata.Get(nats.MetadataDelivered))
		msg.Nack()
	}
}

func TestNATS_AckWaitShorterThanHandlerRunsInParallel(t *testing.T) {
	t.Parallel()
	conn := startNATS(t).connect(t)
	orders := makeOrders(t, conn)
	orders.publish(t, 1)
	config := billing(conn)
	config.AckWait, config.Concurrency = 200*time.Millisecond, 2
	messages := subscribe(t, openNATS(t, config))

	first := next(t, messages)
	second := next(t, messages) // the first is still in work
	require.Equal(t, first.UUID, second.UUID)
	require.NoError(t, first.Context().Err())
	first.Ack() // late, and heard all the same
	<-first.Context().Done()
	require.Zero(t, orders.state(t).NumAckPending)
	second.Ack()
}

func TestNATS_WaitingMessagesDoNotUseUpTheirAckWait(t *testing.T) {
	t.Parallel()
	const count = 40
	conn := startNATS(t).connect(t)
	orders := makeOrders(t, conn)
	orders.publish(t, count)
	config := billing(conn)
	config.AckWait = time.Second
	deliveries := workThrough(t, subscribe(t, openNATS(t, config)), count)
	require.Equal(t, count, deliveries)
	orders.settled(t)
}

// workThrough takes a twentieth of a second for each message until count different ones are done, and
// returns how many deliveries that took.
func workThrough(t *testing.T, messages <-chan *message.Message, count int) (deliveries int) {
	t.Helper()
	for done := map[string]bool{}; len(done) < count; deliveries++ {
		msg := next(t, messages)
		worked := time.NewTimer(50 * time.Millisecond)
		<-worked.C
		done[string(msg.Payload)] = true
		msg.Ack()
	}
	return deliveries
}

func TestNATS_ServerRestartInMidWorkLosesNothing(t *testing.T) {
	t.Parallel()
	const count = 20
	running := startNATS(t)
	conn := running.connect(t)
	orders := makeOrders(t, conn)
	orders.publish(t, count)
	messages := subscribe(t, openNATS(t, billing(conn)))

	done := map[string]int{}
	for len(done) < count {
		msg := next(t, messages)
		if len(done) == 5 {
			running.stop()
			require.Eventually(t, func() bool { return !conn.IsConnected() }, patience, 5*time.Millisecond)
			running.start(t)
			require.Eventually(t, conn.IsConnected, patience, 5*time.Millisecond)
		}
		done[string(msg.Payload)]++
		msg.Ack()
	}
	require.Len(t, done, count)
	orders.settled(t)
}

func TestNATS_ExistingDurableWithDangerousSettingsIsRefused(t *testing.T) {
	t.Parallel()
	safe := jetstream.ConsumerConfig{Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute}
	for field, change := range map[string]func(*jetstream.ConsumerConfig){
		"AckPolicy":         func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckNonePolicy },
		"AckWait":           func(c *jetstream.ConsumerConfig) { c.AckWait = time.Second },
		"BackOff":           func(c *jetstream.ConsumerConfig) { c.MaxDeliver, c.BackOff = 5, []time.Duration{time.Second} },
		"MaxDeliver":        func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 5 },
		"FilterSubject":     func(c *jetstream.ConsumerConfig) { c.FilterSubject = "orders.paid" },
		"InactiveThreshold": func(c *jetstream.ConsumerConfig) { c.InactiveThreshold = time.Hour },
		"MemoryStorage":     func(c *jetstream.ConsumerConfig) { c.MemoryStorage = true },
		"HeadersOnly":       func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true },
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			conn := startNATS(t).connect(t)
			held := safe
			change(&held)
			_, err := makeOrders(t, conn).CreateConsumer(t.Context(), held)
			require.NoError(t, err)

			_, err = nats.NewSubscriber(billing(conn))
			require.ErrorContains(t, err, "check durable billing")
			require.ErrorContains(t, err, field+":")
			require.True(t, conn.IsConnected())
		})
	}
	t.Run("a longer AckWait is accepted", func(t *testing.T) {
		t.Parallel()
		conn := startNATS(t).connect(t)
		held := safe
		held.AckWait = time.Hour
		_, err := makeOrders(t, conn).CreateConsumer(t.Context(), held)
		require.NoError(t, err)
		openNATS(t, billing(conn))
	})
	t.Run("a push durable is refused", func(t *testing.T) {
		t.Parallel()
		conn := startNATS(t).connect(t)
		makeOrders(t, conn)
		js, err := conn.JetStream()
		require.NoError(t, err)
		_, err = js.AddConsumer("ORDERS", &natsgo.ConsumerConfig{
			Durable: "billing", DeliverSubject: "push.billing", AckPolicy: natsgo.AckExplicitPolicy,
		})
		require.NoError(t, err)
		_, err = nats.NewSubscriber(billing(conn))
		require.ErrorIs(t, err, jetstream.ErrNotPullConsumer)
	})
}

func TestNATS_SubscriberNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	running := startNATS(t)
	conn := running.connect(t)

	_, err := nats.NewSubscriber(billing(conn))
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
	require.ErrorContains(t, err, "open stream ORDERS")

	makeOrders(t, conn)
	subscriber := openNATS(t, billing(conn))
	_, err = subscriber.Subscribe(t.Context(), "orders.new")
	require.ErrorContains(t, err, `topic is "orders.new", but durable billing delivers "ORDERS"`)

	require.NoError(t, subscriber.Close())
	require.NoError(t, subscriber.Close(), "closing twice")
	_, err = subscriber.Subscribe(context.Background(), "ORDERS")
	require.ErrorIs(t, err, nats.ErrClosed)
}

func TestNATS_ManyProcessesMakeTheDurableAtOnce(t *testing.T) {
	t.Parallel()
	running := startNATS(t)
	makeOrders(t, running.connect(t))
	faults := make(chan error, 10)
	for range cap(faults) {
		go func() {
			config := billing(nil)
			config.URL = running.url()
			subscriber, err := nats.NewSubscriber(config)
			if err == nil {
				err = subscriber.Close()
			}
			faults <- err
		}()
	}
	for range cap(faults) {
		require.NoError(t, <-faults)
	}
}
