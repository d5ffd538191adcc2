package e2e_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer/nats"
)

// billing reads the stream ORDERS through the durable "billing".
func billing(conn *natsgo.Conn) nats.Config {
	return nats.Config{Conn: conn, Stream: "ORDERS", Durable: "billing"}
}

func openNATS(t *testing.T, config nats.Config) *nats.Subscriber {
	t.Helper()
	subscriber, err := nats.NewSubscriber(config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = subscriber.Close() })
	return subscriber
}

func subscribe(t *testing.T, subscriber message.Subscriber) <-chan *message.Message {
	t.Helper()
	messages, err := subscriber.Subscribe(t.Context(), "ORDERS")
	require.NoError(t, err)
	return messages
}

func next(t *testing.T, messages <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg, open := <-messages:
		require.True(t, open, "channel was closed")
		return msg
	case <-time.After(patience):
		require.Fail(t, "no message came")
		return nil
	}
}

// closedEmpty waits until messages is closed, with nothing more in it.
func closedEmpty(t *testing.T, messages <-chan *message.Message) {
	t.Helper()
	select {
	case msg, open := <-messages:
		require.False(t, open, "another message came: %v", msg)
	case <-time.After(patience):
		require.Fail(t, "channel stays open")
	}
}
