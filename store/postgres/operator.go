package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/store"
)

// maxListed bounds what one call of an operator reads: it may hold whole messages.
const maxListed = 1000

const listParked = `
SELECT id, message_id, topic, coalesce(ordering_key, ''), headers::text, payload, at,
       extract(epoch FROM oncebox.clock() - at)::float8,
       bucket, attempts, last_error, dead_at IS NOT NULL, released, parked_at,
       extract(epoch FROM next_at - oncebox.clock())::float8
FROM oncebox.outbox_parked
WHERE id > $1 AND (dead_at IS NOT NULL OR NOT $2)
ORDER BY id
LIMIT $3`

// ListParked returns parked messages; see [store.Operator].
func (l *ledger) ListParked(ctx context.Context, after int64, limit int, dead bool) ([]store.ParkedMessage, error) {
	if limit < 1 || limit > maxListed {
		return nil, fmt.Errorf("list parked messages: limit: %d is not from 1 to %d", limit, maxListed)
	}
	var listed []store.ParkedMessage
	err := l.source.query(ctx, func(on session) error {
		return on.rows(ctx, l.sql.parked.list, []any{after, dead, limit}, func(scan func(...any) error) error {
			var one store.ParkedMessage
			var left float64
			var err, textErr error
			one.Outgoing, err = scanOutgoing(scan, &one.Bucket, &one.Attempts, &one.Error, &one.Dead, &one.Released, &one.ParkedAt, &left)
			one.Error, textErr = decodeText(one.Error)
			one.Wait = max(0, time.Duration(left*float64(time.Second)))
			listed = append(listed, one)
			return errors.Join(err, textErr)
		})
	})
	return listed, unavailable("list parked messages", err)
}

// The verbs. Each returns what the record of it says of the message.
const (
	retryParked = `
UPDATE oncebox.outbox_parked
SET attempts = 0, next_at = oncebox.clock(), dead_at = NULL, released = false
WHERE id = $1
RETURNING message_id, topic`

	skipParked = `
UPDATE oncebox.outbox_parked
SET released = true
WHERE id = $1 AND dead_at IS NOT NULL AND NOT released
RETURNING message_id, topic`

	dropParked = `
DELETE FROM oncebox.outbox_parked
WHERE id = $1
RETURNING message_id, topic`

	editParked = `
UPDATE oncebox.outbox_parked
SET headers = (headers || $2::jsonb) - string_to_array($3, ',')
WHERE id = $1
RETURNING message_id, topic`

	insertAudit = `
INSERT INTO oncebox.outbox_audit (verb, who, why, parked, message_id, topic, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7)`
)

// RetryParked makes a message due; see [store.Operator].
func (l *ledger) RetryParked(ctx context.Context, order store.Order) error {
	return l.order(ctx, "retry", order, "", l.sql.parked.retry)
}

// SkipParked lets a key go on; see [store.Operator].
func (l *ledger) SkipParked(ctx context.Context, order store.Order) error {
	return l.order(ctx, "skip", order, "", l.sql.parked.skip)
}

// DropParked removes a message; see [store.Operator].
func (l *ledger) DropParked(ctx context.Context, order store.Order) error {
	return l.order(ctx, "drop", order, "", l.sql.parked.drop)
}

// EditHeaders changes headers; see [store.Operator]. The record names them, and does not
// hold their values.
func (l *ledger) EditHeaders(ctx context.Context, order store.Order, set map[string]string, unset []string) error {
	changed := slices.Concat(slices.Sorted(maps.Keys(set)), unset)
	if err := (store.Message{Topic: "any", Headers: set}).Validate(l.largest); err != nil {
		return fmt.Errorf("edit headers: %w", err)
	}
	if len(changed) == 0 || slices.ContainsFunc(unset, func(name string) bool { return name == "" || strings.Contains(name, ",") }) {
		return errors.New("edit headers: nothing to change, or a name to remove is empty or holds a comma")
	}
	return l.order(ctx, "edit headers", order, strings.Join(changed, ", "),
		l.sql.parked.edit, encodeHeaders(set), strings.Join(unset, ","))
}

// order runs a verb on one parked message and records it in the same transaction.
func (l *ledger) order(ctx context.Context, verb string, order store.Order, detail, sql string, args ...any) error {
	if err := checkOrder(order); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	err := l.source.transaction(ctx, func(on session) error {
		var id, topic string
		err := on.row(ctx, sql, append([]any{order.Number}, args...), &id, &topic)
		if errors.Is(err, errNoRows) {
			return store.ErrNotParked
		}
		if err != nil {
			return err
		}
		_, err = on.exec(ctx, l.sql.parked.audit, []any{verb, order.Who, order.Why, order.Number, id, topic, detail})
		return err
	})
	if errors.Is(err, store.ErrNotParked) {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return unavailable(verb, err)
}

func checkOrder(order store.Order) error {
	var wrong []error
	for field, text := range map[string]string{"Who": order.Who, "Why": order.Why} {
		if text == "" || len(text) > store.MaxMessageTextBytes || !clean(text) {
			wrong = append(wrong, fmt.Errorf("%s: %d bytes, want 1 to %d of UTF-8", field, len(text), store.MaxMessageTextBytes))
		}
	}
	return errors.Join(wrong...)
}

const listAudit = `
SELECT at, verb, who, why, coalesce(parked, 0), message_id, topic, detail
FROM oncebox.outbox_audit
ORDER BY id DESC
LIMIT $1`

// Audit returns the latest changes; see [store.Operator].
func (l *ledger) Audit(ctx context.Context, limit int) ([]store.AuditEntry, error) {
	if limit < 1 || limit > maxListed {
		return nil, fmt.Errorf("list changes: limit: %d is not from 1 to %d", limit, maxListed)
	}
	var entries []store.AuditEntry
	err := l.source.query(ctx, func(on session) error {
		return on.rows(ctx, l.sql.parked.log, []any{limit}, func(scan func(...any) error) error {
			var e store.AuditEntry
			err := scan(&e.At, &e.Verb, &e.Who, &e.Why, &e.Number, &e.MessageID, &e.Topic, &e.Detail)
			entries = append(entries, e)
			return err
		})
	})
	return entries, unavailable("list changes", err)
}
