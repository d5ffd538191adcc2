package postgres_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/internal/pgtest"
	"github.com/oncebox/oncebox/store"
	"github.com/oncebox/oncebox/store/postgres"
)

// counter counts the claims and the lookups that a pool sends.
type counter struct{ claims, lookups atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	c.count(query.SQL)
	return ctx
}
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (c *counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (c *counter) TraceBatchQuery(_ context.Context, _ *pgx.Conn, query pgx.TraceBatchQueryData) {
	c.count(query.SQL)
}
func (c *counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (c *counter) count(sql string) {
	switch {
	case strings.Contains(sql, "unnest($1::uuid[])"):
		c.lookups.Add(1)
	case strings.Contains(sql, "INSERT INTO"):
		c.claims.Add(1)
	}
}

// counted returns a pool whose claims and lookups are counted.
func counted(t *testing.T, db *pgtest.DB, mode pgx.QueryExecMode) (*pgxpool.Pool, *counter) {
	t.Helper()
	count := new(counter)
	config := db.Pool.Config()
	config.ConnConfig.Tracer, config.ConnConfig.DefaultQueryExecMode = count, mode
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool, count
}

// replayed returns a store whose consumer has just met a run of duplicates of "1".
func replayed(t *testing.T, db *pgtest.DB, key dedup.Key) (*postgres.Store, *counter) {
	t.Helper()
	pool, count := counted(t, db, pgx.QueryExecModeCacheStatement)
	st, err := postgres.New(pool, postgres.Config{Schema: db.Schema})
	require.NoError(t, err)
	replay(t, st, key)
	return st, count
}

func replay(t *testing.T, st store.Inbox, key dedup.Key) {
	t.Helper()
	claim := claimOf(t, key)
	claim.Fingerprint = someFingerprint(t)
	require.NoError(t, begin(t, st, claim).Commit(t.Context()))
	for range 50 {
		require.Equal(t, dedup.Completed, meet(t, st, claim).Record.Status)
	}
}

func someFingerprint(t *testing.T) dedup.Fingerprint {
	t.Helper()
	fingerprint, err := dedup.FingerprintFrom(append([]byte{1}, make([]byte, 32)...))
	require.NoError(t, err)
	return fingerprint
}

func meet(t *testing.T, st store.Inbox, claim store.Claim) *store.Held {
	t.Helper()
	_, held, err := st.Begin(t.Context(), claim)
	require.NoError(t, err)
	require.NotNil(t, held)
	return held
}

func TestLookUp_RunOfDuplicatesNeedsNoClaims(t *testing.T) {
	t.Parallel()
	ages := map[string]time.Time{"random": {}, "young": time.Now(), "old": time.Now().Add(-40 * 24 * time.Hour)}
	for name, open := range map[string]func(*testing.T, *pgtest.DB) (store.Inbox, *counter){
		"pgx":                  openCounted(pgx.QueryExecModeCacheStatement),
		"pgx behind PgBouncer": openCounted(pgx.QueryExecModeExec),
		"database/sql": func(t *testing.T, db *pgtest.DB) (store.Inbox, *counter) {
			pool, count := counted(t, db, pgx.QueryExecModeCacheStatement)
			st, err := postgres.NewSQL(stdlib.OpenDBFromPool(pool), postgres.Config{Schema: db.Schema})
			require.NoError(t, err)
			return st, count
		},
	} {
		for age, at := range ages {
			t.Run(name+", "+age, func(t *testing.T) {
				t.Parallel()
				st, count := open(t, setup(t))
				key := dedup.Key{ID: "1", At: at}
				replay(t, st, key)
				claims, lookups := count.claims.Load(), count.lookups.Load()
				for range 20 {
					held := meet(t, st, claimOf(t, key))
					require.Equal(t, dedup.Completed, held.Record.Status)
					require.Equal(t, someFingerprint(t), held.Record.Fingerprint)
					require.WithinDuration(t, held.Record.CompletedAt, held.Now, time.Minute)
				}
				require.Equal(t, claims, count.claims.Load())
				require.Equal(t, lookups+20, count.lookups.Load())
			})
		}
	}
}

func openCounted(mode pgx.QueryExecMode) func(*testing.T, *pgtest.DB) (store.Inbox, *counter) {
	return func(t *testing.T, db *pgtest.DB) (store.Inbox, *counter) {
		pool, count := counted(t, db, mode)
		st, err := postgres.New(pool, postgres.Config{Schema: db.Schema})
		require.NoError(t, err)
		return st, count
	}
}

func TestLookUp_MessagesThatComeTogetherShareAStatement(t *testing.T) {
	t.Parallel()
	db := setup(t)
	st, count := replayed(t, db, dedup.Key{ID: "1"})
	blocker, err := db.Pool.Begin(t.Context()) // the first lookup waits for it
	require.NoError(t, err)
	_, err = blocker.Exec(t.Context(), `LOCK TABLE `+table(db, "inbox")+` IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	before := count.lookups.Load()
	var team sync.WaitGroup
	var began atomic.Int32
	for range 100 {
		team.Go(func() {
			began.Add(1)
			_, held, err := st.Begin(t.Context(), claimOf(t, dedup.Key{ID: "1"}))
			if err != nil || held == nil || held.Record.Status != dedup.Completed {
				t.Errorf("held %v, error %v", held, err)
			}
		})
	}
	require.Eventually(t, func() bool { return began.Load() == 100 && count.lookups.Load() > before }, time.Minute, time.Millisecond)
	require.NoError(t, blocker.Rollback(t.Context()))
	team.Wait()
	require.Less(t, count.lookups.Load()-before, int64(50))
}

func TestLookUp_NewIntentInARunOfDuplicatesIsTakenOnce(t *testing.T) {
	t.Parallel()
	st, _ := replayed(t, setup(t), dedup.Key{ID: "1"})
	var taken atomic.Int32
	var team sync.WaitGroup
	for range 32 {
		team.Go(func() {
			for _, id := range []string{"1", "new", "1"} {
				unit, held, err := st.Begin(t.Context(), claimOf(t, dedup.Key{ID: id}))
				if err == nil && held == nil {
					taken.Add(1)
					err = unit.Commit(t.Context())
				}
				if err != nil {
					t.Errorf("claim %s: %v", id, err)
				}
			}
		})
	}
	team.Wait()
	require.EqualValues(t, 1, taken.Load())
}

func TestLookUp_WhatWasForgottenIsClaimedAgain(t *testing.T) {
	t.Parallel()
	db := setup(t)
	st, _ := replayed(t, db, dedup.Key{ID: "1"})
	_, err := db.Pool.Exec(t.Context(), `DELETE FROM `+table(db, "inbox"))
	require.NoError(t, err)
	require.NoError(t, begin(t, st, claimOf(t, dedup.Key{ID: "1"})).Commit(t.Context()))
}

func TestLookUp_FailureLeavesItToTheClaim(t *testing.T) {
	t.Parallel()
	db := setup(t)
	st, _ := replayed(t, db, dedup.Key{ID: "1"})
	_, err := db.Pool.Exec(t.Context(), `CREATE OR REPLACE FUNCTION `+table(db, "clock")+`() RETURNS timestamptz
		LANGUAGE sql VOLATILE AS 'SELECT now() + interval ''1 s'' * (1 / (random() * 0)::int)'`)
	require.NoError(t, err)
	_, _, err = st.Begin(t.Context(), claimOf(t, dedup.Key{ID: "1"}))
	require.ErrorContains(t, err, "division by zero", "the claim meets it too, and says so")
	require.NoError(t, begin(t, st, claimOf(t, dedup.Key{ID: "2"})).Commit(t.Context()), "a new claim asks for no clock")
}

func TestLookUp_EndedContextLetsTheOthersGoOn(t *testing.T) {
	t.Parallel()
	db := setup(t)
	st, count := replayed(t, db, dedup.Key{ID: "1"})
	blocker, err := db.Pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = blocker.Exec(t.Context(), `LOCK TABLE `+table(db, "inbox")+` IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	before := count.lookups.Load()
	ctx, cancel := context.WithCancel(t.Context())
	var first, second sync.WaitGroup
	first.Go(func() {
		if _, _, err := st.Begin(ctx, claimOf(t, dedup.Key{ID: "1"})); err == nil {
			t.Error("a claim with an ended context succeeded")
		}
	})
	require.Eventually(t, func() bool { return count.lookups.Load() > before }, time.Minute, time.Millisecond)
	second.Go(func() {
		_, held, err := st.Begin(t.Context(), claimOf(t, dedup.Key{ID: "1"}))
		if err != nil || held == nil {
			t.Errorf("held %v, error %v", held, err)
		}
	})
	cancel()
	first.Wait()
	require.NoError(t, blocker.Rollback(t.Context()))
	second.Wait()
}

func TestLookUp_NewIntentsEndTheLookups(t *testing.T) {
	t.Parallel()
	st, count := replayed(t, setup(t), dedup.Key{ID: "1"})
	take := func(id string) {
		require.NoError(t, begin(t, st, claimOf(t, dedup.Key{ID: id})).Commit(t.Context()))
	}
	for i := range 40 {
		take("new " + string(rune('A'+i)))
	}
	before := count.lookups.Load()
	take("last")
	require.Equal(t, before, count.lookups.Load())
}

// Plans are kept. One that was made for a table of a few rows must not be to read it whole.
func TestLookUp_NoTableIsReadWholeHoweverSmall(t *testing.T) {
	t.Parallel()
	db := setup(t)
	now := time.Now()
	for _, at := range []time.Time{{}, now, now.Add(-40 * 24 * time.Hour)} {
		st, _ := replayed(t, db, dedup.Key{ID: "1", At: at}) // enough for generic plans
		for i := range 60 {
			require.NoError(t, begin(t, st, claimOf(t, dedup.Key{ID: "few " + string(rune('A'+i)), At: at})).Commit(t.Context()))
		}
		replay(t, st, dedup.Key{ID: "2", At: at})
	}
	scans := `SELECT relname, (seq_scan + coalesce(idx_scan, 0))::int FROM pg_stat_user_tables
		WHERE schemaname = '` + db.Schema + `' AND relname LIKE 'inbox%' AND relname <> 'inbox_attempt' AND %s`
	count := func(which string) (read int) {
		rows, err := db.Pool.Query(t.Context(), strings.ReplaceAll(scans, "%s", which))
		require.NoError(t, err)
		var name string
		var scans int
		_, err = pgx.ForEachRow(rows, []any{&name, &scans}, func() error { read++; return nil })
		require.NoError(t, err)
		return read
	}
	require.Eventually(t, func() bool { return count("idx_scan > 0") >= 2 }, time.Minute, 50*time.Millisecond, "the statistics come late")
	require.Zero(t, count("seq_scan > 1"), "one is that which made the primary key")
}
