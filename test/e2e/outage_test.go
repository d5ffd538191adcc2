package e2e_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

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
	var runs, cut atomic.Int32
	stop := route(t, conn, bed.consumer(pool, nil), func(msg *message.Message) ([]*message.Message, error) {
		switch runs.Add(1) {
		case 60, 120, 180:
			proxy.GoAway()
			time.AfterFunc(500*time.Millisecond, proxy.ComeBack)
		}
		produced, err := bed.write(msg)
		if err != nil {
			cut.Add(1)
		}
		return produced, err
	})
	stream.settled(t)
	stop()
	bed.onceEach(orders...)
	require.GreaterOrEqual(t, cut.Load(), int32(3), "each outage cuts at least the handler that began it")
	require.Empty(t, bed.attempts(), "an outage is not the message's fault")
	require.Empty(t, bed.letters())
}
