package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

// appendMessage stores a message in the slot of its id.
//
// Invariant: the transaction's number is assigned before the id is drawn, as the nesting
// makes sure.
const appendMessage = `
INSERT INTO oncebox.outbox (xid, id, slot, bucket, message_id, topic, ordering_key, headers, payload)
SELECT drawn.xid, drawn.id, (drawn.id >> 20) & 63, $1, $2, $3, $4, $5, $6
FROM (
  SELECT own.xid, nextval('oncebox.outbox_id') AS id
  FROM (SELECT pg_current_xact_id() AS xid OFFSET 0) AS own
  OFFSET 0
) AS drawn`

const appendDelayed = `
INSERT INTO oncebox.outbox_delayed (bucket, message_id, topic, ordering_key, headers, payload, due_at)
VALUES ($1, $2, $3, $4, $5, $6, oncebox.clock() + make_interval(secs => $7))`

// lockOrderingKey makes transactions that append under one key take turns.
const lockOrderingKey = `SELECT pg_advisory_xact_lock($1)`

// appendSteps store the messages in their order.
func (l *ledger) appendSteps(messages []store.Message) (steps []step) {
	var locks []int64
	for _, one := range messages {
		if one.LockKey {
			locks = append(locks, orderingLock(l.schema, one.Key))
		}
	}
	slices.Sort(locks) // all lock in the same order, so that none waits in a circle
	for _, lock := range slices.Compact(locks) {
		steps = append(steps, step{lockOrderingKey, []any{lock}})
	}
	for _, one := range messages {
		args := messageArgs(one)
		if one.Delay > 0 {
			steps = append(steps, step{l.sql.appendDelayed, append(args, seconds(one.Delay))})
			continue
		}
		steps = append(steps, step{l.sql.appendMessage, args})
	}
	return steps
}

// messageArgs are a message as columns: bucket, message_id, topic, ordering_key, headers,
// payload.
func messageArgs(one store.Message) []any {
	var key any
	if one.Key != "" {
		key = one.Key
	}
	return []any{int16(one.Bucket()), one.ID, one.Topic, key, encodeHeaders(one.Headers), payloadOf(one)}
}

func encodeHeaders(headers map[string]string) string {
	if len(headers) == 0 {
		return "{}"
	}
	encoded, _ := json.Marshal(headers) // texts only: can't fail
	return string(encoded)
}

func orderingLock(schema, key string) int64 {
	sum := sha256.Sum256([]byte("oncebox ordering key 1\x00" + schema + "\x00" + key))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// checkMessages names the first message that can't be sent.
func (l *ledger) checkMessages(messages []store.Message) error {
	for i, one := range messages {
		if err := one.Validate(l.largest); err != nil {
			return fmt.Errorf("append message %d of %d: %w", i+1, len(messages), err)
		}
	}
	return nil
}

// Append stores messages in the handler's transaction, which ctx carries; see
// [store.Appender]. They travel with its COMMIT.
func (s *Store) Append(ctx context.Context, messages ...store.Message) error {
	tx, ok := ctx.Value(txKey{}).(*managedTx)
	if !ok {
		return store.ErrNoTx
	}
	return s.Tx(tx).Append(ctx, messages...)
}

// Tx returns an Appender for a transaction of the program's own, or a handler's. In one of
// the program's own, messages are sent at once, and relays in this process are told of them
// by their next look, or by [Store.Wake] after COMMIT.
func (s *Store) Tx(tx pgx.Tx) store.Appender { return txAppender{&s.ledger, tx} }

// Wake makes relays in this process look for new messages now. Call it after the COMMIT of
// a transaction that was given to [Store.Tx].
func (l *ledger) Wake() { l.bell.ring() }

type txAppender struct {
	ledger *ledger
	tx     pgx.Tx
}

func (a txAppender) Append(ctx context.Context, messages ...store.Message) error {
	if err := a.ledger.checkMessages(messages); err != nil || len(messages) == 0 {
		return err
	}
	if handlers, ok := a.tx.(*managedTx); ok {
		return handlers.append(ctx, a.ledger, messages)
	}
	if err := sendSteps(ctx, a.tx, a.ledger.appendSteps(withIDs(messages))); err != nil {
		return fmt.Errorf("append to outbox: %w", err)
	}
	return nil
}

// withIDs gives messages ids that no claim stands behind.
func withIDs(messages []store.Message) []store.Message {
	messages = slices.Clone(messages)
	for i := range messages {
		messages[i].ID = cmp.Or(messages[i].ID, dedup.RandomMessageID())
	}
	return messages
}

// Append stores messages in the handler's transaction, which ctx carries; see
// [store.Appender].
func (s *SQLStore) Append(ctx context.Context, messages ...store.Message) error {
	tx, ok := ctx.Value(sqlTxKey{}).(*handlerTx)
	if !ok {
		return store.ErrNoTx
	}
	if err := s.checkMessages(messages); err != nil {
		return err
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.outgoing.closed {
		return store.ErrTxClosed
	}
	added := tx.outgoing.ids.Assign(messages)
	tx.outgoing.sent = tx.outgoing.sent || len(added) > 0
	return s.appendNow(ctx, tx.Tx, added)
}

// Tx returns an Appender for a transaction of the program's own, or a handler's; see
// [Store.Tx].
func (s *SQLStore) Tx(tx *sql.Tx) store.Appender { return sqlTxAppender{s, tx} }

type sqlTxAppender struct {
	store *SQLStore
	tx    *sql.Tx
}

func (a sqlTxAppender) Append(ctx context.Context, messages ...store.Message) error {
	if handlers, ok := ctx.Value(sqlTxKey{}).(*handlerTx); ok && handlers.Tx == a.tx {
		return a.store.Append(ctx, messages...)
	}
	if err := a.store.checkMessages(messages); err != nil {
		return err
	}
	return a.store.appendNow(ctx, a.tx, withIDs(messages))
}

func (s *SQLStore) appendNow(ctx context.Context, tx *sql.Tx, messages []store.Message) error {
	for _, one := range s.appendSteps(messages) {
		if _, err := tx.ExecContext(ctx, one.sql, one.args...); err != nil {
			return fmt.Errorf("append to outbox: %w", err)
		}
	}
	return nil
}

func seconds(d time.Duration) float64 { return d.Round(time.Microsecond).Seconds() }
