package e2e_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/store"
	"github.com/oncebox/oncebox/test/pgproxy"
)

func TestOnce_ConnectionCutAtCommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cut     pgproxy.Cut
		effects []string
	}{
		"request lost: nothing is committed":          {pgproxy.Request, nil},
		"reply lost: effect and claim are both there": {pgproxy.Reply, []string{"1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bed := setup(t)
			var proxy *pgproxy.Proxy
			pool := bed.pool(4, func(config *pgxpool.Config) {
				var err error
				proxy, err = pgproxy.Start(config)
				require.NoError(t, err)
			})
			t.Cleanup(func() { require.NoError(t, proxy.Close()) })
			billing := bed.consumer(pool, func(config *consumer.Config) { config.StoreRetries = -1 })
			handle := billing.Middleware(bed.write)

			_, err := handle(order("warm")) // fills caches, so that the next COMMIT is the message's own
			require.NoError(t, err)

			proxy.CutNext(c.cut)
			_, err = handle(order("1"))
			require.ErrorIs(t, err, store.ErrUnknownOutcome, "both look the same to the client")
			require.EqualValues(t, 1, proxy.Cuts())
			bed.onceEach(append(c.effects, "warm")...)

			_, err = handle(order("1")) // the redelivery finds out
			require.NoError(t, err)
			bed.onceEach("1", "warm")
			require.Empty(t, bed.attempts(), "a lost connection is not the message's fault")
			require.Empty(t, bed.letters())
		})
	}
}
