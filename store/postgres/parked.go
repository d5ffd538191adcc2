package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/store"
)

// parkedStatements are about messages that could not be published.
type parkedStatements struct {
	hold, insert, keys, due, remove, postpone string
	list, retry, skip, drop, edit, audit      string
	log, state                                string
}

func newParkedStatements(in func(string) string) parkedStatements {
	return parkedStatements{
		hold: in(holdBucket), insert: in(insertParked), keys: in(heldKeys), due: in(dueParked),
		remove: in(removeParked), postpone: in(postponeParked),
		list: in(listParked), retry: in(retryParked), skip: in(skipParked), drop: in(dropParked), edit: in(editParked),
		audit: in(insertAudit), log: in(listAudit), state: in(outboxState),
	}
}

// holdBucket keeps the lease from being lost before this transaction ends.
const holdBucket = `
SELECT bucket
FROM oncebox.outbox_bucket
WHERE bucket = $1 AND owner = $2 AND epoch = $3
FOR UPDATE`

// holding is the condition on what is written after holdBucket.
const holding = `
EXISTS (SELECT FROM oncebox.outbox_bucket AS held WHERE held.bucket = $1 AND held.owner = $2 AND held.epoch = $3)`

const insertParked = `
INSERT INTO oncebox.outbox_parked
  (bucket, id, at, next_at, dead_at, released, attempts, message_id, topic, ordering_key, last_error, headers, payload)
SELECT $1, $4, $5, oncebox.clock() + make_interval(secs => $6), CASE WHEN $7 THEN oncebox.clock() END, $8, $9, $10, $11, $12, $13, $14, $15
WHERE` + holding + `
ON CONFLICT DO NOTHING`

// Park stores messages that can't be published now; see [store.Outbox].
func (l *ledger) Park(ctx context.Context, cursor store.Cursor, parked []store.Parked) error {
	held := false
	calls := []call{fence(call{sql: l.sql.parked.hold, args: leaseArgs(cursor)}, &held), l.save(cursor)}
	for _, one := range parked {
		var key any
		if one.Key != "" {
			key = one.Key
		}
		calls = append(calls, call{sql: l.sql.parked.insert, args: append(leaseArgs(cursor),
			one.Number, one.At, seconds(one.Wait), one.Dead, one.Released, one.Attempts, one.ID, one.Topic, key,
			encodeText(cut(one.Error, store.MaxReasonBytes)), encodeHeaders(one.Headers), payloadOf(one.Message))})
	}
	if err := l.source.pipeline(ctx, calls...); err != nil {
		return unavailable("park messages", err)
	}
	if !held {
		return fmt.Errorf("park messages: %w", store.ErrLeaseLost)
	}
	return nil
}

func leaseArgs(c store.Cursor) []any { return []any{c.Bucket, uuidOf(c.Relay), c.Epoch} }

// headsOfKeys walks from key to key along the index, to the first message of each that is in
// its way; how many wait behind it does not matter.
const headsOfKeys = `
WITH RECURSIVE head AS (
  (
    SELECT ordering_key, id
    FROM oncebox.outbox_parked
    WHERE bucket = $1 AND NOT released AND ordering_key IS NOT NULL
    ORDER BY ordering_key, id
    LIMIT 1
  )
  UNION ALL
  SELECT following.ordering_key, following.id
  FROM head
  CROSS JOIN LATERAL (
    SELECT ordering_key, id
    FROM oncebox.outbox_parked
    WHERE bucket = $1 AND NOT released AND ordering_key > head.ordering_key
    ORDER BY ordering_key, id
    LIMIT 1
  ) AS following
)`

const heldKeys = headsOfKeys + `
SELECT ordering_key FROM head`

// dueParked are the heads that are not dead, and messages without a key, by their turn.
const dueParked = headsOfKeys + `
SELECT id, message_id, topic, coalesce(ordering_key, ''), headers::text, payload, at,
       extract(epoch FROM oncebox.clock() - at)::float8,
       attempts, last_error, extract(epoch FROM next_at - oncebox.clock())::float8
FROM oncebox.outbox_parked
WHERE bucket = $1 AND NOT released AND dead_at IS NULL
  AND id IN (
    SELECT id FROM head
    UNION ALL
    SELECT id FROM oncebox.outbox_parked WHERE bucket = $1 AND NOT released AND ordering_key IS NULL
  )
ORDER BY next_at, id
LIMIT $2`

// Parked returns what holds keys up; see [store.Outbox].
func (l *ledger) Parked(ctx context.Context, bucket, limit int) (held store.Holdup, err error) {
	err = l.source.pipeline(ctx,
		call{sql: l.sql.parked.keys, args: []any{bucket}, each: func(scan func(...any) error) error {
			var key string
			err := scan(&key)
			held.Keys = append(held.Keys, key)
			return err
		}},
		call{sql: l.sql.parked.due, args: []any{bucket, limit}, each: func(scan func(...any) error) error {
			var one store.Parked
			var left float64
			var err error
			if one.Outgoing, err = scanOutgoing(scan, &one.Attempts, &one.Error, &left); err != nil {
				return err
			}
			wait := time.Duration(left * float64(time.Second))
			switch {
			case wait <= 0:
				held.Due = append(held.Due, one)
			case held.Next == 0:
				held.Next = wait
			}
			return nil
		}},
	)
	return held, unavailable("read parked messages", err)
}

const removeParked = `
DELETE FROM oncebox.outbox_parked
WHERE bucket = $1 AND id = $4 AND` + holding

const postponeParked = `
UPDATE oncebox.outbox_parked
SET attempts = $5, next_at = oncebox.clock() + make_interval(secs => $6), last_error = $7,
    dead_at = CASE WHEN $8 THEN oncebox.clock() END, released = $9
WHERE bucket = $1 AND id = $4 AND` + holding

// Settle records what became of parked messages; see [store.Outbox].
func (l *ledger) Settle(ctx context.Context, cursor store.Cursor, outcomes []store.Outcome) error {
	held := false
	calls := []call{fence(call{sql: l.sql.parked.hold, args: leaseArgs(cursor)}, &held)}
	for _, one := range outcomes {
		args := append(leaseArgs(cursor), one.Number)
		if one.Published {
			calls = append(calls, call{sql: l.sql.parked.remove, args: args})
			continue
		}
		calls = append(calls, call{sql: l.sql.parked.postpone, args: append(args,
			one.Attempts, seconds(one.Wait), encodeText(cut(one.Error, store.MaxReasonBytes)), one.Dead, one.Released)})
	}
	calls = append(calls, l.save(cursor))
	if err := l.source.pipeline(ctx, calls...); err != nil {
		return unavailable("settle parked messages", err)
	}
	if !held {
		return fmt.Errorf("settle parked messages: %w", store.ErrLeaseLost)
	}
	return nil
}

func payloadOf(m store.Message) []byte {
	if m.Payload == nil {
		return []byte{}
	}
	return m.Payload
}
