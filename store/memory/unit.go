package memory

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

type txKey struct{}

// TxFrom returns the transaction of the claim that is being handled, or [store.ErrNoTx].
func TxFrom(ctx context.Context) (*Tx, error) {
	if tx, ok := ctx.Value(txKey{}).(*Tx); ok {
		return tx, nil
	}
	return nil, store.ErrNoTx
}

// Tx is a transaction: what is put in it is seen when its unit commits. After the handler
// has returned every call fails with [store.ErrTxClosed].
type Tx struct {
	store *Store

	mu      sync.Mutex // guards the rest
	puts    map[string]string
	ids     store.MessageIDs
	sent    []store.Message
	aborted bool
	closed  bool
}

// Put sets a value.
func (t *Tx) Put(key, value string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return store.ErrTxClosed
	}
	t.puts[key] = value
	return nil
}

// Abort makes the transaction fail to commit, as a failed statement does in a database.
func (t *Tx) Abort() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return store.ErrTxClosed
	}
	t.aborted = true
	return nil
}

// end closes the transaction and returns what was put in it and sent.
func (t *Tx) end() (puts map[string]string, sent []store.Message, aborted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return t.puts, t.sent, t.aborted
}

// unit is a unit of work. Its claim is nil when it holds none.
type unit struct {
	tx    *Tx
	id    dedup.ClaimID
	claim *claim
	ended bool
}

// Context returns parent with the transaction in it.
func (u *unit) Context(parent context.Context) context.Context {
	return context.WithValue(parent, txKey{}, u.tx)
}

// Commit makes the claim and what was put seen together; see [store.Unit].
func (u *unit) Commit(ctx context.Context) error {
	if u.ended {
		return store.ErrTxClosed
	}
	puts, sent, aborted := u.tx.end()
	if aborted {
		_ = u.Rollback(ctx) // can't fail
		return fmt.Errorf("commit: %w", store.ErrAborted)
	}
	u.ended = true
	s := u.tx.store
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.values, puts)
	s.outbox.commit(sent)
	if u.claim != nil {
		u.claim.record = settled(u.claim.record, dedup.Completed)
		close(u.claim.done)
	}
	return nil
}

// Rollback drops the claim and what was put; see [store.Unit].
func (u *unit) Rollback(context.Context) error {
	if u.ended {
		return nil
	}
	u.ended = true
	u.tx.end()
	s := u.tx.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.claim != nil {
		delete(s.claims, u.id)
		close(u.claim.done)
	}
	return nil
}
