package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/internal/pgtest"
	"github.com/oncebox/oncebox/store"
	"github.com/oncebox/oncebox/store/postgres"
)

var billing = store.Consumer{Name: "billing", Retention: 24 * time.Hour}

func claimOf(t *testing.T, key dedup.Key) store.Claim {
	t.Helper()
	if key.Scope == "" {
		key.Scope = dedup.Global
	}
	id, err := dedup.NewClaimID(billing.Name, key)
	require.NoError(t, err)
	return store.Claim{ID: id, Consumer: billing, At: key.At}
}

func begin(t *testing.T, st store.Inbox, claim store.Claim) store.Unit {
	t.Helper()
	unit, held, err := st.Begin(t.Context(), claim)
	require.NoError(t, err)
	require.Nil(t, held)
	return unit
}

func TestClaim_DuplicateWritesNothingAndTakesNoTransactionID(t *testing.T) {
	t.Parallel()
	db := setup(t)
	st := open(t, db)
	claim := claimOf(t, dedup.Key{ID: "1"})
	require.NoError(t, begin(t, st, claim).Commit(t.Context()))

	shadow := claim // a shadow claim leaves the transaction open, to look into
	shadow.Consumer.Shadow = true
	unit, held, err := st.Begin(t.Context(), shadow)
	require.NoError(t, err)
	require.Equal(t, dedup.Completed, held.Record.Status)
	tx, err := postgres.TxFrom(unit.Context(t.Context()))
	require.NoError(t, err)
	var noID bool
	require.NoError(t, tx.QueryRow(t.Context(), `SELECT pg_current_xact_id_if_assigned() IS NULL`).Scan(&noID))
	require.True(t, noID, "a transaction id is taken")
	require.NoError(t, unit.Rollback(t.Context()))
}

func TestClaim_BusyLeavesNoTransactionOpen(t *testing.T) {
	t.Parallel()
	db := setup(t)
	st := open(t, db)
	owner := begin(t, st, claimOf(t, dedup.Key{ID: "1"}))
	for range 50 {
		_, held, err := st.Begin(t.Context(), claimOf(t, dedup.Key{ID: "1"}))
		require.NoError(t, err)
		require.Equal(t, dedup.Processing, held.Record.Status)
	}
	var open int
	err := db.Pool.QueryRow(t.Context(),
		`SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state LIKE 'idle in transaction%'`, db.Schema).Scan(&open)
	require.NoError(t, err)
	require.Equal(t, 1, open, "the owner's alone")
	require.EqualValues(t, 1, db.Pool.Stat().AcquiredConns())
	require.NoError(t, owner.Commit(t.Context()))
}

func TestClaim_SchemasOfOneDatabaseDontLockOneAnother(t *testing.T) {
	t.Parallel()
	claim := claimOf(t, dedup.Key{ID: "shared"})
	one, other := begin(t, open(t, setup(t)), claim), begin(t, open(t, setup(t)), claim)
	require.NoError(t, one.Commit(t.Context()))
	require.NoError(t, other.Commit(t.Context()))
}

func TestClaim_WaitGivesTheHandlerItsLockTimeoutBack(t *testing.T) {
	t.Parallel()
	db := setup(t)
	st := open(t, db)
	claim := claimOf(t, dedup.Key{ID: "1"})
	claim.Wait = time.Minute
	unit := begin(t, st, claim)
	tx, err := postgres.TxFrom(unit.Context(t.Context()))
	require.NoError(t, err)
	var timeout string
	require.NoError(t, tx.QueryRow(t.Context(), `SELECT current_setting('lock_timeout')`).Scan(&timeout))
	require.Equal(t, "0", timeout)
	require.NoError(t, unit.Commit(t.Context()))
}

func TestClaim_HungHandlerLosesItsTransactionAndTheNextUserItsLimit(t *testing.T) {
	t.Parallel()
	db := setup(t)
	st := open(t, db)
	claim := claimOf(t, dedup.Key{ID: "1"})
	claim.IdleTimeout = 50 * time.Millisecond
	hung := begin(t, st, claim)
	require.NoError(t, write(hung.Context(t.Context()), db, "hung"))
	require.Eventually(t, func() bool { // the server frees the key although the handler never returns
		unit, held, err := st.Begin(t.Context(), claim)
		return err == nil && held == nil && unit.Rollback(t.Context()) == nil
	}, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, dedup.ClassTransient, st.Classify(hung.Commit(t.Context())), "it is the handler's own fault")

	fresh := begin(t, st, claimOf(t, dedup.Key{ID: "2"}))
	tx, err := postgres.TxFrom(fresh.Context(t.Context()))
	require.NoError(t, err)
	var limit string
	require.NoError(t, tx.QueryRow(t.Context(), `SELECT current_setting('idle_in_transaction_session_timeout')`).Scan(&limit))
	require.Equal(t, "0", limit)
	require.NoError(t, fresh.Rollback(t.Context()))
}

// moveClock sets the schema's clock ahead of the server's.
func moveClock(t *testing.T, db *pgtest.DB, by time.Duration) {
	t.Helper()
	_, err := db.Pool.Exec(t.Context(), fmt.Sprintf(`CREATE OR REPLACE FUNCTION %s() RETURNS timestamptz
		LANGUAGE sql VOLATILE AS 'SELECT pg_catalog.clock_timestamp() + make_interval(secs => %d)'`,
		table(db, "clock"), by/time.Second))
	require.NoError(t, err)
}

func TestRing_IntentIsClaimedOnceAcrossEveryAge(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, c := range map[string]struct{ first, second time.Duration }{
		"young and young":           {0, time.Hour},
		"across the young limit":    {743*time.Hour - time.Minute, 743*time.Hour + time.Minute},
		"across the ring's age":     {31*day - time.Minute, 31*day + time.Minute},
		"ring and beside it":        {day, 40 * day},
		"ring and past probing":     {day, 61 * day},
		"beside it and beside it":   {32 * day, 33 * day},
		"across the end of probing": {62*day - time.Minute, 62*day + time.Minute},
		"far past":                  {100 * day, 101 * day},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := setup(t)
			st := open(t, db)
			now, err := st.Now(t.Context())
			require.NoError(t, err)
			claim := claimOf(t, dedup.Key{ID: "1", At: now})
			moveClock(t, db, c.first)
			require.NoError(t, begin(t, st, claim).Commit(t.Context()))
			moveClock(t, db, c.second)
			for _, wait := range []time.Duration{0, time.Second} {
				claim.Wait = wait
				_, held, err := st.Begin(t.Context(), claim)
				require.NoError(t, err)
				require.Equal(t, dedup.Completed, held.Record.Status)
			}
		})
	}
}

// The lock makes two deliveries on the two sides of a limit meet.
func TestRing_ConcurrentDeliveriesWhileTheAgeCrossesTheLimit(t *testing.T) {
	t.Parallel()
	db := setup(t)
	st := open(t, db)
	now, err := st.Now(t.Context())
	require.NoError(t, err)
	// Ages cross RingMaxAge one after another while the claimants are at it.
	var claims []store.Claim
	for i := range 40 {
		at := now.Add(-postgres.RingMaxAge + time.Duration(i)*5*time.Millisecond)
		claims = append(claims, claimOf(t, dedup.Key{ID: "1", At: at}))
	}
	var mu sync.Mutex
	taken := make(map[dedup.ClaimID]int)
	var team sync.WaitGroup
	for range 8 {
		team.Go(func() {
			for range 3 {
				for _, claim := range claims {
					unit, held, err := st.Begin(t.Context(), claim)
					if err != nil {
						t.Errorf("begin: %v", err)
						return
					}
					if held != nil {
						continue
					}
					mu.Lock()
					taken[claim.ID]++
					mu.Unlock()
					if err := unit.Commit(t.Context()); err != nil {
						t.Errorf("commit: %v", err)
					}
				}
			}
		})
	}
	team.Wait()
	require.Len(t, taken, len(claims))
	for id, times := range taken {
		require.Equal(t, 1, times, "claim %s", id)
	}
}

func TestRing_TableFollowsTheDayOfTheIntent(t *testing.T) {
	t.Parallel()
	db := setup(t)
	st := open(t, db)
	now, err := st.Now(t.Context())
	require.NoError(t, err)
	for _, age := range []time.Duration{0, 24 * time.Hour, 40 * 24 * time.Hour} {
		require.NoError(t, begin(t, st, claimOf(t, dedup.Key{ID: "1", At: now.Add(-age)})).Commit(t.Context()))
	}
	rows, err := db.Pool.Query(t.Context(), `SELECT coalesce(day, -1) FROM `+table(db, "claims")+` ORDER BY claim_id DESC`)
	require.NoError(t, err)
	days, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(t, err)
	today := now.Unix() / 86400
	require.Equal(t, []int64{today % 64, (today - 1) % 64, -1}, days)
}

func TestClaim_LongRetentionWithAStableTimeIsRefused(t *testing.T) {
	t.Parallel()
	db := setup(t)
	claim := claimOf(t, dedup.Key{ID: "1", At: time.Now()})
	claim.Consumer.Retention = postgres.RingRetention + time.Hour
	_, _, err := open(t, db).Begin(t.Context(), claim)
	require.ErrorContains(t, err, "Consumer.Retention")
}

func TestClaim_WorksInTheModesForPgBouncer(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeCacheDescribe} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			db := setup(t)
			config := db.Pool.Config()
			config.ConnConfig.DefaultQueryExecMode = mode
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			require.NoError(t, err)
			defer pool.Close()
			st, err := postgres.New(pool, postgres.Config{Schema: db.Schema})
			require.NoError(t, err)
			for _, key := range []dedup.Key{{ID: "1"}, {ID: "1", At: time.Now()}, {ID: "1", At: time.Now().Add(-40 * 24 * time.Hour)}} {
				for _, wait := range []time.Duration{0, time.Second} {
					claim := claimOf(t, key)
					claim.Wait, claim.IdleTimeout = wait, time.Minute
					unit, held, err := st.Begin(t.Context(), claim)
					require.NoError(t, err)
					if wait == 0 {
						require.NoError(t, write(unit.Context(t.Context()), db, claim.ID.String()))
						require.NoError(t, unit.Commit(t.Context()))
						continue
					}
					require.Equal(t, dedup.Completed, held.Record.Status)
				}
				settled, err := st.Fail(t.Context(), store.Failure{
					Claim: claimOf(t, key), Class: dedup.ClassPermanent, MaxAttempts: 1,
					Letter: store.DeadLetter{Consumer: billing, Class: dedup.ClassPermanent},
				})
				require.NoError(t, err)
				require.NotNil(t, settled.Held)
			}
		})
	}
}
