package e2e_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/consumer/nats"
	"github.com/oncebox/oncebox/dedup"
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

func TestNATS_RetryAfterKeepsTheMessageAwayAndTheWorkerFree(t *testing.T) {
	t.Parallel()
	const away = 400 * time.Millisecond
	bed := setup(t)
	conn := startNATS(t).connect(t)
	stream := makeOrders(t, conn)
	stream.publishOrder(t, "not yet")
	stream.publishOrder(t, "now")
	config := billing(conn)
	config.Concurrency = 1
	box := bed.consumer(bed.db.Pool, func(config *consumer.Config) { config.NackDelay = time.Minute })
	var order []string
	var asked time.Time
	handle := box.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		id := msg.Metadata.Get("order_id")
		order = append(order, id)
		if id == "not yet" && asked.IsZero() {
			asked = time.Now()
			return nil, dedup.RetryAfter(errors.New("the account is not open yet"), away)
		}
		return bed.write(msg)
	})
	messages := subscribe(t, openNATS(t, config))
	for range 3 {
		msg := next(t, messages)
		if _, err := handle(msg); err != nil {
			msg.Nack()
			continue
		}
		msg.Ack()
	}
	require.Equal(t, []string{"not yet", "now", "not yet"}, order)
	require.Greater(t, time.Since(asked), away*9/10)
	bed.onceEach("now", "not yet")
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

// workThrough takes 50 ms for each message until count different ones are done, and returns
// how many deliveries that took.
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

func TestNATS_FilterSubjectLimitsWhatIsRead(t *testing.T) {
	t.Parallel()
	conn := startNATS(t).connect(t)
	orders := makeOrders(t, conn)
	orders.publish(t, 2)
	_, err := orders.js.Publish(t.Context(), "orders.paid", nil)
	require.NoError(t, err)
	config := billing(conn)
	config.FilterSubject = "*.paid"
	messages, err := openNATS(t, config).Subscribe(t.Context(), "*.paid")
	require.NoError(t, err)

	msg := next(t, messages)
	require.Equal(t, "orders.paid", msg.Metadata.Get(nats.MetadataSubject))
	msg.Ack()
	orders.settled(t)
}
