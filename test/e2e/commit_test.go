package e2e_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/outbox"
	"github.com/oncebox/oncebox/store"
	"github.com/oncebox/oncebox/store/postgres"
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

// What a handler sends travels with COMMIT, and shares its fate.
func TestOutbox_ConnectionCutAtCommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cut  pgproxy.Cut
		sent int
	}{
		"request lost: nothing is sent": {pgproxy.Request, 0},
		"reply lost: it is sent":        {pgproxy.Reply, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bed := setup(t)
			var proxy *pgproxy.Proxy
			pool := bed.pool(4, func(config *pgxpool.Config) {
				// The proxy knows COMMIT by its text, which a prepared statement does not send.
				config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
				var err error
				proxy, err = pgproxy.Start(config)
				require.NoError(t, err)
			})
			t.Cleanup(func() { require.NoError(t, proxy.Close()) })
			st, err := postgres.New(pool, postgres.Config{Schema: bed.db.Schema})
			require.NoError(t, err)
			handle := bed.consumer(pool, func(config *consumer.Config) { config.StoreRetries = -1 }).
				Middleware(func(msg *message.Message) ([]*message.Message, error) {
					if err := outbox.Append(msg.Context(), st, outbox.Message{Topic: "issued", Payload: []byte("{}")}); err != nil {
						return nil, err
					}
					return bed.write(msg)
				})
			sent := func() int { return bed.db.Counts(t, `SELECT 'all', count(*)::int FROM %s`, "outbox")["all"] }

			_, err = handle(order("warm"))
			require.NoError(t, err)
			require.Equal(t, 1, sent())
			proxy.CutNext(c.cut)
			_, err = handle(order("1"))
			require.ErrorIs(t, err, store.ErrUnknownOutcome)
			require.EqualValues(t, 1, proxy.Cuts())
			require.Equal(t, 1+c.sent, sent())

			_, err = handle(order("1"))
			require.NoError(t, err)
			require.Equal(t, 2, sent())
			bed.onceEach("1", "warm")
		})
	}
}
