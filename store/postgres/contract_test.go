package postgres_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/internal/pgtest"
	"github.com/oncebox/oncebox/migrations"
	"github.com/oncebox/oncebox/store/postgres"
	"github.com/oncebox/oncebox/store/storetest"
)

// setup makes a migrated schema with a table of business writes.
func setup(t *testing.T) *pgtest.DB {
	t.Helper()
	db := pgtest.Open(t)
	err := db.Pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
		return migrations.Up(t.Context(), conn.Conn(), migrations.Options{Schema: db.Schema})
	})
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `CREATE TABLE `+table(db, "effect")+
		` (value text NOT NULL, CONSTRAINT effect_once UNIQUE (value) DEFERRABLE INITIALLY DEFERRED)`)
	require.NoError(t, err)
	return db
}

func table(db *pgtest.DB, name string) string { return pgx.Identifier{db.Schema, name}.Sanitize() }

func open(t *testing.T, db *pgtest.DB) *postgres.Store {
	t.Helper()
	st, err := postgres.New(db.Pool, postgres.Config{Schema: db.Schema})
	require.NoError(t, err)
	return st
}

func openSQLDB(t *testing.T, db *pgtest.DB) *sql.DB {
	t.Helper()
	pool := stdlib.OpenDBFromPool(db.Pool)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	return pool
}

func openSQL(t *testing.T, db *pgtest.DB) *postgres.SQLStore {
	t.Helper()
	st, err := postgres.NewSQL(openSQLDB(t, db), postgres.Config{Schema: db.Schema})
	require.NoError(t, err)
	return st
}

// write inserts an effect in the transaction that ctx carries.
func write(ctx context.Context, db *pgtest.DB, value string) error {
	tx, err := postgres.TxFrom(ctx)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO `+table(db, "effect")+` (value) VALUES ($1)`, value)
	return err
}

func writeSQL(ctx context.Context, db *pgtest.DB, value string) error {
	tx, err := postgres.SQLTxFrom(ctx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO `+table(db, "effect")+` (value) VALUES ($1)`, value)
	return err
}

func effects(ctx context.Context, db *pgtest.DB) ([]string, error) {
	rows, err := db.Pool.Query(ctx, `SELECT value FROM `+table(db, "effect"))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func TestStore_KeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		db := setup(t)
		st := open(t, db)
		return storetest.Backend{
			Inbox: st, Letters: st, Outbox: st, Operator: st,
			Read:  func(ctx context.Context) ([]string, error) { return effects(ctx, db) },
			Write: func(ctx context.Context, value string) error { return write(ctx, db, value) },
			Abort: func(ctx context.Context) error {
				tx, err := postgres.TxFrom(ctx)
				if err == nil {
					_, _ = tx.Exec(ctx, `SELECT 1/0`)
				}
				return err
			},
		}
	})
}

func TestSQLStore_KeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		db := setup(t)
		st := openSQL(t, db)
		return storetest.Backend{
			Inbox: st, Letters: st, Outbox: st, Operator: st, Repeats: true,
			Read:  func(ctx context.Context) ([]string, error) { return effects(ctx, db) },
			Write: func(ctx context.Context, value string) error { return writeSQL(ctx, db, value) },
			Abort: func(ctx context.Context) error {
				tx, err := postgres.SQLTxFrom(ctx)
				if err == nil {
					_, _ = tx.ExecContext(ctx, `SELECT 1/0`)
				}
				return err
			},
		}
	})
}

// A schema may be named like what stands for something else in the statements.
func TestStore_SchemaMayHaveAnyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{`inbox_ring`, `outbox_slot`, `oncebox.`, `asked.claim_id`, `held_claim`, `$1 "x"`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.Open(t)
			schema := name + db.Schema
			quoted := pgx.Identifier{schema}.Sanitize()
			t.Cleanup(func() {
				_, err := db.Pool.Exec(context.WithoutCancel(t.Context()), `DROP SCHEMA IF EXISTS `+quoted+` CASCADE`)
				require.NoError(t, err)
			})
			err := db.Pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
				return migrations.Up(t.Context(), conn.Conn(), migrations.Options{Schema: schema})
			})
			if name == `$1 "x"` {
				require.ErrorContains(t, err, "Schema: holds a quote")
				return
			}
			require.NoError(t, err)
			st, err := postgres.New(db.Pool, postgres.Config{Schema: schema})
			require.NoError(t, err)
			replay(t, st, dedup.Key{ID: "1"})
			replay(t, st, dedup.Key{ID: "2", At: time.Now()})
			replay(t, st, dedup.Key{ID: "3", At: time.Now().Add(-40 * 24 * time.Hour)})
			_, err = st.Tidy(t.Context())
			require.NoError(t, err)
			_, err = st.State(t.Context())
			require.NoError(t, err)
		})
	}
}
