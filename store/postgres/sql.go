package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/oncebox/oncebox/store"
)

// SQLStore keeps claims and an outbox in Postgres through database/sql, with any driver for
// Postgres whose errors have a SQLState method, as those of pgx and lib/pq do. It implements
// [store.Inbox], [store.DeadLetters], [store.Outbox] and [store.Operator], and is safe for
// concurrent use.
//
// It sends the statements of a claim one by one, so a message costs at least one trip more
// than with [Store], and each message that is appended another.
type SQLStore struct {
	ledger
	db *sql.DB
}

// MaxUnits is the limit of db; see [store.Limited].
func (s *SQLStore) MaxUnits() int { return s.db.Stats().MaxOpenConnections }

var (
	_ store.Inbox       = (*SQLStore)(nil)
	_ store.Limited     = (*SQLStore)(nil)
	_ store.DeadLetters = (*SQLStore)(nil)
	_ store.Outbox      = (*SQLStore)(nil)
	_ store.Operator    = (*SQLStore)(nil)
)

// NewSQL returns a store on db, for code that works on database/sql. It opens no
// connection; the tables are made by package migrations. EndTimeout does not apply:
// database/sql can't bound a COMMIT. A running handler holds one connection, so db should allow one for each message that is handled at once.
func NewSQL(db *sql.DB, config Config) (*SQLStore, error) {
	if db == nil {
		return nil, errors.New("open store: db: missing")
	}
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return &SQLStore{ledger: newLedger(config, sqlSource{db}), db: db}, nil
}

type sqlTxKey struct{}

// handlerTx is a unit's transaction as its context carries it.
type handlerTx struct {
	*sql.Tx

	mu       sync.Mutex // guards the rest
	outgoing outgoing
}

// close seals the transaction against further messages, and reports whether there are any.
func (t *handlerTx) close() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.outgoing.close()
}

// SQLTxFrom returns the transaction of the claim that is being handled; with
// [store.ErrNoTx], and nil, when ctx comes from somewhere else. Don't commit it or roll it
// back: database/sql can't forbid it, so the handler's message then fails with
// [store.ErrManagedTx], although what it committed stays committed together with the claim.
func SQLTxFrom(ctx context.Context) (*sql.Tx, error) {
	if tx, ok := ctx.Value(sqlTxKey{}).(*handlerTx); ok {
		return tx.Tx, nil
	}
	return nil, store.ErrNoTx
}

// Begin opens a unit of work and takes the claim in it; see [store.Inbox].
func (s *SQLStore) Begin(ctx context.Context, claim store.Claim) (store.Unit, *store.Held, error) {
	consumer, err := s.claimant(ctx, claim)
	if err != nil {
		return nil, nil, err
	}
	if held := s.lookUp(ctx, claim, consumer); held != nil {
		return nil, held, nil
	}
	// database/sql rolls back when the context of BeginTx ends; the handler's may end first.
	tx, err := s.db.BeginTx(context.WithoutCancel(ctx), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, nil, unavailable("begin", err)
	}
	u := &sqlUnit{tx: &handlerTx{Tx: tx, outgoing: outgoing{ids: store.MessageIDs{Claim: claim.ID, Repeats: true}}}, bell: s.bell}
	held, err := s.claim(ctx, sqlSession{tx}, claim, consumer.id)
	consumer.met(held, err)
	switch {
	case err != nil && sqlState(err) == lockNotAvailable && claim.Wait > 0 && !claim.Consumer.Shadow:
		return nil, inFlight(), u.Rollback(ctx)
	case errors.Is(err, store.ErrFutureTime):
		return nil, nil, errors.Join(fmt.Errorf("claim: %w", err), u.Rollback(ctx))
	case err != nil:
		return nil, nil, errors.Join(unavailable("claim", err), u.Rollback(ctx))
	case held == nil || claim.Consumer.Shadow:
		return u, held, nil
	}
	return nil, held, u.Rollback(ctx)
}

// claim runs the claim's statements one by one and reads what is there when the claim is
// not taken.
func (s *SQLStore) claim(ctx context.Context, on session, claim store.Claim, consumer int16) (*store.Held, error) {
	taken, err := runSteps(ctx, on, s.claimSteps(claim, consumer, false))
	if err != nil || taken {
		return nil, err
	}
	if !claim.At.IsZero() {
		var future, old bool
		if err := on.row(ctx, s.sql.ageOf, []any{claim.At}, &future, &old); err != nil {
			return nil, err
		}
		if future {
			return nil, store.ErrFutureTime
		}
	}
	return s.readHeldClaim(ctx, on, claim)
}

// sqlUnit is a unit of work on database/sql.
type sqlUnit struct {
	tx    *handlerTx
	bell  *bell
	ended bool
}

// Context returns parent with the transaction in it.
func (u *sqlUnit) Context(parent context.Context) context.Context {
	return context.WithValue(parent, sqlTxKey{}, u.tx)
}

// aliveInTransaction fails in an aborted transaction, and is the trip that database/sql
// costs: it can't be asked for the transaction's state, nor for the tag of COMMIT.
const aliveInTransaction = `SELECT 1`

const inFailedTransaction = "25P02"

// Commit commits the transaction; see [store.Unit].
func (u *sqlUnit) Commit(ctx context.Context) error {
	if u.ended {
		return store.ErrTxClosed
	}
	u.ended = true
	sent := u.tx.close()
	_, err := u.tx.ExecContext(context.WithoutCancel(ctx), aliveInTransaction)
	switch {
	case errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("commit: the handler ended it: %w", store.ErrManagedTx)
	case sqlState(err) == inFailedTransaction:
		return errors.Join(fmt.Errorf("commit: %w", store.ErrAborted), u.tx.Rollback())
	case err != nil:
		return errors.Join(unavailable("commit", err), u.tx.Rollback())
	}
	if err := u.tx.Commit(); err != nil {
		if refused(err) {
			return fmt.Errorf("commit: %w", err)
		}
		return fmt.Errorf("commit: %w: %w", store.ErrUnknownOutcome, err)
	}
	if sent {
		u.bell.ring()
	}
	return nil
}

// Rollback undoes the transaction; see [store.Unit].
func (u *sqlUnit) Rollback(context.Context) error {
	if u.ended {
		return nil
	}
	u.ended = true
	u.tx.close()
	err := u.tx.Rollback()
	if err == nil || errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return unavailable("roll back", err)
}
