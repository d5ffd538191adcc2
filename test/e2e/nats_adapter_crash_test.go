package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wmjetstream "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/jetstream"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// crashing marks the process that runs a test which is expected to crash.
const crashing = "ONCEBOX_E2E_CRASHING"

// crashes runs the test once more in a process of its own, and expects its crash to say
// reason. In that process it reports false.
func crashes(t *testing.T, reason string) bool {
	t.Helper()
	if os.Getenv(crashing) != "" {
		return false
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	again.Env = append(os.Environ(), crashing+"=1")
	output, err := again.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(output), reason)
	return true
}

// openJetStreamAdapter opens pkg/jetstream on the durable "billing".
func openJetStreamAdapter(t *testing.T, running *natsServer, orders ordersStream) *wmjetstream.Subscriber {
	t.Helper()
	durable := jetstream.ConsumerConfig{
		Name: "billing", Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: time.Second, MaxAckPending: -1, // rounds leave messages behind
	}
	_, err := orders.CreateOrUpdateConsumer(t.Context(), durable)
	require.NoError(t, err)
	adapter, err := wmjetstream.NewSubscriber(wmjetstream.SubscriberConfig{
		Conn:   running.connect(t),
		Logger: watermill.NopLogger{},
		ResourceInitializer: wmjetstream.ExistingConsumer(
			func(string, string) jetstream.ConsumerConfig { return durable }, ""),
	})
	require.NoError(t, err)
	return adapter
}

func TestNATS_JetStreamAdapterCrashesOnAHeaderWithTwoValues(t *testing.T) {
	t.Parallel()
	if crashes(t, "nil pointer dereference") {
		return
	}
	running := startNATS(t)
	orders := makeOrders(t, running.connect(t))
	_, err := orders.js.PublishMsg(t.Context(), &natsgo.Msg{
		Subject: "orders.new", Header: natsgo.Header{"colour": {"red", "blue"}},
	})
	require.NoError(t, err)
	next(t, subscribe(t, openJetStreamAdapter(t, running, orders)))
}

func TestNATS_JetStreamAdapterCrashesWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	if crashes(t, "send on closed channel") {
		return
	}
	running := startNATS(t)
	orders := makeOrders(t, running.connect(t))
	orders.publish(t, 5000)
	for range 1000 { // a race: most of the time it needs few rounds
		ctx, cancel := context.WithCancel(t.Context())
		messages, err := openJetStreamAdapter(t, running, orders).Subscribe(ctx, "ORDERS")
		require.NoError(t, err)
		next(t, messages).Ack()
		cancel()
	}
}
