package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/internal/pgtest"
	"github.com/oncebox/oncebox/store"
	"github.com/oncebox/oncebox/store/postgres"
)

// opened is a unit with its transaction, as a handler has it.
func opened(t *testing.T, db *pgtest.DB) (store.Unit, pgx.Tx) {
	t.Helper()
	unit := begin(t, open(t, db), claimOf(t, dedup.Key{ID: "1"}))
	t.Cleanup(func() { _ = unit.Rollback(context.WithoutCancel(t.Context())) })
	tx, err := postgres.TxFrom(unit.Context(t.Context()))
	require.NoError(t, err)
	return unit, tx
}

func insert(t *testing.T, db *pgtest.DB, tx pgx.Tx, value string) {
	t.Helper()
	_, err := tx.Exec(t.Context(), `INSERT INTO `+table(db, "effect")+` (value) VALUES ($1)`, value)
	require.NoError(t, err)
}

func committed(t *testing.T, db *pgtest.DB, values ...string) {
	t.Helper()
	got, err := effects(t.Context(), db)
	require.NoError(t, err)
	require.ElementsMatch(t, values, got)
}

func TestTx_HandlerCantEndIt(t *testing.T) {
	t.Parallel()
	db := setup(t)
	unit, tx := opened(t, db)
	require.ErrorIs(t, tx.Commit(t.Context()), store.ErrManagedTx)
	require.ErrorIs(t, tx.Rollback(t.Context()), store.ErrManagedTx)
	insert(t, db, tx, "one")
	require.NoError(t, unit.Commit(t.Context()))
	committed(t, db, "one")
}

func TestTx_EndingItByAStatementIsFoundOut(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{"COMMIT": "COMMIT", "ROLLBACK": "ROLLBACK", "COMMIT AND CHAIN": "COMMIT AND CHAIN"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := setup(t)
			unit, tx := opened(t, db)
			_, err := tx.Exec(t.Context(), statement)
			require.NoError(t, err)
			require.ErrorIs(t, unit.Commit(t.Context()), store.ErrManagedTx)
		})
	}
	t.Run("on the connection", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		unit, tx := opened(t, db)
		_, err := tx.Conn().Exec(t.Context(), "ROLLBACK")
		require.NoError(t, err)
		require.ErrorIs(t, unit.Commit(t.Context()), store.ErrManagedTx)
	})
}

func TestTx_SavepointMendsAFailedStatement(t *testing.T) {
	t.Parallel()
	db := setup(t)
	unit, tx := opened(t, db)
	insert(t, db, tx, "kept")
	savepoint, err := tx.Begin(t.Context())
	require.NoError(t, err)
	_, err = savepoint.Exec(t.Context(), `SELECT 1/0`)
	require.Error(t, err)
	require.NoError(t, savepoint.Rollback(t.Context()))
	nested, err := tx.Begin(t.Context())
	require.NoError(t, err)
	insert(t, db, nested, "nested")
	require.NoError(t, nested.Commit(t.Context()))
	require.NoError(t, unit.Commit(t.Context()))
	committed(t, db, "kept", "nested")
}

func TestTx_SwallowedErrorNamesItsCause(t *testing.T) {
	t.Parallel()
	db := setup(t)
	unit, tx := opened(t, db)
	insert(t, db, tx, "one")
	_, _ = tx.Exec(t.Context(), `SELECT 1/0`)
	_, _ = tx.Exec(t.Context(), `SELECT 1`)
	err := unit.Commit(t.Context())
	require.ErrorIs(t, err, store.ErrAborted)
	require.ErrorContains(t, err, "division by zero")
	committed(t, db)
}

func TestTx_UseAfterTheEndIsRefused(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(context.Context, pgx.Tx) error{
		"Exec":     func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, `SELECT 1`); return err },
		"Query":    func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Query(ctx, `SELECT 1`); return err },
		"QueryRow": func(ctx context.Context, tx pgx.Tx) error { return tx.QueryRow(ctx, `SELECT 1`).Scan(new(int)) },
		"Begin":    func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Begin(ctx); return err },
		"Prepare":  func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Prepare(ctx, "p", `SELECT 1`); return err },
		"Commit":   func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		"CopyFrom": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.CopyFrom(ctx, pgx.Identifier{"x"}, nil, pgx.CopyFromRows(nil))
			return err
		},
		"SendBatch": func(ctx context.Context, tx pgx.Tx) error { return tx.SendBatch(ctx, &pgx.Batch{}).Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := setup(t)
			unit, tx := opened(t, db)
			require.NoError(t, unit.Commit(t.Context()))
			require.ErrorIs(t, use(t.Context(), tx), store.ErrTxClosed)
			stray, err := postgres.TxFrom(t.Context())
			require.ErrorIs(t, err, store.ErrNoTx)
			require.ErrorIs(t, use(t.Context(), stray), store.ErrNoTx, "a transaction that is not there must not crash a handler")
		})
	}
}

func TestTx_GoroutineThatGoesOnIsShutOut(t *testing.T) {
	t.Parallel()
	db := setup(t)
	unit, tx := opened(t, db)
	var strays sync.WaitGroup
	for range 4 {
		strays.Go(func() {
			for {
				if _, err := tx.Exec(t.Context(), `SELECT 1`); err != nil {
					if !errors.Is(err, store.ErrTxClosed) {
						t.Errorf("stray: %v", err)
					}
					return
				}
			}
		})
	}
	require.NoError(t, unit.Commit(t.Context()))
	strays.Wait()
}

func TestTx_OpenRowsAreNoSuccess(t *testing.T) {
	t.Parallel()
	db := setup(t)
	unit, tx := opened(t, db)
	insert(t, db, tx, "one")
	rows, err := tx.Query(t.Context(), `SELECT generate_series(1, 1000)`)
	require.NoError(t, err)
	require.True(t, rows.Next())
	require.ErrorContains(t, unit.Commit(t.Context()), "rows or a batch open")
	committed(t, db)
}

func TestCommit_DeferredConstraintIsTheHandlersError(t *testing.T) {
	t.Parallel()
	db := setup(t)
	unit, tx := opened(t, db)
	insert(t, db, tx, "twice")
	insert(t, db, tx, "twice") // effect_once is checked at COMMIT
	err := unit.Commit(t.Context())
	require.NotErrorIs(t, err, store.ErrUnknownOutcome)
	require.Equal(t, dedup.ClassTransient, open(t, db).Classify(err), "a unique violation of the business is no duplicate")
	committed(t, db)
}

func TestCommit_LostConnectionIsNobodysFault(t *testing.T) {
	t.Parallel()
	db := setup(t)
	st := open(t, db)
	unit, tx := opened(t, db)
	insert(t, db, tx, "one")
	_, err := db.Pool.Exec(t.Context(), `SELECT pg_terminate_backend($1)`, tx.Conn().PgConn().PID())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT 1`)
	require.Error(t, err)
	require.ErrorIs(t, unit.Rollback(t.Context()), store.ErrUnavailable)
	require.Equal(t, dedup.ClassInfrastructure, st.Classify(err), "57P01")
	committed(t, db)
}

func TestSQLTx_HandlerThatCommitsIsFoundOut(t *testing.T) {
	t.Parallel()
	db := setup(t)
	unit := begin(t, openSQL(t, db), claimOf(t, dedup.Key{ID: "1"}))
	tx, err := postgres.SQLTxFrom(unit.Context(t.Context()))
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.ErrorIs(t, unit.Commit(t.Context()), store.ErrManagedTx)
}
