package e2e_test

import (
	"context"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer/nats"
)

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
