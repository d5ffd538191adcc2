package postgres

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/store"
)

// outboxState counts what is small and estimates what may be large.
const outboxState = `
SELECT (SELECT count(*) FROM oncebox.outbox_parked WHERE dead_at IS NULL),
       (SELECT count(*) FROM oncebox.outbox_parked WHERE dead_at IS NOT NULL),
       (SELECT count(*) FROM (SELECT FROM oncebox.outbox_delayed LIMIT 100000) AS waiting),
       (SELECT count(*) FROM oncebox.outbox_relay WHERE alive_until > oncebox.clock())::int,
       (SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'oncebox.outbox'::regclass)::bigint`

const bucketStates = `
SELECT bucket, EXISTS (SELECT FROM oncebox.outbox_relay WHERE relay = owner AND alive_until > oncebox.clock()), epoch,
       extract(epoch FROM oncebox.clock() - known_at)::float8, prev::text, coalesce(cur::text, ''), last_id, high_id
FROM oncebox.outbox_position
ORDER BY bucket`

// maxLooks bounds how many slots are looked into for a bucket's oldest message.
const maxLooks = 2 * slots

// State looks at the outbox as a whole; see [store.Operator].
func (l *ledger) State(ctx context.Context) (state store.OutboxState, err error) {
	var cursors []store.Cursor
	var beginnings []string
	err = l.source.query(ctx, func(on session) error {
		err := on.row(ctx, l.sql.parked.state, nil, &state.Parked, &state.Dead, &state.Delayed, &state.Relays, &state.Bytes)
		if err != nil {
			return err
		}
		return on.rows(ctx, l.sql.bucket.states, nil, func(scan func(...any) error) error {
			var one store.BucketState
			var cursor store.Cursor
			var ago float64
			err := scan(&one.Bucket, &one.Owned, &one.Epoch, &ago, &cursor.Prev, &cursor.Cur, &cursor.Last, &cursor.High)
			one.SavedAgo, cursor.Bucket = time.Duration(ago*float64(time.Second)), one.Bucket
			state.Buckets = append(state.Buckets, one)
			cursors, beginnings = append(cursors, cursor), append(beginnings, cursor.Prev)
			if !cursor.Between() {
				beginnings = append(beginnings, cursor.Cur)
			}
			return err
		})
	})
	if err != nil {
		return state, unavailable("look at outbox", err)
	}
	opening, err := l.Open(ctx, beginnings)
	if err != nil {
		return state, err
	}
	for i, cursor := range cursors {
		oldest := time.Duration(0)
		if !cursor.Between() { // what is left of the window that is being published
			if oldest, err = l.oldest(ctx, cursor); err != nil {
				return state, err
			}
			cursor = cursor.Finish()
		}
		cursor.Last, cursor.Cur, cursor.High = opening.Starts[cursor.Prev], opening.Cur, opening.High
		later, err := l.oldest(ctx, cursor)
		if err != nil {
			return state, err
		}
		state.Buckets[i].Oldest = max(oldest, later)
	}
	return state, nil
}

// oldest is the age of the first message after the cursor.
func (l *ledger) oldest(ctx context.Context, cursor store.Cursor) (time.Duration, error) {
	for range maxLooks {
		if cursor.Last >= cursor.High {
			break
		}
		pages, err := l.Read(ctx, []store.Cursor{cursor}, store.Limit{Messages: 1, Bytes: 1})
		if err != nil {
			return 0, err
		}
		if found := pages[0].Messages; len(found) > 0 {
			return found[0].Age, nil
		}
		cursor.Last = pages[0].Through
	}
	return 0, nil
}
