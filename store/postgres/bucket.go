package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/store"
)

// bucketStatements are about who publishes a bucket, and how far it is.
type bucketStatements struct {
	origin, renew, forget, rejoin, take, inherit string
	leased, save, release, leave, gone, states   string
}

func newBucketStatements(in func(string) string) bucketStatements {
	return bucketStatements{
		origin: in(readOrigin), renew: in(renewRelay), forget: in(forgetRelays), rejoin: in(rejoinBuckets),
		take: in(takeBuckets), inherit: in(inheritCursors), leased: in(leasedBuckets), save: in(saveCursor), release: in(releaseBucket), leave: in(leaveBuckets), gone: in(forgetRelay),
		states: in(bucketStates),
	}
}

// lockBuckets makes relays take turns when they share out buckets.
const lockBuckets = `SELECT pg_advisory_xact_lock($1)`

// readOrigin also says whether the numbers of transactions are this cluster's, and whether
// every bucket has its cursor.
const readOrigin = `
SELECT origin.id::text,
       origin.system_identifier = (SELECT system_identifier FROM pg_control_system())
       AND 16 = (
         SELECT count(*) FROM oncebox.outbox_position
         WHERE greatest(pg_snapshot_xmax(prev), pg_snapshot_xmax(cur)) <= pg_snapshot_xmax(pg_current_snapshot())
       )
FROM oncebox.outbox_origin AS origin`

const renewRelay = `
INSERT INTO oncebox.outbox_relay (relay, alive_until)
VALUES ($1, oncebox.clock() + make_interval(secs => $2))
ON CONFLICT ON CONSTRAINT outbox_relay_once
DO UPDATE SET alive_until = excluded.alive_until`

const forgetRelays = `
DELETE FROM oncebox.outbox_relay
WHERE alive_until < oncebox.clock() - interval '1 minute'`

// rejoinBuckets fences off what the relay itself was doing before.
const rejoinBuckets = `
UPDATE oncebox.outbox_bucket
SET epoch = epoch + 1
WHERE owner = $1`

// relayShare is how many buckets a relay should hold: all alike, the first ones one more
// when they don't come out even.
const relayShare = `
  SELECT 16 / greatest(count(*), 1) + (count(*) FILTER (WHERE relay < $1) < 16 % greatest(count(*), 1))::int AS buckets
  FROM oncebox.outbox_relay
  WHERE alive_until > oncebox.clock()`

const takeBuckets = `
WITH share AS (` + relayShare + `
), free AS (
  SELECT bucket
  FROM oncebox.outbox_bucket
  WHERE owner IS NULL OR NOT EXISTS (
    SELECT FROM oncebox.outbox_relay WHERE relay = owner AND alive_until > oncebox.clock()
  )
  ORDER BY bucket
  LIMIT greatest(0, (SELECT buckets FROM share) - (SELECT count(*) FROM oncebox.outbox_bucket WHERE owner = $1))
)
UPDATE oncebox.outbox_bucket AS taken
SET owner = $1, epoch = taken.epoch + 1
FROM free
WHERE taken.bucket = free.bucket`

// inheritCursors copies the cursors of buckets that were taken just now under their new
// epoch: whatever their former owner still saves comes before them.
const inheritCursors = `
INSERT INTO oncebox.outbox_cursor (bucket, epoch, prev, cur, last_id, high_id, mark, ahead, known_at)
SELECT bucket.bucket, bucket.epoch, prev, cur, last_id, high_id, mark, ahead, known_at
FROM oncebox.outbox_bucket AS bucket
JOIN oncebox.outbox_position AS position ON position.bucket = bucket.bucket
WHERE bucket.owner = $1 AND position.epoch < bucket.epoch`

const leasedBuckets = `
WITH share AS (` + relayShare + `
)
SELECT bucket.bucket, bucket.epoch, prev::text, coalesce(cur::text, ''), last_id, high_id, mark, ahead,
       extract(epoch FROM oncebox.clock() - known_at)::float8, share.buckets
FROM share
LEFT JOIN oncebox.outbox_bucket AS bucket ON bucket.owner = $1
LEFT JOIN oncebox.outbox_position AS position ON position.bucket = bucket.bucket
ORDER BY bucket.bucket`

// Lease renews what the relay holds and takes its share; see [store.Outbox].
func (l *ledger) Lease(ctx context.Context, request store.LeaseRequest) (lease store.Lease, err error) {
	if request.For < time.Second {
		return lease, fmt.Errorf("lease buckets: For: %v is less than a second", request.For)
	}
	relay, length := uuidOf(request.Relay), seconds(request.For)
	ours := false
	calls := []call{
		{sql: l.sql.bucket.origin, each: func(scan func(...any) error) error { return scan(&lease.Origin, &ours) }},
		{sql: lockBuckets, args: []any{l.bucketsLock()}, each: skipRow},
		{sql: l.sql.bucket.renew, args: []any{relay, length}},
		{sql: l.sql.bucket.forget},
	}
	if request.Fresh {
		calls = append(calls, call{sql: l.sql.bucket.rejoin, args: []any{relay}})
	}
	calls = append(calls, call{sql: l.sql.bucket.take, args: []any{relay}}, call{sql: l.sql.bucket.inherit, args: []any{relay}})
	for _, cursor := range request.Idle {
		calls = append(calls, l.save(cursor))
	}
	calls = append(calls, call{sql: l.sql.bucket.leased, args: []any{relay}, each: func(scan func(...any) error) error {
		return scanLeased(scan, request.Relay, &lease)
	}})
	if err := l.source.pipeline(ctx, calls...); err != nil {
		return store.Lease{}, unavailable("lease buckets", err)
	}
	if lease.Origin == "" {
		return store.Lease{}, errors.New("lease buckets: outbox_origin is empty")
	}
	if !ours {
		return store.Lease{}, fmt.Errorf("lease buckets: %w", store.ErrRestored)
	}
	return lease, nil
}

func scanLeased(scan func(...any) error, relay store.RelayID, lease *store.Lease) error {
	var (
		bucket, ahead       *int
		epoch, last, high   *int64
		prev, current, mark *string
		ago                 *float64
	)
	if err := scan(&bucket, &epoch, &prev, &current, &last, &high, &mark, &ahead, &ago, &lease.Share); err != nil {
		return err
	}
	if bucket == nil {
		return nil // it holds none
	}
	lease.Buckets = append(lease.Buckets, store.LeasedBucket{
		Cursor: store.Cursor{
			Bucket: *bucket, Relay: relay, Epoch: *epoch, Prev: *prev, Cur: *current, Last: *last, High: *high, Mark: *mark, Ahead: *ahead,
		},
		SavedAgo: time.Duration(*ago * float64(time.Second)),
	})
	return nil
}

// saveCursor writes nothing when the lease is lost.
//
// Invariant: it takes no lock. When the bucket is taken over in the same moment, what the
// former owner has written has a lower epoch than all that the new one writes, and so is
// never read again. What must not be written at all then is written after holdBucket.
const saveCursor = `
INSERT INTO oncebox.outbox_cursor (bucket, epoch, prev, cur, last_id, high_id, mark, ahead, known_at)
SELECT $1, $3, $4, $5, $6, $7, $8, $9, CASE
  WHEN $9 >= 0 THEN oncebox.clock()
  ELSE (SELECT known_at FROM oncebox.outbox_position WHERE bucket = $1)
END
WHERE EXISTS (SELECT FROM oncebox.outbox_bucket WHERE bucket = $1 AND owner = $2 AND epoch = $3)
RETURNING bucket`

func (l *ledger) save(c store.Cursor) call {
	var current any
	if c.Cur != "" {
		current = c.Cur
	}
	return call{
		sql:  l.sql.bucket.save,
		args: []any{c.Bucket, uuidOf(c.Relay), c.Epoch, c.Prev, current, c.Last, c.High, c.Mark, c.Ahead},
		each: skipRow,
	}
}

// fence makes err of a call whose statement touched no row.
func fence(write call, held *bool) call {
	write.each = func(func(...any) error) error { *held = true; return nil }
	return write
}

func skipRow(func(...any) error) error { return nil }

// Save stores a cursor; see [store.Outbox].
func (l *ledger) Save(ctx context.Context, cursor store.Cursor) error {
	held := false
	if err := l.source.pipeline(ctx, fence(l.save(cursor), &held)); err != nil {
		return unavailable("save cursor", err)
	}
	if !held {
		return fmt.Errorf("save cursor: %w", store.ErrLeaseLost)
	}
	return nil
}

const releaseBucket = `
UPDATE oncebox.outbox_bucket
SET owner = NULL
WHERE bucket = $1 AND owner = $2 AND epoch = $3`

// Release saves a cursor and gives its bucket back; see [store.Outbox].
func (l *ledger) Release(ctx context.Context, cursor store.Cursor) error {
	held := false
	release := call{sql: l.sql.bucket.release, args: []any{cursor.Bucket, uuidOf(cursor.Relay), cursor.Epoch}}
	if err := l.source.pipeline(ctx, fence(l.save(cursor), &held), release); err != nil {
		return unavailable("release bucket", err)
	}
	if !held {
		return fmt.Errorf("release bucket: %w", store.ErrLeaseLost)
	}
	return nil
}

const leaveBuckets = `
UPDATE oncebox.outbox_bucket
SET owner = NULL
WHERE owner = $1`

const forgetRelay = `DELETE FROM oncebox.outbox_relay WHERE relay = $1`

// Leave gives everything back; see [store.Outbox].
func (l *ledger) Leave(ctx context.Context, relay store.RelayID) error {
	args := []any{uuidOf(relay)}
	return unavailable("leave", l.source.pipeline(ctx,
		call{sql: l.sql.bucket.leave, args: args}, call{sql: l.sql.bucket.gone, args: args}))
}

func (l *ledger) bucketsLock() int64 {
	sum := sha256.Sum256([]byte("oncebox buckets 1\x00" + l.schema))
	return int64(binary.BigEndian.Uint64(sum[:]))
}
