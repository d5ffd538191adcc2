package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store/postgres"
)

func TestGuardPool_RefusesThePoolInsideAHandler(t *testing.T) {
	t.Parallel()
	db := setup(t)
	config := db.Pool.Config()
	asked := 0
	config.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { asked++; return true, nil }
	postgres.GuardPool(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer pool.Close()
	st, err := postgres.New(pool, postgres.Config{Schema: db.Schema})
	require.NoError(t, err)

	unit := begin(t, st, claimOf(t, dedup.Key{ID: "1"}))
	inHandler := unit.Context(t.Context())
	_, err = pool.Exec(inHandler, `SELECT 1`)
	require.ErrorIs(t, err, postgres.ErrPoolInHandler)
	require.NoError(t, write(inHandler, db, "in the transaction"))
	require.NoError(t, unit.Commit(t.Context()))
	_, err = pool.Exec(inHandler, `SELECT 1`)
	require.NoError(t, err, "the handler has returned")
	require.Positive(t, asked, "other hooks are kept")
}

// Under a stricter level a duplicate would be a serialization failure.
func TestClaim_IsReadCommittedWhateverTheServersDefault(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			db := setup(t)
			config := db.Pool.Config()
			config.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			require.NoError(t, err)
			defer pool.Close()
			st, err := postgres.New(pool, postgres.Config{Schema: db.Schema})
			require.NoError(t, err)
			first := begin(t, st, claimOf(t, dedup.Key{ID: "1"}))
			_, held, err := st.Begin(t.Context(), claimOf(t, dedup.Key{ID: "1"}))
			require.NoError(t, err)
			require.Equal(t, dedup.Processing, held.Record.Status)
			require.NoError(t, first.Commit(t.Context()))
			_, held, err = st.Begin(t.Context(), claimOf(t, dedup.Key{ID: "1"}))
			require.NoError(t, err)
			require.Equal(t, dedup.Completed, held.Record.Status)
		})
	}
}
