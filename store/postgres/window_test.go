package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/internal/pgtest"
	"github.com/oncebox/oncebox/store"
	"github.com/oncebox/oncebox/store/postgres"
)

// relay reads bucket a's messages as a relay does.
type relay struct {
	t      *testing.T
	st     *postgres.Store
	cursor store.Cursor
}

func newRelay(t *testing.T, st *postgres.Store) *relay {
	t.Helper()
	lease, err := st.Lease(t.Context(), store.LeaseRequest{Relay: store.RelayID{1}, For: time.Minute})
	require.NoError(t, err)
	return &relay{t, st, lease.Buckets[note("").Bucket()].Cursor}
}

// read reads a window to its end and saves it, for all buckets.
func (r *relay) read() (payloads []string) {
	r.t.Helper()
	ctx := r.t.Context()
	opening, err := r.st.Open(ctx, []string{r.cursor.Prev})
	require.NoError(r.t, err)
	c := r.cursor
	c.Cur, c.High, c.Last = opening.Cur, opening.High, opening.Starts[c.Prev]
	for c.Last < c.High {
		pages, err := r.st.Read(ctx, []store.Cursor{c}, store.Limit{Messages: 10, Bytes: 1 << 20})
		require.NoError(r.t, err)
		for _, one := range pages[0].Messages {
			payloads = append(payloads, string(one.Payload))
		}
		c.Last = pages[0].Through
	}
	r.cursor = c.Finish()
	for bucket := range store.Buckets {
		cursor := r.cursor
		cursor.Bucket = bucket
		require.NoError(r.t, r.st.Save(ctx, cursor))
	}
	return payloads
}

// The end of a snapshot is the number after the last one that has finished, and not the next
// one that is given: a relay that took it for that lost messages.
func TestWindow_StartsBeforeTransactionsThatHadTheirNumberButHadNotFinished(t *testing.T) {
	t.Parallel()
	db := setup(t)
	st := open(t, db)
	r := newRelay(t, st)
	ctx := t.Context()
	// The late one has its number, and the highest one so far, when the snapshot is taken:
	// it is not below the snapshot's end.
	conn, err := db.Pool.Acquire(ctx)
	require.NoError(t, err)
	defer conn.Release()
	late, err := conn.Begin(ctx)
	require.NoError(t, err)
	require.NoError(t, st.Tx(late).Append(ctx, note("late")))
	require.Empty(t, r.read())
	for i := range 3 {
		append1(t, db, st, fmt.Sprint(i))
		_, err := st.Tidy(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{fmt.Sprint(i)}, r.read())
		time.Sleep(time.Second) // a tick each
	}
	require.NoError(t, late.Commit(ctx))
	require.Equal(t, []string{"late"}, r.read())
}

func append1(t *testing.T, db *pgtest.DB, st *postgres.Store, payload string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error { return st.Tx(tx).Append(t.Context(), note(payload)) })
	require.NoError(t, err)
}

// Other tests' transactions, in the same cluster, may hold both back for a while.
func TestWindow_TicksBoundTheScanAndOldOnesAreForgotten(t *testing.T) {
	t.Parallel()
	db := setup(t)
	st := open(t, db)
	r := newRelay(t, st)
	var start int64
	var ticks int
	for i := 0; start < 5 || ticks > 2; i++ {
		require.Less(t, i, 60, "the window starts at %d, with %d ticks", start, ticks)
		append1(t, db, st, fmt.Sprint(i))
		require.Equal(t, []string{fmt.Sprint(i)}, r.read())
		_, err := st.Tidy(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		opening, err := st.Open(t.Context(), []string{r.cursor.Prev})
		require.NoError(t, err)
		start = opening.Starts[r.cursor.Prev]
		ticks = db.Counts(t, `SELECT 'ticks', count(*)::int FROM %s`, "outbox_tick")["ticks"]
	}
}

// A cursor is saved many times a second.
func TestTidy_ForgetsOldCursorsAlthoughAnOldSnapshotIsHeld(t *testing.T) {
	t.Parallel()
	db := setup(t)
	st := open(t, db)
	r := newRelay(t, st)
	conn, err := pgx.Connect(t.Context(), db.DSN)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	for _, sql := range []string{`BEGIN ISOLATION LEVEL REPEATABLE READ`, `SELECT 1`} {
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	_, err = db.Pool.Exec(t.Context(), `INSERT INTO `+table(db, "outbox_cursor")+` (epoch, last_id, high_id, ahead, bucket, prev, mark)
SELECT 0, 0, 0, 0, i % 16, '1:1:', '' FROM generate_series(1, 10000) AS i`)
	require.NoError(t, err)
	append1(t, db, st, "1")
	require.Equal(t, []string{"1"}, r.read())
	rows := func() int { return db.Counts(t, `SELECT 'all', count(*)::int FROM %s`, "outbox_cursor")["all"] }
	require.Greater(t, rows(), 10000)
	for deadline := time.Now().Add(20 * time.Second); rows() > 16; {
		_, err = st.Tidy(t.Context())
		require.NoError(t, err)
		require.True(t, time.Now().Before(deadline), "%d rows", rows())
	}
	require.Equal(t, 16, rows())
	append1(t, db, st, "2")
	require.Equal(t, []string{"2"}, r.read(), "the last cursors are kept")
}

// A page is one walk along the index, whatever the planner believes of the table.
func TestPage_IsReadAlongTheIndex(t *testing.T) {
	t.Parallel()
	db := setup(t)
	open(t, db)
	for rows, analyze := range map[int]bool{0: false, 2000: true} {
		err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
			ctx := t.Context()
			_, err := tx.Exec(ctx, fmt.Sprintf(`INSERT INTO %s (id, slot, bucket, message_id, topic, headers, payload)
SELECT i, 0, i %% 16, 'id', 'topic', '{}', 'payload' FROM generate_series(1, %d) AS i`, table(db, "outbox"), rows))
			if err != nil {
				return err
			}
			if analyze {
				if _, err := tx.Exec(ctx, `ANALYZE `+table(db, "outbox_slot_0")); err != nil {
					return err
				}
			}
			if _, err := tx.Exec(ctx, postgres.PageSettings); err != nil {
				return err
			}
			plan, err := explain(ctx, tx, strings.NewReplacer(
				"oncebox.", pgx.Identifier{db.Schema}.Sanitize()+".", "outbox_slot", "outbox_slot_0",
				"$1", "3", "$2", "0", "$3", "1000000", "$4", "'100:200:'", "$5", "'10:10:'", "$6", "500",
			).Replace(postgres.ReadPage))
			if err != nil {
				return err
			}
			require.Contains(t, plan, "Index Scan using outbox_slot_0_page")
			require.NotContains(t, plan, "Sort")
			require.NotContains(t, plan, "Bitmap")
			require.NotContains(t, plan, "Seq Scan")
			return nil
		})
		require.NoError(t, err)
	}
}

func explain(ctx context.Context, tx pgx.Tx, sql string) (string, error) {
	rows, err := tx.Query(ctx, `EXPLAIN `+sql)
	if err != nil {
		return "", err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return strings.Join(lines, "\n"), err
}

func TestRing_IsEmptiedOnlyWhenAllIsPassedAndNobodyWritesToIt(t *testing.T) {
	t.Parallel()
	db := setup(t)
	st := open(t, db)
	r := newRelay(t, st)
	ctx := t.Context()
	turn := func() {
		_, err := db.Pool.Exec(ctx, `SELECT setval('`+table(db, "outbox_id")+`', last_value + (1 << 20)) FROM `+table(db, "outbox_id"))
		require.NoError(t, err)
	}
	tidy := func() store.Tidied {
		done, err := st.Tidy(ctx)
		require.NoError(t, err)
		return done
	}
	append1(t, db, st, "1")
	require.Equal(t, store.Tidied{}, tidy(), "the slot in use is left alone")
	turn()
	require.Equal(t, store.Tidied{Full: 1}, tidy(), "it is not passed")

	conn, err := db.Pool.Acquire(ctx)
	require.NoError(t, err)
	defer conn.Release()
	writer, err := conn.Begin(ctx)
	require.NoError(t, err)
	_, err = writer.Exec(ctx, `INSERT INTO `+table(db, "outbox")+` (id, slot, bucket, message_id, topic, headers, payload) VALUES (100, 0, $1, 'late', 'notes', '{}', 'late')`, note("").Bucket())
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, r.read())
	require.Equal(t, store.Tidied{Full: 1}, tidy(), "a transaction that wrote to it still runs")
	require.NoError(t, writer.Commit(ctx))
	require.Equal(t, store.Tidied{Full: 1}, tidy(), "what it wrote is not passed")
	require.Equal(t, []string{"late"}, r.read())
	require.Equal(t, store.Tidied{Emptied: 1}, tidy())
	require.Empty(t, stored(t, db))

	for range 64 { // around the ring, into the slot that was emptied
		turn()
	}
	append1(t, db, st, "again")
	require.Equal(t, []string{"again"}, r.read())
}

// A relay looks for messages several times a second, for years.
func TestOutbox_LookingInVainTakesNoTransactionNumber(t *testing.T) {
	t.Parallel()
	db := setup(t)
	pool, assigned := openCounting(t, db)
	st, err := postgres.NewSQL(pool, postgres.Config{Schema: db.Schema})
	require.NoError(t, err)
	r := newRelay(t, open(t, db))
	append1(t, db, open(t, db), "1")
	require.Equal(t, []string{"1"}, r.read())
	_, err = st.Tidy(t.Context())
	require.NoError(t, err)
	require.Positive(t, assigned.Load(), "the first tick has to be noted")
	time.Sleep(time.Second) // a second tick would be due

	assigned.Store(0)
	for range 20 {
		opening, err := st.Open(t.Context(), []string{r.cursor.Prev})
		require.NoError(t, err)
		cursor := r.cursor
		cursor.Cur, cursor.High = opening.Cur, opening.High
		_, err = st.Read(t.Context(), []store.Cursor{cursor}, store.Limit{Messages: 1, Bytes: 1})
		require.NoError(t, err)
		_, err = st.Tidy(t.Context())
		require.NoError(t, err)
		_, err = st.Parked(t.Context(), 0, 10)
		require.NoError(t, err)
		_, err = st.MoveDue(t.Context(), 10)
		require.NoError(t, err)
	}
	require.Zero(t, assigned.Load())
}

func TestOutbox_RestoredIntoAnotherCluster(t *testing.T) {
	t.Parallel()
	for name, restore := range map[string]string{
		"another cluster's name":            `UPDATE %s.outbox_origin SET system_identifier = 1`,
		"transaction numbers of the future": `UPDATE %s.outbox_cursor SET prev = '999999999999:999999999999:'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := setup(t)
			st := open(t, db)
			r := newRelay(t, st)
			append1(t, db, st, "published before")
			require.Equal(t, []string{"published before"}, r.read())
			append1(t, db, st, "not published before")
			require.NoError(t, st.Leave(t.Context(), r.cursor.Relay))
			if strings.Contains(restore, "prev") {
				// As if all of it had been written in a cluster far ahead of this one.
				_, err := db.Pool.Exec(t.Context(), `UPDATE `+table(db, "outbox")+` SET xid = CASE convert_from(payload, 'UTF8')
					WHEN 'published before' THEN '999999999998'::xid8 ELSE '999999999999'::xid8 END`)
				require.NoError(t, err)
			}
			_, err := db.Pool.Exec(t.Context(), fmt.Sprintf(restore, pgx.Identifier{db.Schema}.Sanitize()))
			require.NoError(t, err)

			request := store.LeaseRequest{Relay: store.RelayID{1}, For: time.Minute}
			_, err = st.Lease(t.Context(), request)
			require.ErrorIs(t, err, store.ErrRestored)
			require.Error(t, st.ResetOutbox(t.Context(), store.Order{Who: "ann"}))
			_, err = db.Pool.Exec(t.Context(), `DELETE FROM `+table(db, "outbox_relay"))
			require.NoError(t, err)
			require.NoError(t, st.ResetOutbox(t.Context(), store.Order{Who: "ann", Why: "restored for a test"}))

			again := newRelay(t, st)
			require.Equal(t, []string{"not published before"}, again.read())
			append1(t, db, st, "after")
			require.Equal(t, []string{"after"}, again.read())
			entries, err := st.Audit(t.Context(), 1)
			require.NoError(t, err)
			require.Equal(t, "reset", entries[0].Verb)
		})
	}
	t.Run("while a relay runs", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		st := open(t, db)
		newRelay(t, st)
		require.ErrorIs(t, st.ResetOutbox(t.Context(), store.Order{Who: "ann", Why: "test"}), postgres.ErrRelaysRun)
	})
}
