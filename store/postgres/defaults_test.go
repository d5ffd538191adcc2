package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store/postgres"
)

// The first claim on a connection reads what its session has by default; the claims after
// it leave out what they need not ask for. No handler may see a difference.
func TestDefaults_EveryHandlerHasItsIsolationAndItsIdleLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		isolation, limit string
		claim            time.Duration
		want             string
	}{
		"session without a limit":     {"read committed", "0", time.Minute, "1min"},
		"session with a shorter one":  {"read committed", "20s", time.Minute, "1min"},
		"session with the same":       {"read committed", "60000", time.Minute, "1min"},
		"session with a longer one":   {"read committed", "90s", time.Minute, "90s"},
		"session with too long a one": {"read committed", "2h", time.Minute, "1min"},
		"claim without a limit":       {"read committed", "20s", 0, "20s"},
		"nobody has a limit":          {"read committed", "0", 0, "0"},
		"stricter session":            {"serializable", "90s", time.Minute, "1min"},
		"snapshot session":            {"repeatable read", "0", time.Minute, "1min"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := setup(t)
			config := db.Pool.Config()
			config.MaxConns = 1
			config.ConnConfig.RuntimeParams["default_transaction_isolation"] = c.isolation
			config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = c.limit
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			require.NoError(t, err)
			defer pool.Close()
			st, err := postgres.New(pool, postgres.Config{Schema: db.Schema})
			require.NoError(t, err)
			for _, key := range []dedup.Key{
				{ID: "first"}, {ID: "later"}, {ID: "young", At: time.Now()}, {ID: "old", At: time.Now().Add(-40 * 24 * time.Hour)},
			} {
				claim := claimOf(t, key)
				claim.IdleTimeout = c.claim
				unit, held, err := st.Begin(t.Context(), claim)
				require.NoError(t, err, key.ID)
				require.Nil(t, held)
				defer func() { _ = unit.Rollback(t.Context()) }() // or a failure would leave the pool open for ever
				tx, err := postgres.TxFrom(unit.Context(t.Context()))
				require.NoError(t, err)
				var isolation, limit string
				require.NoError(t, tx.QueryRow(t.Context(), `SELECT current_setting('transaction_isolation'),
					current_setting('idle_in_transaction_session_timeout')`).Scan(&isolation, &limit))
				require.Equal(t, "read committed", isolation, key.ID)
				want := c.want
				if key.ID == "old" && c.claim > 0 {
					want = "1min" // its claim asks for everything
				}
				require.Equal(t, want, limit, key.ID)
				require.NoError(t, unit.Commit(t.Context()))
			}
		})
	}
}

// The connections of a pool are shared, so a handler may leave a setting to the next.
func TestDefaults_HandlersSettingIsNotLeftToTheNext(t *testing.T) {
	t.Parallel()
	for _, change := range []string{
		`SET idle_in_transaction_session_timeout = 0`,
		`SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ`,
		`SET default_transaction_isolation = 'serializable'`,
	} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			db := setup(t)
			config := db.Pool.Config()
			config.MaxConns = 1
			config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "90s"
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			require.NoError(t, err)
			defer pool.Close()
			st, err := postgres.New(pool, postgres.Config{Schema: db.Schema})
			require.NoError(t, err)
			for _, id := range []string{"1", "2", "3"} {
				claim := claimOf(t, dedup.Key{ID: id})
				claim.IdleTimeout = time.Minute
				unit, held, err := st.Begin(t.Context(), claim)
				require.NoError(t, err)
				require.Nil(t, held)
				tx, err := postgres.TxFrom(unit.Context(t.Context()))
				require.NoError(t, err)
				var isolation, limit string
				require.NoError(t, tx.QueryRow(t.Context(), `SELECT current_setting('transaction_isolation'),
					current_setting('idle_in_transaction_session_timeout')`).Scan(&isolation, &limit))
				require.Equal(t, "read committed", isolation)
				require.Contains(t, []string{"90s", "1min"}, limit)
				_, err = tx.Exec(t.Context(), change)
				require.NoError(t, err)
				require.NoError(t, unit.Commit(t.Context()))
			}
		})
	}
}
