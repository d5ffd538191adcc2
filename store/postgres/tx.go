package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncebox/oncebox/store"
)

type txKey struct{}

// TxFrom returns the transaction of the claim that is being handled. It fails with
// [store.ErrNoTx] when ctx comes from somewhere else; the returned transaction is then not
// nil either, and every call on it fails with that error.
//
// Commit and Rollback fail with [store.ErrManagedTx]; Begin makes a savepoint. After the
// handler has returned every call fails with [store.ErrTxClosed]. Calls from several
// goroutines take turns; rows must be closed before the next call.
func TxFrom(ctx context.Context) (pgx.Tx, error) {
	if tx, ok := ctx.Value(txKey{}).(*managedTx); ok {
		return tx, nil
	}
	return &managedTx{closed: true, reason: store.ErrNoTx}, store.ErrNoTx
}

// managedTx is a transaction as a handler may use it. A savepoint is one too, with the
// transaction as its parent.
type managedTx struct {
	inner  pgx.Tx
	parent *managedTx // nil: the transaction itself

	mu     sync.Mutex // guards the rest, and makes calls take turns
	closed bool
	reason error // why it is closed
	cause  error // the first statement that failed
	ended  bool  // a statement of the handler ended the transaction

	outgoing outgoing // of the transaction itself
}

// root is the transaction that a savepoint is in; its mutex serves all of them.
func (t *managedTx) root() *managedTx {
	for t.parent != nil {
		t = t.parent
	}
	return t
}

// use runs call unless the transaction is closed, and remembers what it did to it.
func (t *managedTx) use(call func() error) error {
	root := t.root()
	root.mu.Lock()
	defer root.mu.Unlock()
	if root.closed {
		return root.reason
	}
	err := call()
	if err != nil && root.cause == nil {
		root.cause = err
	}
	if root.inner.Conn().PgConn().TxStatus() == 'I' {
		root.ended = true
	}
	return err
}

func (t *managedTx) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed, t.reason = true, store.ErrTxClosed
	}
}

func (t *managedTx) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

func (t *managedTx) endedByHandler() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// abortedBy names the statement's error that aborted the transaction, if it passed here.
func (t *managedTx) abortedBy() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cause == nil {
		return store.ErrAborted
	}
	return fmt.Errorf("%w: %w", store.ErrAborted, t.cause)
}

// Begin makes a savepoint.
func (t *managedTx) Begin(ctx context.Context) (pgx.Tx, error) {
	var nested pgx.Tx
	err := t.use(func() (err error) {
		if err := t.root().sendOutgoing(ctx); err != nil {
			return err
		}
		nested, err = t.inner.Begin(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &managedTx{inner: nested, parent: t}, nil
}

// Commit releases a savepoint; on the transaction itself it fails.
func (t *managedTx) Commit(ctx context.Context) error {
	if t.parent == nil {
		return t.refuse()
	}
	return t.use(func() error { return t.inner.Commit(ctx) })
}

// Rollback goes back to a savepoint, and so mends what failed since; on the transaction
// itself it fails.
func (t *managedTx) Rollback(ctx context.Context) error {
	if t.parent == nil {
		return t.refuse()
	}
	return t.use(func() error {
		if err := t.inner.Rollback(ctx); err != nil {
			return err
		}
		t.root().cause = nil
		return nil
	})
}

func (t *managedTx) refuse() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return t.reason
	}
	return store.ErrManagedTx
}

func (t *managedTx) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = t.use(func() (err error) {
		if err := t.root().beforeSavepoint(ctx, sql); err != nil {
			return err
		}
		tag, err = t.inner.Exec(ctx, sql, args...)
		if tag.String() == "COMMIT" {
			t.root().ended = true
		}
		forgetDefaults(t.inner.Conn(), tag)
		return err
	})
	return tag, err
}

func (t *managedTx) Query(ctx context.Context, sql string, args ...any) (rows pgx.Rows, err error) {
	err = t.use(func() (err error) {
		if err := t.root().beforeSavepoint(ctx, sql); err != nil {
			return err
		}
		rows, err = t.inner.Query(ctx, sql, args...)
		return err
	})
	if rows == nil { // pgx promises rows even with an error
		rows = failedRows{err}
	}
	return rows, err
}

func (t *managedTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := t.Query(ctx, sql, args...)
	if err != nil {
		return failedRows{err}
	}
	return oneRow{t, rows}
}

func (t *managedTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, from pgx.CopyFromSource) (n int64, err error) {
	err = t.use(func() (err error) {
		n, err = t.inner.CopyFrom(ctx, table, columns, from)
		return err
	})
	return n, err
}

func (t *managedTx) SendBatch(ctx context.Context, batch *pgx.Batch) (results pgx.BatchResults) {
	err := t.use(func() error {
		for _, one := range batch.QueuedQueries {
			if err := t.root().beforeSavepoint(ctx, one.SQL); err != nil {
				return err
			}
		}
		results = t.inner.SendBatch(ctx, batch)
		return nil // its errors come with its results
	})
	if err != nil {
		return pgx.FailedBatchResults(batch, err)
	}
	return results
}

func (t *managedTx) Prepare(ctx context.Context, name, sql string) (described *pgconn.StatementDescription, err error) {
	err = t.use(func() (err error) {
		described, err = t.inner.Prepare(ctx, name, sql)
		return err
	})
	return described, err
}

// LargeObjects works on the transaction directly; it panics when that is closed, since it
// has no other way to say so.
func (t *managedTx) LargeObjects() (objects pgx.LargeObjects) {
	if err := t.use(func() error { objects = t.inner.LargeObjects(); return nil }); err != nil {
		panic(err)
	}
	return objects
}

// Conn is the connection, for what pgx.Tx does not offer; nil when the transaction is
// closed. Ending the transaction on it is found out before COMMIT.
func (t *managedTx) Conn() (conn *pgx.Conn) {
	_ = t.use(func() error {
		// It may make savepoints that are not seen here.
		if err := t.root().sendOutgoing(context.Background()); err != nil {
			return err
		}
		conn = t.inner.Conn()
		return nil
	})
	return conn
}

// oneRow is the answer of QueryRow.
type oneRow struct {
	tx   *managedTx
	rows pgx.Rows
}

// Scan reads the first row, or fails with pgx.ErrNoRows.
func (r oneRow) Scan(into ...any) error {
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return r.tx.use(func() error { return err })
		}
		return pgx.ErrNoRows
	}
	err := r.rows.Scan(into...)
	r.rows.Close()
	return errors.Join(err, r.rows.Err())
}
