package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/internal/deadline"
	"github.com/oncebox/oncebox/store"
)

// unit is a unit of work on pgx: one connection of the pool with an open transaction.
type unit struct {
	conn  *pgxpool.Conn
	inner pgx.Tx
	tx    *managedTx
	end   *deadline.Shared // bounds COMMIT and ROLLBACK
	store *Store
	ended bool
}

func (u *unit) begin(inner pgx.Tx, claim dedup.ClaimID) {
	u.inner = inner
	u.tx = &managedTx{inner: inner, outgoing: outgoing{ids: store.MessageIDs{Claim: claim}}}
}

// Context returns parent with the transaction in it.
func (u *unit) Context(parent context.Context) context.Context {
	return context.WithValue(parent, txKey{}, u.tx)
}

// Commit closes the transaction to the handler and commits it; see [store.Unit].
func (u *unit) Commit(ctx context.Context) error {
	if u.ended {
		return store.ErrTxClosed
	}
	u.tx.close()
	if err := u.committable(); err != nil {
		return errors.Join(err, u.Rollback(ctx))
	}
	defer u.release()
	// Cancelling the caller must not reach here: an interrupted COMMIT has an unknown outcome.
	err := u.commit(u.end.Within(ctx))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNotSent):
		return errors.Join(fmt.Errorf("commit: %w", err), u.inner.Rollback(u.end.Within(ctx)))
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return fmt.Errorf("commit: %w", store.ErrAborted)
	case refused(err):
		// The server has refused: a deferred constraint, a conflict, a full disk.
		return fmt.Errorf("commit: %w", err)
	}
	return fmt.Errorf("commit: %w: %w", store.ErrUnknownOutcome, err)
}

// commit commits, with the messages that wait for it in the same trip.
func (u *unit) commit(ctx context.Context) error {
	waiting := u.tx.outgoing.take()
	if len(waiting) == 0 {
		err := u.inner.Commit(ctx)
		if err == nil && u.tx.outgoing.sent {
			u.store.bell.ring()
		}
		return err
	}
	var batch pgx.Batch
	for _, one := range u.tx.outgoing.steps(waiting) {
		batch.Queue(one.sql, one.args...)
	}
	var tag pgconn.CommandTag
	batch.Queue(`COMMIT`).Exec(func(answer pgconn.CommandTag) error { tag = answer; return nil })
	err := u.conn.Conn().SendBatch(ctx, &batch).Close()
	switch {
	case err != nil && u.conn.Conn().PgConn().TxStatus() == 'E':
		return fmt.Errorf("%w: %w", errNotSent, err) // COMMIT was not reached
	case err != nil:
		return err
	case tag.String() != "COMMIT":
		return pgx.ErrTxCommitRollback
	}
	u.store.bell.ring()
	return nil
}

// errNotSent says that a statement before COMMIT failed.
var errNotSent = errors.New("append to outbox")

// committable looks at the transaction as the handler left it.
func (u *unit) committable() error {
	conn := u.conn.Conn().PgConn()
	switch {
	case conn.IsClosed():
		return fmt.Errorf("commit: connection was lost in the handler: %w", store.ErrUnavailable)
	case conn.IsBusy():
		return errors.New("commit: the handler left rows or a batch open; close them before it returns")
	case conn.TxStatus() == 'E':
		return fmt.Errorf("commit: %w", u.tx.abortedBy())
	case conn.TxStatus() != 'T' || u.tx.endedByHandler():
		return fmt.Errorf("commit: the handler ended it by a statement: %w", store.ErrManagedTx)
	}
	return nil
}

// Rollback closes the transaction to the handler and undoes it; see [store.Unit].
func (u *unit) Rollback(ctx context.Context) error {
	if u.ended {
		return nil
	}
	defer u.release()
	if u.tx == nil {
		return nil // BEGIN was never sent
	}
	u.tx.close()
	conn := u.conn.Conn()
	if conn.IsClosed() {
		return fmt.Errorf("roll back: connection was lost: %w", store.ErrUnavailable)
	}
	ctx = u.end.Within(ctx)
	if conn.PgConn().IsBusy() {
		return conn.Close(ctx) // the server rolls back when the connection ends
	}
	err := u.inner.Rollback(ctx)
	if err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		return fmt.Errorf("roll back: %w: %w", store.ErrUnavailable, err)
	}
	return nil
}

// release gives the connection back. The pool closes one that is broken, busy or still in
// a transaction.
func (u *unit) release() {
	if !u.ended {
		u.ended = true
		u.conn.Release()
	}
}
