package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
	"github.com/oncebox/oncebox/store/postgres"
)

func TestClassify_BySQLSTATEWhereverItIsInTheChain(t *testing.T) {
	t.Parallel()
	st := open(t, setup(t))
	state := func(code string) error {
		return fmt.Errorf("bill: insert: %w", &pgconn.PgError{Code: code, Message: "übersetzt: duplicate key, deadlock"})
	}
	for name, c := range map[string]struct {
		err  error
		want dedup.Class
	}{
		"serialization failure":    {state("40001"), dedup.ClassInfrastructure},
		"deadlock":                 {state("40P01"), dedup.ClassInfrastructure},
		"connection failure":       {state("08006"), dedup.ClassInfrastructure},
		"disk full":                {state("53100"), dedup.ClassInfrastructure},
		"too many connections":     {state("53300"), dedup.ClassInfrastructure},
		"admin shutdown":           {state("57P01"), dedup.ClassInfrastructure},
		"I/O error":                {state("58030"), dedup.ClassInfrastructure},
		"unique violation":         {state("23505"), dedup.ClassTransient},
		"foreign key violation":    {state("23503"), dedup.ClassTransient},
		"syntax error":             {state("42601"), dedup.ClassTransient},
		"statement timeout":        {state("57014"), dedup.ClassTransient},
		"lock timeout":             {state("55P03"), dedup.ClassTransient},
		"left idle":                {state("25P03"), dedup.ClassTransient},
		"permanent by the handler": {dedup.Permanent(state("40001")), dedup.ClassPermanent},
		"canceled":                 {fmt.Errorf("bill: %w", context.Canceled), dedup.ClassCanceled},
		"canceled by the store":    {fmt.Errorf("%w: %w", store.ErrUnavailable, context.Canceled), dedup.ClassInfrastructure},
		"plain":                    {errors.New("deadlock detected (SQLSTATE 40P01)"), dedup.ClassTransient},
		"nil-like joined":          {errors.Join(errors.New("a"), state("40001")), dedup.ClassInfrastructure},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, st.Classify(c.err))
		})
	}
}

func TestBegin_UnreachableDatabaseIsUnavailable(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none?sslmode=disable")
	require.NoError(t, err)
	defer pool.Close()
	st, err := postgres.New(pool, postgres.Config{})
	require.NoError(t, err)
	_, _, err = st.Begin(t.Context(), claimOf(t, dedup.Key{ID: "1"}))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Equal(t, dedup.ClassInfrastructure, st.Classify(err))
	_, err = st.Now(t.Context())
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, st.Quarantine(t.Context(), store.DeadLetter{Consumer: billing, Class: dedup.ClassPermanent}), store.ErrUnavailable)
}

func TestNew_WrongFieldsAreNamed(t *testing.T) {
	t.Parallel()
	_, err := postgres.New(nil, postgres.Config{})
	require.ErrorContains(t, err, "pool: missing")
	_, err = postgres.NewSQL(nil, postgres.Config{})
	require.ErrorContains(t, err, "db: missing")
	db := setup(t)
	_, err = postgres.New(db.Pool, postgres.Config{EndTimeout: -time.Second})
	require.ErrorContains(t, err, "EndTimeout: -1s")
	_, err = postgres.New(db.Pool, postgres.Config{Schema: string(make([]byte, 64))})
	require.ErrorContains(t, err, "Schema: 64 bytes")
}

func TestRegistry_ProcessesAgreeOnAConsumersNumber(t *testing.T) {
	t.Parallel()
	db := setup(t)
	var processes sync.WaitGroup
	for i := range 20 {
		processes.Go(func() { // each has a cache of its own
			st, err := postgres.New(db.Pool, postgres.Config{Schema: db.Schema})
			if err != nil {
				t.Errorf("new: %v", err)
				return
			}
			claim := claimOf(t, dedup.Key{ID: fmt.Sprint(i)})
			claim.Consumer.Retention = time.Duration(1+i) * time.Hour
			unit, _, err := st.Begin(t.Context(), claim)
			if err != nil {
				t.Errorf("begin: %v", err)
				return
			}
			if err := unit.Commit(t.Context()); err != nil {
				t.Errorf("commit: %v", err)
			}
		})
	}
	processes.Wait()
	var consumers, claimants int
	var retention time.Duration
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*), max(retention) FROM `+table(db, "consumer")).Scan(&consumers, &retention))
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(DISTINCT consumer) FROM `+table(db, "claims")).Scan(&claimants))
	require.Equal(t, 1, consumers)
	require.Equal(t, 1, claimants)
	require.Equal(t, 20*time.Hour, retention, "the longest that anybody asked for")
}
