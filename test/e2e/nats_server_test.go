package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/test/env/natsd"
)

// patience is how long a test waits for a fact before it fails.
const patience = 30 * time.Second

// natsServer is a NATS server that can be stopped and started again on the same port and
// with the same streams.
type natsServer struct {
	config  natsd.Config
	running *natsd.Server
}

func startNATS(t *testing.T) *natsServer {
	t.Helper()
	started := &natsServer{config: natsd.Config{StoreDir: t.TempDir()}}
	started.start(t)
	t.Cleanup(started.stop)
	return started
}

func (n *natsServer) start(t *testing.T) {
	t.Helper()
	running, err := natsd.Start(n.config)
	require.NoError(t, err)
	n.running, n.config.Port = running, running.Port()
}

func (n *natsServer) stop() { n.running.Stop() }

func (n *natsServer) url() string { return n.running.URL() }

func (n *natsServer) connect(t *testing.T) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(n.url(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// ordersStream is a stream ORDERS for all subjects below orders.
type ordersStream struct {
	jetstream.Stream
	js jetstream.JetStream
}

func makeOrders(t *testing.T, conn *nats.Conn) ordersStream {
	t.Helper()
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "ORDERS", Subjects: []string{"orders.>"},
	})
	require.NoError(t, err)
	return ordersStream{stream, js}
}

// publish stores count messages whose payload is their number, from 1.
func (o ordersStream) publish(t *testing.T, count int) {
	t.Helper()
	for i := range count {
		_, err := o.js.Publish(t.Context(), "orders.new", fmt.Append(nil, i+1))
		require.NoError(t, err)
	}
}

// state is what the server says about the durable "billing".
func (o ordersStream) state(t *testing.T) *jetstream.ConsumerInfo {
	t.Helper()
	durable, err := o.Consumer(t.Context(), "billing")
	require.NoError(t, err)
	return durable.CachedInfo()
}

// settled waits until every message of the stream is acked. The durable's count of pending
// messages alone lags behind the stream.
func (o ordersStream) settled(t *testing.T) {
	t.Helper()
	info, err := o.Info(t.Context())
	require.NoError(t, err)
	deadline := time.Now().Add(patience)
	for {
		state := o.state(t)
		if state.AckFloor.Stream >= info.State.LastSeq && state.NumAckPending == 0 {
			return
		}
		require.True(t, time.Now().Before(deadline), "last state: %+v", state)
		select {
		case <-time.After(5 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
}
