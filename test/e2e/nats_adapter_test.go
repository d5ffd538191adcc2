package e2e_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// These tests show what Watermill's own adapters do where package consumer/nats differs,
// so that a release which changes it is noticed.

// openAdapter opens pkg/nats on a connection of its own, which its Close closes. Tests close
// it only while nothing is delivered: it closes a channel that it may be sending to.
func openAdapter(t *testing.T, running *natsServer, durable string, options ...natsgo.SubOpt) *wmnats.Subscriber {
	t.Helper()
	subscriber, err := wmnats.NewSubscriberWithNatsConn(running.connect(t), wmnats.SubscriberSubscriptionConfig{
		AckWaitTimeout: time.Minute,
		SubjectCalculator: func(string, string) *wmnats.SubjectDetail {
			return &wmnats.SubjectDetail{Primary: "orders.>", QueueGroup: ""}
		},
		JetStream: wmnats.JetStreamConfig{DurablePrefix: durable, SubscribeOptions: options},
	}, watermill.NopLogger{})
	require.NoError(t, err)
	return subscriber
}

// subscribeAdapter subscribes for as long as the connection lives.
func subscribeAdapter(t *testing.T, adapter *wmnats.Subscriber) <-chan *message.Message {
	t.Helper()
	messages, err := adapter.Subscribe(context.Background(), "ORDERS")
	require.NoError(t, err)
	return messages
}

// makePushDurable makes the durable "billing" as pkg/nats needs it.
func makePushDurable(t *testing.T, conn *natsgo.Conn, ackWait time.Duration) {
	t.Helper()
	js, err := conn.JetStream()
	require.NoError(t, err)
	_, err = js.AddConsumer("ORDERS", &natsgo.ConsumerConfig{
		Durable: "billing", DeliverSubject: "push.billing", FilterSubject: "orders.>",
		AckPolicy: natsgo.AckExplicitPolicy, AckWait: ackWait,
	})
	require.NoError(t, err)
}

// pushState is the server's word on the push durable "billing".
func pushState(t *testing.T, conn *natsgo.Conn) *natsgo.ConsumerInfo {
	t.Helper()
	js, err := conn.JetStream()
	require.NoError(t, err)
	state, err := js.ConsumerInfo("ORDERS", "billing")
	require.NoError(t, err)
	return state
}

func TestNATS_AdapterWithoutManualAckLosesWhatIsInWorkAtClose(t *testing.T) {
	t.Parallel()
	running := startNATS(t)
	conn := running.connect(t)
	makeOrders(t, conn).publish(t, 1)
	makePushDurable(t, conn, time.Minute)
	adapter := openAdapter(t, running, "billing", natsgo.Bind("ORDERS", "billing"))

	next(t, subscribeAdapter(t, adapter)) // never acked
	require.NoError(t, adapter.Close())
	require.Eventually(t, func() bool {
		state := pushState(t, conn)
		return state.NumAckPending == 0 && state.AckFloor.Stream == 1 // taken for done: lost
	}, patience, 5*time.Millisecond)
}

func TestNATS_AdapterWithManualAckDoesNotHearAcksAfterClose(t *testing.T) {
	t.Parallel()
	running := startNATS(t)
	conn := running.connect(t)
	makeOrders(t, conn).publish(t, 1)
	makePushDurable(t, conn, 500*time.Millisecond)
	bind := []natsgo.SubOpt{natsgo.Bind("ORDERS", "billing"), natsgo.ManualAck()}
	adapter := openAdapter(t, running, "billing", bind...)

	first := next(t, subscribeAdapter(t, adapter))
	require.NoError(t, adapter.Close())
	require.True(t, first.Ack())
	again := next(t, subscribeAdapter(t, openAdapter(t, running, "billing", bind...)))
	require.Equal(t, first.Payload, again.Payload)
}

func TestNATS_AdapterDeletesTheDurableThatItMade(t *testing.T) {
	t.Parallel()
	running := startNATS(t)
	orders := makeOrders(t, running.connect(t))
	orders.publish(t, 1)
	adapter := openAdapter(t, running, "billing", natsgo.ManualAck())
	next(t, subscribeAdapter(t, adapter)).Ack()
	require.NoError(t, adapter.Close())
	require.Eventually(t, func() bool {
		_, err := orders.Consumer(t.Context(), "billing")
		return errors.Is(err, jetstream.ErrConsumerNotFound)
	}, patience, 5*time.Millisecond)
	require.EqualValues(t, "1", next(t, subscribeAdapter(t, openAdapter(t, running, "billing", natsgo.ManualAck()))).Payload)
}

func TestNATS_AdapterRedeliversNackedMessagesWithoutPause(t *testing.T) {
	t.Parallel()
	running := startNATS(t)
	conn := running.connect(t)
	makeOrders(t, conn).publish(t, 1)
	makePushDurable(t, conn, time.Minute)
	messages := subscribeAdapter(t, openAdapter(t, running, "billing", natsgo.Bind("ORDERS", "billing"), natsgo.ManualAck()))
	since := time.Now()
	for range 1000 {
		next(t, messages).Nack()
	}
	t.Logf("%.0f redeliveries a second", 1000/time.Since(since).Seconds())
	require.Less(t, time.Since(since), patience)
}

func TestNATS_PushedMessagesUseUpTheirAckWaitInTheQueue(t *testing.T) {
	t.Parallel()
	const count = 40
	running := startNATS(t)
	conn := running.connect(t)
	makeOrders(t, conn).publish(t, count)
	makePushDurable(t, conn, time.Second)
	messages := subscribeAdapter(t, openAdapter(t, running, "billing", natsgo.Bind("ORDERS", "billing"), natsgo.ManualAck()))
	require.Equal(t, count, workThrough(t, messages, count))
	again := next(t, messages) // acked by its handler, but too late: it waited too long for its turn
	require.NotEmpty(t, again.Payload)
}
