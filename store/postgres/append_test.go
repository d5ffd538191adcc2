package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/internal/pgtest"
	"github.com/oncebox/oncebox/store"
	"github.com/oncebox/oncebox/store/postgres"
)

func note(payload string) store.Message {
	return store.Message{Topic: "notes", Key: "a", Payload: []byte(payload)}
}

// take claims a key and returns the unit with its context.
func take(t *testing.T, st store.Inbox, id string) (store.Unit, context.Context) {
	t.Helper()
	claim := store.Claim{Consumer: store.Consumer{Name: "billing", Retention: time.Hour}}
	var err error
	claim.ID, err = dedup.NewClaimID("billing", dedup.Key{Scope: dedup.Global, ID: id})
	require.NoError(t, err)
	unit, held, err := st.Begin(t.Context(), claim)
	require.NoError(t, err)
	require.Nil(t, held)
	return unit, unit.Context(t.Context())
}

// stored are the payloads in the outbox, by id.
func stored(t *testing.T, db *pgtest.DB) []string {
	t.Helper()
	rows, err := db.Pool.Query(t.Context(), `SELECT convert_from(payload, 'UTF8') FROM `+table(db, "outbox")+` ORDER BY id`)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}

func TestAppend_SavepointsTakeTheirMessagesBack(t *testing.T) {
	t.Parallel()
	rollBack := func(tx pgx.Tx, ctx context.Context, inside func(tx pgx.Tx)) error {
		nested, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		inside(nested)
		return nested.Rollback(ctx)
	}
	bySQL := func(tx pgx.Tx, ctx context.Context, inside func(tx pgx.Tx)) error {
		if _, err := tx.Exec(ctx, "-- name: Save :exec\nsavepoint mine"); err != nil {
			return err
		}
		inside(tx)
		_, err := tx.Exec(ctx, `ROLLBACK TO SAVEPOINT mine`)
		return err
	}
	byBatch := func(tx pgx.Tx, ctx context.Context, inside func(tx pgx.Tx)) error {
		var batch pgx.Batch
		batch.Queue(`SELECT 1`)
		batch.Queue(`SAVEPOINT mine`)
		if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
			return err
		}
		inside(tx)
		_, err := tx.Exec(ctx, `ROLLBACK TO SAVEPOINT mine`)
		return err
	}
	byConnection := func(tx pgx.Tx, ctx context.Context, inside func(tx pgx.Tx)) error {
		conn := tx.Conn()
		if _, err := conn.Exec(ctx, `SAVEPOINT mine`); err != nil {
			return err
		}
		inside(tx)
		_, err := conn.Exec(ctx, `ROLLBACK TO SAVEPOINT mine`)
		return err
	}
	again := store.Message{ID: "again", Topic: "notes", Key: "a", Payload: []byte("again")}
	for name, way := range map[string]func(pgx.Tx, context.Context, func(pgx.Tx)) error{
		"nested transaction": rollBack, "statement": bySQL, "batch": byBatch, "connection": byConnection,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := setup(t)
			st := open(t, db)
			unit, ctx := take(t, st, "1")
			tx, err := postgres.TxFrom(ctx)
			require.NoError(t, err)
			require.NoError(t, st.Append(ctx, note("before")))
			require.NoError(t, way(tx, ctx, func(inner pgx.Tx) {
				require.NoError(t, st.Append(ctx, note("inside, by context")))
				require.NoError(t, st.Tx(inner).Append(ctx, note("inside, by transaction"), again))
			}))
			require.NoError(t, st.Append(ctx, note("after"), again))
			require.NoError(t, unit.Commit(t.Context()))
			require.Equal(t, []string{"before", "after", "again"}, stored(t, db))
		})
	}
}

func TestAppend_OwnTransactions(t *testing.T) {
	t.Parallel()
	errNo := errors.New("no")
	t.Run("pgx", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		st := open(t, db)
		for payload, end := range map[string]error{"committed": nil, "rolled back": errNo} {
			err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
				require.NoError(t, st.Tx(tx).Append(t.Context(), note(payload)))
				return end
			})
			require.ErrorIs(t, err, end)
		}
		require.Equal(t, []string{"committed"}, stored(t, db))
	})
	t.Run("database/sql", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		st := openSQL(t, db)
		for payload, end := range map[string]bool{"committed": true, "rolled back": false} {
			tx, err := openSQLDB(t, db).BeginTx(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, st.Tx(tx).Append(t.Context(), note(payload)))
			if end {
				require.NoError(t, tx.Commit())
			} else {
				require.NoError(t, tx.Rollback())
			}
		}
		require.Equal(t, []string{"committed"}, stored(t, db))
	})
	t.Run("a handler's", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		st := openSQL(t, db)
		unit, ctx := take(t, st, "1")
		tx, err := postgres.SQLTxFrom(ctx)
		require.NoError(t, err)
		require.NoError(t, st.Tx(tx).Append(ctx, note("1")))
		require.NoError(t, unit.Commit(t.Context()))
		require.ErrorIs(t, st.Tx(tx).Append(ctx, note("2")), store.ErrTxClosed)
		require.Equal(t, []string{"1"}, stored(t, db))
	})
	t.Run("a handler's of database/sql", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		st := open(t, db)
		unit, ctx := take(t, st, "1")
		tx, err := postgres.TxFrom(ctx)
		require.NoError(t, err)
		require.NoError(t, st.Tx(tx).Append(ctx, note("1")))
		require.Empty(t, stored(t, db))
		require.NoError(t, unit.Commit(t.Context()))
		require.ErrorIs(t, st.Tx(tx).Append(ctx, note("2")), store.ErrTxClosed)
		require.Equal(t, []string{"1"}, stored(t, db))
	})
}

// What COMMIT takes along may fail before it.
func TestAppend_ThatFailsAtCommitCommitsNothing(t *testing.T) {
	t.Parallel()
	db := setup(t)
	st := open(t, db)
	unit, ctx := take(t, st, "1")
	require.NoError(t, write(ctx, db, "effect"))
	require.NoError(t, st.Append(ctx, note("1"), note("2")))
	_, err := db.Pool.Exec(t.Context(), `ALTER SEQUENCE `+table(db, "outbox_id")+` MAXVALUE 2`)
	require.NoError(t, err)
	err = unit.Commit(t.Context())
	require.ErrorContains(t, err, "append to outbox")
	require.NotErrorIs(t, err, store.ErrUnknownOutcome)
	found, err := effects(t.Context(), db)
	require.NoError(t, err)
	require.Empty(t, found)
	require.EqualValues(t, 0, db.Pool.Stat().AcquiredConns())
}

// The number of the transaction is assigned before the id is drawn: the plan shows the one
// below the other.
func TestAppend_NumberComesBeforeID(t *testing.T) {
	t.Parallel()
	db := setup(t)
	st := open(t, db)
	// Many transactions that have no number yet append while ticks are noted.
	stop := make(chan struct{})
	done := make(chan error, 4)
	for range 4 {
		go func() {
			var err error
			for err == nil {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				err = pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error { return st.Tx(tx).Append(t.Context(), note("1")) })
			}
			done <- err
		}()
	}
	for range 200 {
		_, err := db.Pool.Exec(t.Context(), `DELETE FROM `+table(db, "outbox_tick")+` WHERE at > clock_timestamp() - interval '1 second' AND last_id = 0`)
		require.NoError(t, err)
		err = pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `SELECT set_config('test.last', last_value::text, true) FROM `+table(db, "outbox_id"))
			if err == nil {
				_, err = tx.Exec(t.Context(), `INSERT INTO `+table(db, "outbox_tick")+` (xid, last_id) VALUES (pg_current_xact_id(), current_setting('test.last')::bigint)`)
			}
			return err
		})
		require.NoError(t, err)
	}
	close(stop)
	for range 4 {
		require.NoError(t, <-done)
	}
	early := db.Counts(t, `SELECT 'early', count(*)::int FROM %s AS message JOIN `+table(db, "outbox_tick")+` AS tick
ON message.xid >= tick.xid AND message.id <= tick.last_id`, "outbox")
	require.Zero(t, early["early"])
}
