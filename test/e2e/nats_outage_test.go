package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// restart stops the server and starts it again with its data.
func (n *natsServer) restart(t *testing.T) {
	t.Helper()
	n.stop()
	n.start(t)
}

func TestNATS_ServerRestartInMidWorkLosesNothing(t *testing.T) {
	t.Parallel()
	const count = 20
	running := startNATS(t)
	conn := running.connect(t)
	orders := makeOrders(t, conn)
	orders.publish(t, count)
	messages := subscribe(t, openNATS(t, billing(conn)))

	done := map[string]bool{}
	for len(done) < count {
		msg := next(t, messages)
		if len(done) == count/2 {
			running.restart(t)
			require.Eventually(t, conn.IsConnected, patience, 5*time.Millisecond)
		}
		done[string(msg.Payload)] = true
		msg.Ack()
	}
	orders.settled(t)
}

func TestNATS_ServerRestartWhileIdleIsNoticed(t *testing.T) {
	t.Parallel()
	running := startNATS(t)
	conn := running.connect(t)
	orders := makeOrders(t, conn)
	messages := subscribe(t, openNATS(t, billing(conn)))
	require.Eventually(t, func() bool { return orders.state(t).NumWaiting == 1 }, patience, 5*time.Millisecond)

	running.restart(t)
	require.Eventually(t, conn.IsConnected, patience, 5*time.Millisecond)
	orders.publish(t, 1)
	next(t, messages).Ack()
}

func TestNATS_CloseWhileTheServerIsAwayEnds(t *testing.T) {
	t.Parallel()
	running := startNATS(t)
	conn := running.connect(t)
	makeOrders(t, conn)
	subscriber := openNATS(t, billing(conn))
	messages := subscribe(t, subscriber)

	running.stop()
	require.Eventually(t, func() bool { return !conn.IsConnected() }, patience, 5*time.Millisecond)
	require.NoError(t, subscriber.Close())
	closedEmpty(t, messages)
}
