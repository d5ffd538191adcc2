package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/store"
)

// published is what a bucket's cursor says of a message, in the numbers of the cluster in
// which both were written; comparing them needs no cluster at all.
const published = `
  (pg_visible_in_snapshot(message.xid, bucket.prev)
   OR bucket.cur IS NOT NULL AND pg_visible_in_snapshot(message.xid, bucket.cur) AND message.id <= bucket.last_id)`

// Statements of a reset. The beginning of the next window is taken while the transaction has
// no number: a snapshot does not count its own transaction as running.
const (
	keepSnapshot = `SELECT set_config('oncebox_reset.prev', pg_current_snapshot()::text, true)`

	dropPublished = `
DELETE FROM oncebox.outbox AS message
USING oncebox.outbox_position AS bucket
WHERE bucket.bucket = message.bucket AND` + published

	resendUnpublished = `UPDATE oncebox.outbox SET xid = pg_current_xact_id()`

	resetBuckets = `
UPDATE oncebox.outbox_bucket
SET owner = NULL, epoch = epoch + 1`

	resetCursors = `
INSERT INTO oncebox.outbox_cursor (bucket, epoch, prev, last_id, high_id, mark, ahead)
SELECT bucket, epoch, current_setting('oncebox_reset.prev')::pg_snapshot, 0, 0, '', 0
FROM oncebox.outbox_bucket`

	resetTicks  = `DELETE FROM oncebox.outbox_tick`
	firstTick   = `INSERT INTO oncebox.outbox_tick (xid, last_id) VALUES ('0', 0)`
	resetOrigin = `UPDATE oncebox.outbox_origin SET system_identifier = (SELECT system_identifier FROM pg_control_system())`
	anyRelay    = `SELECT EXISTS (SELECT FROM oncebox.outbox_relay WHERE alive_until > oncebox.clock())`
	lockOutbox  = `LOCK TABLE oncebox.outbox, oncebox.outbox_bucket, oncebox.outbox_cursor IN EXCLUSIVE MODE`
)

// ErrRelaysRun says that an outbox can't be reset while relays publish it.
var ErrRelaysRun = errors.New("relays hold leases: stop them all and wait for their leases to end")

// ResetOutbox makes a restored outbox usable; see [store.Operator]. It rewrites the messages
// that are not published, in one transaction.
func (l *ledger) ResetOutbox(ctx context.Context, order store.Order) error {
	if err := checkOrder(order); err != nil {
		return fmt.Errorf("reset outbox: %w", err)
	}
	err := l.source.transaction(ctx, func(on session) error {
		in := func(text string) string { return strings.ReplaceAll(text, "oncebox.", l.sql.schema) }
		if _, err := on.exec(ctx, in(lockOutbox), nil); err != nil {
			return err
		}
		running := false
		if err := on.row(ctx, in(anyRelay), nil, &running); err != nil {
			return err
		}
		if running {
			return ErrRelaysRun
		}
		for _, sql := range []string{keepSnapshot, dropPublished, resendUnpublished, resetBuckets, resetCursors, resetTicks, firstTick, resetOrigin} {
			if _, err := on.exec(ctx, in(sql), nil); err != nil {
				return err
			}
		}
		_, err := on.exec(ctx, l.sql.parked.audit, []any{"reset", order.Who, order.Why, nil, "", "", ""})
		return err
	})
	if errors.Is(err, ErrRelaysRun) {
		return fmt.Errorf("reset outbox: %w", err)
	}
	return unavailable("reset outbox", err)
}
