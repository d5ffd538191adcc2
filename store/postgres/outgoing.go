package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncebox/oncebox/store"
)

// outgoing are the messages that a unit of work has appended. They wait for COMMIT, which
// takes them along, as long as no savepoint could take them back.
type outgoing struct {
	ids     store.MessageIDs
	waiting []store.Message
	steps   func([]store.Message) []step // how they are sent
	direct  bool                         // send at once
	sent    bool                         // something was
	closed  bool
}

func (o *outgoing) take() []store.Message {
	waiting := o.waiting
	o.waiting, o.sent = nil, o.sent || len(waiting) > 0
	return waiting
}

// close reports whether something was sent.
func (o *outgoing) close() bool {
	o.closed = true
	return o.sent
}

// append is called with messages that were looked at.
func (t *managedTx) append(ctx context.Context, l *ledger, messages []store.Message) error {
	root := t.root()
	return root.use(func() error {
		added := root.outgoing.ids.Assign(messages)
		if !root.outgoing.direct {
			root.outgoing.waiting = append(root.outgoing.waiting, added...)
			root.outgoing.steps = l.appendSteps
			return nil
		}
		root.outgoing.sent = root.outgoing.sent || len(added) > 0
		return sendSteps(ctx, root.inner, l.appendSteps(added))
	})
}

// sendOutgoing sends what waits now, and all that comes later at once. Its caller holds the
// mutex.
func (t *managedTx) sendOutgoing(ctx context.Context) error {
	t.outgoing.direct, t.outgoing.ids.Repeats = true, true
	waiting := t.outgoing.take()
	if len(waiting) == 0 {
		return nil
	}
	return sendSteps(ctx, t.inner, t.outgoing.steps(waiting))
}

// beforeSavepoint sends what waits if sql may make a savepoint, wherever it does. Its caller
// holds the mutex.
func (t *managedTx) beforeSavepoint(ctx context.Context, sql string) error {
	if t.outgoing.direct || !containsFold(sql, "savepoint") {
		return nil
	}
	return t.sendOutgoing(ctx)
}

// containsFold reports whether text contains an ASCII word in lower case, whatever its case.
func containsFold(text, word string) bool {
	for i := 0; i+len(word) <= len(text); i++ {
		if text[i]|0x20 == word[0] && strings.EqualFold(text[i:i+len(word)], word) {
			return true
		}
	}
	return false
}

// sendSteps sends steps in one trip.
func sendSteps(ctx context.Context, tx pgx.Tx, steps []step) error {
	var batch pgx.Batch
	for _, one := range steps {
		batch.Queue(one.sql, one.args...)
	}
	return tx.SendBatch(ctx, &batch).Close()
}
