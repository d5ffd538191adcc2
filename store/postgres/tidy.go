package postgres

import (
	"context"
	"strconv"
	"strings"

	"github.com/oncebox/oncebox/store"
)

// usedSlots names the tables of the ring that are not empty.
const usedSlots = `
SELECT child.relname
FROM pg_inherits
JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
WHERE pg_inherits.inhparent = 'oncebox.outbox'::regclass AND pg_relation_size(child.oid) > 0
ORDER BY child.oid`

// currentSlot also says whether there are many old cursors.
const currentSlot = `
SELECT ((last_value >> 20) & 63)::int, pg_relation_size('oncebox.outbox_cursor') > 500000
FROM oncebox.outbox_id`

// Statements that leave only the last cursors. Nothing is locked for longer than a few
// milliseconds, nor waited for.
const (
	lockTimeout     = `SELECT set_config('lock_timeout', '50ms', true)`
	lockCursors     = `LOCK TABLE oncebox.outbox_cursor IN ACCESS EXCLUSIVE MODE`
	keepCursors     = `SELECT set_config('oncebox_cursor.kept', jsonb_agg(to_jsonb(position))::text, true) FROM oncebox.outbox_position AS position`
	truncateCursors = `TRUNCATE oncebox.outbox_cursor`
	restoreCursors  = `
INSERT INTO oncebox.outbox_cursor
SELECT kept.* FROM jsonb_populate_recordset(NULL::oncebox.outbox_cursor, current_setting('oncebox_cursor.kept')::jsonb) AS kept`
)

// forgetCursors empties the table of cursors but for the last ones.
func (l *ledger) forgetCursors(ctx context.Context) error {
	sql := l.sql.window
	err := l.source.pipeline(ctx,
		call{sql: lockTimeout, each: skipRow}, call{sql: sql.lockCursors}, call{sql: sql.keep, each: skipRow},
		call{sql: sql.truncate}, call{sql: sql.restore})
	if sqlState(err) == lockNotAvailable {
		return nil // another time
	}
	return err
}

const (
	// slotPassed reports whether every message in a slot lies in a window that is done. Those of
	// transactions before all that any bucket waits for do.
	slotPassed = `
SELECT NOT EXISTS (
  SELECT FROM oncebox.outbox_slot AS message
  JOIN oncebox.outbox_position AS bucket ON bucket.bucket = message.bucket
  WHERE message.xid >= (SELECT pg_snapshot_xmin(prev) FROM oncebox.outbox_position ORDER BY pg_snapshot_xmin(prev) LIMIT 1)
    AND NOT pg_visible_in_snapshot(message.xid, bucket.prev)
)`
	// lockSlot waits for no one: while a transaction that wrote to the slot runs, it fails.
	lockSlot  = `LOCK TABLE oncebox.outbox_slot IN ACCESS EXCLUSIVE MODE NOWAIT`
	emptySlot = `TRUNCATE oncebox.outbox_slot`
	// giveUpLock ends the transaction when this process vanishes while it has the lock.
	giveUpLock = `SELECT set_config('idle_in_transaction_session_timeout', '10s', true)`
)

// Tidy notes a tick, forgets old cursors and empties slots; see [store.Outbox].
func (l *ledger) Tidy(ctx context.Context) (done store.Tidied, err error) {
	err = l.source.pipeline(ctx,
		call{sql: l.sql.window.ticked, each: skipRow}, call{sql: l.sql.window.tick}, call{sql: l.sql.window.forgetTicks})
	if err != nil {
		return done, unavailable("note a tick", err)
	}
	var used []int
	var current int
	var many bool
	err = l.source.query(ctx, func(on session) error {
		if err := on.row(ctx, l.sql.window.current, nil, &current, &many); err != nil {
			return err
		}
		return on.rows(ctx, l.sql.window.used, nil, func(scan func(...any) error) error {
			var name string
			if err := scan(&name); err != nil {
				return err
			}
			slot, err := strconv.Atoi(name[strings.LastIndexByte(name, '_')+1:])
			used = append(used, slot)
			return err
		})
	})
	if err != nil {
		return done, unavailable("look for full slots", err)
	}
	if many {
		if err := l.forgetCursors(ctx); err != nil {
			return done, unavailable("forget old cursors", err)
		}
	}
	for _, slot := range used {
		if slot == current {
			continue
		}
		done.Full++
		emptied, err := l.empty(ctx, slot)
		if err != nil {
			return done, unavailable("empty slot", err)
		}
		if emptied {
			done.Emptied, done.Full = done.Emptied+1, done.Full-1
		}
	}
	return done, nil
}

// empty empties a slot when every bucket has passed it.
//
// Invariant: it is looked at again under the lock. What a running transaction has written is
// not visible to the first look, and it holds the lock off until it ends; what it writes
// after the lock is kept, and found like any other message.
func (l *ledger) empty(ctx context.Context, slot int) (emptied bool, err error) {
	sql := l.sql.slot[slot]
	err = l.source.query(ctx, func(on session) error { return on.row(ctx, sql.passed, nil, &emptied) })
	if err != nil || !emptied {
		return false, err
	}
	emptied = false
	err = l.source.transaction(ctx, func(on session) error {
		if _, err := on.exec(ctx, giveUpLock, nil); err != nil {
			return err
		}
		if _, err := on.exec(ctx, sql.lock, nil); err != nil {
			return err
		}
		passed := false
		if err := on.row(ctx, sql.passed, nil, &passed); err != nil || !passed {
			return err
		}
		_, err := on.exec(ctx, sql.empty, nil)
		emptied = err == nil
		return err
	})
	if sqlState(err) == lockNotAvailable {
		return false, nil
	}
	return emptied && err == nil, err
}
