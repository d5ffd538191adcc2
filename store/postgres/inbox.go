package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncebox/oncebox/store"
)

// Begin opens a unit of work and takes the claim in it, in one trip; see [store.Inbox].
func (s *Store) Begin(ctx context.Context, claim store.Claim) (store.Unit, *store.Held, error) {
	consumer, err := s.claimant(ctx, claim)
	if err != nil {
		return nil, nil, err
	}
	if held := s.lookUp(ctx, claim, consumer); held != nil {
		return nil, held, nil
	}
	unit, held, old, err := s.begin(ctx, claim, consumer.id, claim.Wait == 0)
	if old {
		unit, held, _, err = s.begin(ctx, claim, consumer.id, false)
	}
	consumer.met(held, err)
	return unit, held, err
}

// begin opens a unit and takes the claim in it, by quickSteps or by those for any claim. It
// reports old when nothing was found of an intent that is too old for quickSteps.
func (s *Store) begin(ctx context.Context, claim store.Claim, consumer int16, quick bool) (_ store.Unit, held *store.Held, old bool, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, nil, false, unavailable("acquire connection", err)
	}
	u := &unit{conn: conn, end: s.end, store: s}
	taken, err := s.claim(ctx, u, claim, consumer, quick)
	switch {
	case err != nil && sqlState(err) == lockNotAvailable && claim.Wait > 0 && !claim.Consumer.Shadow:
		return nil, inFlight(), false, u.Rollback(ctx)
	case err != nil:
		return nil, nil, false, errors.Join(unavailable("claim", err), u.Rollback(ctx))
	case taken:
		return u, nil, false, nil
	case claim.Consumer.Shadow:
		held, err := s.readHeldClaim(ctx, pgxSession{u.inner}, claim)
		if err != nil {
			return nil, nil, false, errors.Join(unavailable("read held claim", err), u.Rollback(ctx))
		}
		return u, held, false, nil
	}
	held, old, err = s.heldInstead(ctx, u, claim)
	return nil, held, old, err
}

// claim sends BEGIN and the claim's statements in one batch.
func (s *Store) claim(ctx context.Context, u *unit, claim store.Claim, consumer int16, quick bool) (taken bool, err error) {
	conn := u.conn.Conn()
	var session defaults
	if quick {
		if session, err = defaultsOf(ctx, conn); err != nil {
			return false, err
		}
	}
	var batch pgx.Batch
	batch.BeginTx(session.begin(claim))
	var steps steps
	if quick {
		steps = s.quickSteps(claim, consumer, session)
	} else {
		steps = s.claimSteps(claim, consumer, false)
	}
	for _, one := range steps.before {
		batch.Queue(one.sql, one.args...)
	}
	for _, one := range steps.inserts {
		batch.Queue(one.sql, one.args...).Exec(func(tag pgconn.CommandTag) error {
			taken = taken || tag.RowsAffected() == 1
			return nil
		})
	}
	for _, one := range steps.after {
		batch.Queue(one.sql, one.args...)
	}
	results := conn.SendBatch(ctx, &batch)
	u.begin(results.Tx(), claim.ID)
	return taken, results.Close()
}

// heldInstead reads the claim that is there and ends the transaction, in one trip. Without
// one it is in flight, or its intent is old.
func (s *Store) heldInstead(ctx context.Context, u *unit, claim store.Claim) (held *store.Held, old bool, err error) {
	defer u.release()
	var batch pgx.Batch
	var row heldRow
	var future bool
	read := s.heldStep(claim)
	batch.Queue(read.sql, read.args...).QueryRow(func(found pgx.Row) error {
		err := found.Scan(row.columns()...)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err == nil {
			held, err = row.held()
		}
		return err
	})
	if !claim.At.IsZero() {
		batch.Queue(s.sql.ageOf, claim.At).QueryRow(func(answer pgx.Row) error { return answer.Scan(&future, &old) })
	}
	batch.Queue(`ROLLBACK`)
	err = u.conn.Conn().SendBatch(ctx, &batch).Close()
	switch {
	case err != nil:
		return nil, false, unavailable("read held claim", err)
	case future:
		return nil, false, fmt.Errorf("claim: %w", store.ErrFutureTime)
	case held != nil:
		return held, false, nil
	}
	return inFlight(), old, nil
}

func (l *ledger) readHeldClaim(ctx context.Context, on session, claim store.Claim) (*store.Held, error) {
	var row heldRow
	read := l.heldStep(claim)
	err := on.row(ctx, read.sql, read.args, row.columns()...)
	if errors.Is(err, errNoRows) {
		return inFlight(), nil
	}
	if err != nil {
		return nil, err
	}
	return row.held()
}

// claimant checks the claim and returns its consumer.
func (l *ledger) claimant(ctx context.Context, claim store.Claim) (*registered, error) {
	if claim.Consumer.Shadow && !claim.At.IsZero() {
		return nil, errors.New("claim: At: a shadow claim has no stable time")
	}
	if claim.ID.IsZero() {
		return nil, errors.New("claim: ID: missing")
	}
	if claim.Wait < 0 {
		return nil, fmt.Errorf("claim: Wait: %v is negative", claim.Wait)
	}
	if !claim.At.IsZero() && claim.Consumer.Retention > RingRetention {
		return nil, fmt.Errorf("claim: Consumer.Retention: %v is longer than %v, the limit for keys with a stable time",
			claim.Consumer.Retention, RingRetention)
	}
	return l.register(ctx, claim.Consumer)
}
