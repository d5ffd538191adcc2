package e2e_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/test/pgproxy"
)

// The database goes away in mid-work, cutting whatever is under way, also COMMITs, and
// comes back: what a failover looks like to its clients.
func TestOnce_DatabaseGoesAwayInMidWork(t *testing.T) {
	t.Parallel()
	bed := setup(t)
	conn := startNATS(t).connect(t)
	stream := makeOrders(t, conn)
	orders := stream.publishOrders(t, 300, 1)
	var proxy *pgproxy.Proxy
	pool := bed.pool(8, func(config *pgxpool.Config) {
		var err error
		proxy, err = pgproxy.Start(config)
		require.NoError(t, err)
	})
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	var unavailable atomic.Int32
	box := bed.consumer(pool, func(config *consumer.Config) {
		config.OnEvent = func(_ context.Context, event consumer.Event) {
			if event.Kind == consumer.EventUnavailable {
				unavailable.Add(1)
			}
		}
	})
	stop := route(t, conn, box, bed.write)
	for outage := range 3 {
		require.Eventually(t, func() bool { return bed.claims() > 60*(outage+1) }, patience, time.Millisecond)
		proxy.GoAway()
		time.AfterFunc(500*time.Millisecond, proxy.ComeBack)
	}
	stream.settled(t)
	stop()
	bed.onceEach(orders...)
	require.Positive(t, unavailable.Load(), "no message met the outage")
	require.Empty(t, bed.attempts(), "an outage is not the message's fault")
	require.Empty(t, bed.letters())
}
