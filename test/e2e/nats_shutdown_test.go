package e2e_test

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
)

func TestNATS_CloseLetsTheHandlerFinishAndAck(t *testing.T) {
	t.Parallel()
	conn := startNATS(t).connect(t)
	orders := makeOrders(t, conn)
	orders.publish(t, 2)
	subscriber := openNATS(t, billing(conn))
	messages := subscribe(t, subscriber)

	first := next(t, messages)
	closed := make(chan error, 1)
	go func() { closed <- subscriber.Close() }()
	require.Eventually(t, func() bool { return orders.state(t).NumWaiting == 0 }, patience, 5*time.Millisecond)
	require.Empty(t, closed, "Close did not wait")
	require.NoError(t, first.Context().Err(), "the handler was cancelled")
	first.Ack()
	require.NoError(t, <-closed)
	closedEmpty(t, messages)
	state := orders.state(t)
	require.Zero(t, state.NumAckPending)
	require.EqualValues(t, 1, state.NumPending)
}

func TestNATS_CloseGivesUpOnAHungHandlerWithoutAckingIt(t *testing.T) {
	t.Parallel()
	conn := startNATS(t).connect(t)
	makeOrders(t, conn).publish(t, 1)
	config := billing(conn)
	config.AckWait, config.CloseTimeout = 500*time.Millisecond, 50*time.Millisecond
	subscriber := openNATS(t, config)
	messages := subscribe(t, subscriber)

	hung := next(t, messages)
	require.ErrorContains(t, subscriber.Close(), "still in work after 50ms: 1")
	require.Error(t, hung.Context().Err())
	closedEmpty(t, messages)
	require.True(t, hung.Ack(), "an ack that comes too late")

	again := next(t, subscribe(t, openNATS(t, config)))
	require.Equal(t, hung.UUID, again.UUID)
	again.Ack()
}

func TestNATS_MessageThatNoHandlerSawIsHandedBackAtOnce(t *testing.T) {
	t.Parallel()
	conn := startNATS(t).connect(t)
	orders := makeOrders(t, conn)
	orders.publish(t, 1)
	subscriber := openNATS(t, billing(conn)) // with an AckWait of a minute
	_ = subscribe(t, subscriber)             // which nobody reads
	require.Eventually(t, func() bool { return orders.state(t).NumAckPending == 1 }, patience, 5*time.Millisecond)

	require.NoError(t, subscriber.Close())
	next(t, subscribe(t, openNATS(t, billing(conn)))).Ack()
}

func TestNATS_EndOfTheContextStopsAndWaitsForTheHandler(t *testing.T) {
	t.Parallel()
	conn := startNATS(t).connect(t)
	orders := makeOrders(t, conn)
	orders.publish(t, 2)
	subscriber := openNATS(t, billing(conn))
	ctx, cancel := context.WithCancel(t.Context())
	messages, err := subscriber.Subscribe(ctx, "ORDERS")
	require.NoError(t, err)

	first := next(t, messages)
	cancel()
	<-first.Context().Done()
	first.Ack()
	closedEmpty(t, messages)
	require.Zero(t, orders.state(t).NumAckPending)
	next(t, subscribe(t, subscriber)).Ack()
}

func TestNATS_RouterReturnsOnlyAfterTheAckArrived(t *testing.T) {
	t.Parallel()
	for range 10 { // the router chooses at random between Close and the context
		conn := startNATS(t).connect(t)
		orders := makeOrders(t, conn)
		orders.publish(t, 1)
		router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
		require.NoError(t, err)
		started, release := make(chan struct{}), make(chan struct{})
		router.AddConsumerHandler("billing", "ORDERS", openNATS(t, billing(conn)), func(*message.Message) error {
			close(started)
			<-release
			return nil
		})
		ended := make(chan error, 1)
		go func() { ended <- router.Run(t.Context()) }()
		<-started

		closed := make(chan error, 1)
		go func() { closed <- router.Close() }()
		require.Eventually(t, func() bool { return orders.state(t).NumWaiting == 0 }, patience, time.Millisecond)
		close(release)
		require.NoError(t, <-closed)
		require.NoError(t, <-ended)
		require.Zero(t, orders.state(t).NumAckPending)
	}
}
