package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/store"
)

// slotStatements work on one table of the ring; "outbox_slot" in them stands for its name.
type slotStatements struct{ page, passed, lock, empty string }

func newSlotStatements(in func(string) string) slotStatements {
	return slotStatements{page: in(readPage), passed: in(slotPassed), lock: in(lockSlot), empty: in(emptySlot)}
}

// readPage reads on in a window. The index gives the order; whatever else the planner may
// think of reads the whole window first, so it is kept from it by pageSettings.
const (
	readPage = `
SELECT id, message_id, topic, coalesce(ordering_key, ''), headers::text, payload, at,
       extract(epoch FROM oncebox.clock() - at)::float8
FROM oncebox.outbox_slot
WHERE bucket = $1 AND id > $2 AND id <= $3
  AND pg_visible_in_snapshot(xid, $4::pg_snapshot)
  AND NOT pg_visible_in_snapshot(xid, $5::pg_snapshot)
ORDER BY bucket, id
LIMIT $6`

	pageSettings = `
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_sort', 'off', true)`
)

// Read returns the next messages of each window; see [store.Outbox]. A page ends with its
// slot.
func (l *ledger) Read(ctx context.Context, cursors []store.Cursor, limit store.Limit) ([]store.Page, error) {
	pages := make([]store.Page, len(cursors))
	calls := []call{{sql: pageSettings, each: skipRow}}
	for i, cursor := range cursors {
		calls = append(calls, l.page(cursor, limit, &pages[i]))
	}
	if err := l.source.pipeline(ctx, calls...); err != nil {
		return nil, unavailable("read outbox", err)
	}
	return pages, nil
}

// SaveAndRead stores a cursor and reads on; see [store.Outbox].
func (l *ledger) SaveAndRead(ctx context.Context, cursor store.Cursor, limit store.Limit) (store.Page, error) {
	var page store.Page
	held := false
	err := l.source.pipeline(ctx,
		fence(l.save(cursor), &held), call{sql: pageSettings, each: skipRow}, l.page(cursor, limit, &page))
	if err != nil {
		return store.Page{}, unavailable("read outbox", err)
	}
	if !held {
		return store.Page{}, fmt.Errorf("save cursor: %w", store.ErrLeaseLost)
	}
	return page, nil
}

// page reads from the slot in which the cursor is.
func (l *ledger) page(c store.Cursor, limit store.Limit, into *store.Page) call {
	block := (c.Last + 1) / slotIDs
	end := min(c.High, (block+1)*slotIDs-1)
	into.Through = end
	bytes := 0
	return call{
		sql:  l.sql.slot[block%slots].page,
		args: []any{c.Bucket, c.Last, end, c.Cur, c.Prev, limit.Messages},
		each: func(scan func(...any) error) error {
			one, err := scanOutgoing(scan)
			if err != nil {
				return err
			}
			into.Messages = append(into.Messages, one)
			bytes += len(one.Payload)
			if len(into.Messages) == limit.Messages || bytes >= limit.Bytes {
				into.Through = one.Number
				return errEnough
			}
			return nil
		},
	}
}

func scanOutgoing(scan func(...any) error, more ...any) (one store.Outgoing, err error) {
	var headers string
	var age float64
	err = scan(append([]any{&one.Number, &one.ID, &one.Topic, &one.Key, &headers, &one.Payload, &one.At, &age}, more...)...)
	if err != nil {
		return one, err
	}
	one.Age = time.Duration(age * float64(time.Second))
	if headers != "{}" {
		if err := json.Unmarshal([]byte(headers), &one.Headers); err != nil {
			return one, fmt.Errorf("read headers: %w", err)
		}
	}
	return one, nil
}
