package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/store"
)

// slots is the size of the ring that holds messages; slotIDs is how many ids a slot holds.
const (
	slots   = 64
	slotIDs = 1 << 20
)

// windowStatements open windows and keep the ring.
type windowStatements struct {
	open, ticked, tick, forgetTicks, moveDue, used, current string
	keep, lockCursors, truncate, restore                    string
}

func newWindowStatements(in func(string) string) windowStatements {
	return windowStatements{
		open: in(openWindow), ticked: in(readSequence), tick: in(insertTick), forgetTicks: in(forgetTicks),
		moveDue: in(moveDue), used: in(usedSlots), current: in(currentSlot),
		keep: in(keepCursors), lockCursors: in(lockCursors), truncate: in(truncateCursors), restore: in(restoreCursors),
	}
}

// openWindow takes the snapshot that ends the next window. A message of the window was
// written by a transaction that had not finished in prev; the smallest number that can have
// is "first". A tick with that number or a smaller one bounds the window from below.
//
// Invariant: a snapshot's xmax is the last finished number + 1, and not the next that is
// given: a number from xmax on may have been given before the snapshot was taken. So a tick
// has a number of its own, taken after the sequence was read.
const openWindow = `
SELECT pg_current_snapshot()::text, sequence.last_value, pg_postmaster_start_time()::text,
       coalesce((SELECT due_at FROM oncebox.outbox_delayed ORDER BY due_at, id LIMIT 1) <= oncebox.clock(), false),
       coalesce(asked.prev::text, ''),
       coalesce((SELECT tick.last_id FROM oncebox.outbox_tick AS tick WHERE tick.xid <= asked.first ORDER BY tick.xid DESC LIMIT 1), 0)
FROM oncebox.outbox_id AS sequence
LEFT JOIN LATERAL (
  SELECT prev, least(pg_snapshot_xmax(prev), (
    SELECT running
    FROM pg_snapshot_xip(prev) AS running
    WHERE pg_visible_in_snapshot(running, pg_current_snapshot())
    ORDER BY running LIMIT 1
  )) AS first
  FROM (SELECT one::pg_snapshot AS prev FROM unnest(string_to_array($1, ' ')) AS one) AS given
) AS asked ON true`

// Open takes a snapshot; see [store.Outbox].
func (l *ledger) Open(ctx context.Context, beginnings []string) (store.Opening, error) {
	opening := store.Opening{Starts: make(map[string]int64, len(beginnings))}
	err := l.source.query(ctx, func(on session) error {
		return on.rows(ctx, l.sql.window.open, []any{strings.Join(beginnings, " ")}, func(scan func(...any) error) error {
			var beginning string
			var start int64
			err := scan(&opening.Cur, &opening.High, &opening.Incarnation, &opening.Due, &beginning, &start)
			opening.Starts[beginning] = start
			return err
		})
	})
	return opening, unavailable("open window", err)
}

// Statements of a tick. The number is taken after the sequence was read, in a transaction
// that has none yet.
const (
	readSequence = `SELECT set_config('oncebox_tick.last_id', last_value::text, true) FROM oncebox.outbox_id`
	insertTick   = `
INSERT INTO oncebox.outbox_tick (xid, last_id)
SELECT pg_current_xact_id(), current_setting('oncebox_tick.last_id')::bigint
WHERE NOT EXISTS (
  SELECT FROM (SELECT last_id, at FROM oncebox.outbox_tick ORDER BY xid DESC LIMIT 1) AS latest
  WHERE latest.last_id = current_setting('oncebox_tick.last_id')::bigint
     OR latest.at > clock_timestamp() - interval '900 milliseconds'
)
ON CONFLICT DO NOTHING`
	// Older ticks than the oldest that a bucket may still ask for are of no use.
	forgetTicks = `
DELETE FROM oncebox.outbox_tick
WHERE xid < (
  SELECT kept.xid
  FROM oncebox.outbox_tick AS kept
  WHERE kept.xid <= (
    SELECT pg_snapshot_xmin(prev) FROM oncebox.outbox_position ORDER BY pg_snapshot_xmin(prev) LIMIT 1
  )
  ORDER BY kept.xid DESC LIMIT 1
)`
)

// moveDue moves delayed messages in the order in which they became due. One transaction at
// a time does it.
const moveDue = `
WITH turn AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock($1) AS mine
), due AS (
  DELETE FROM oncebox.outbox_delayed
  WHERE id IN (
    SELECT waiting.id
    FROM oncebox.outbox_delayed AS waiting, turn
    WHERE turn.mine AND waiting.due_at <= (SELECT oncebox.clock())
    ORDER BY waiting.due_at, waiting.id
    LIMIT $2
    FOR UPDATE OF waiting SKIP LOCKED
  )
  RETURNING bucket, message_id, topic, ordering_key, headers, payload, due_at, id
)
INSERT INTO oncebox.outbox (id, slot, bucket, message_id, topic, ordering_key, headers, payload)
SELECT drawn.new_id, (drawn.new_id >> 20) & 63, drawn.bucket, drawn.message_id, drawn.topic, drawn.ordering_key, drawn.headers, drawn.payload
FROM (
  SELECT nextval('oncebox.outbox_id') AS new_id, sorted.*
  FROM (SELECT * FROM due ORDER BY due_at, id) AS sorted
  OFFSET 0
) AS drawn
RETURNING 1`

// MoveDue moves delayed messages into the outbox; see [store.Outbox]. Deleting them assigns
// the transaction's number before the ids are drawn.
func (l *ledger) MoveDue(ctx context.Context, limit int) (moved int, err error) {
	if limit < 1 {
		return 0, fmt.Errorf("move delayed messages: limit: %d is less than 1", limit)
	}
	err = l.source.pipeline(ctx, call{
		sql: l.sql.window.moveDue, args: []any{orderingLock(l.schema, "delayed messages"), limit},
		each: func(func(...any) error) error { moved++; return nil },
	})
	return moved, unavailable("move delayed messages", err)
}
