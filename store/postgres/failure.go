package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/store"
)

// countFailure adds a failed run to those of its claim.
const countFailure = `
INSERT INTO oncebox.inbox_attempt AS so_far (claim_id, consumer, class)
VALUES ($1, $2, $3)
ON CONFLICT ON CONSTRAINT inbox_attempt_claim
DO UPDATE SET attempts = so_far.attempts + 1, class = excluded.class, last_at = clock_timestamp()
RETURNING attempts`

// Fail counts a failed run of the handler and buries the message when that was the last;
// see [store.Inbox].
func (l *ledger) Fail(ctx context.Context, failure store.Failure) (store.Settlement, error) {
	if err := checkFailure(failure); err != nil {
		return store.Settlement{}, fmt.Errorf("record failure: %w", err)
	}
	// What is written here does not run the handler's time limits.
	failure.Claim.Wait, failure.Claim.IdleTimeout = 0, 0
	consumer, err := l.claimant(ctx, failure.Claim)
	if err != nil {
		return store.Settlement{}, err
	}
	var settled store.Settlement
	err = l.source.transaction(ctx, func(s session) error {
		settled = store.Settlement{}
		return l.fail(ctx, s, failure, consumer.id, &settled)
	})
	return settled, unavailable("record failure", err)
}

func (l *ledger) fail(ctx context.Context, s session, failure store.Failure, consumer int16, settled *store.Settlement) error {
	err := s.row(ctx, l.sql.countFailure, []any{uuidOf(failure.Claim.ID), consumer, string(failure.Class)}, &settled.Attempts)
	if err != nil {
		return fmt.Errorf("count: %w", err)
	}
	letter := failure.Letter
	letter.Class = failure.Class.After(settled.Attempts, failure.MaxAttempts)
	letter.Attempts = settled.Attempts
	if !letter.Class.Final() {
		return nil
	}
	taken, err := runSteps(ctx, s, l.claimSteps(failure.Claim, consumer, true))
	if err != nil {
		return err
	}
	if !taken {
		settled.Held, err = l.readHeldClaim(ctx, s, failure.Claim)
		return err
	}
	if err := l.storeLetterIn(ctx, s, letter, consumer); err != nil {
		return err
	}
	settled.Buried = true
	return nil
}

// runSteps takes a claim statement by statement.
func runSteps(ctx context.Context, on session, s steps) (taken bool, err error) {
	for _, one := range s.before {
		if _, err := on.exec(ctx, one.sql, one.args); err != nil {
			return false, fmt.Errorf("claim: %w", err)
		}
	}
	for _, one := range s.inserts {
		inserted, err := on.exec(ctx, one.sql, one.args)
		if err != nil {
			return false, fmt.Errorf("claim: %w", err)
		}
		taken = taken || inserted == 1
	}
	for _, one := range s.after {
		if _, err := on.exec(ctx, one.sql, one.args); err != nil {
			return false, fmt.Errorf("claim: %w", err)
		}
	}
	return taken, nil
}

func checkFailure(failure store.Failure) error {
	switch {
	case !failure.Class.Counted() && !failure.Class.Final():
		return fmt.Errorf("Class: %q is not the message's fault", failure.Class)
	case failure.MaxAttempts < 1:
		return fmt.Errorf("MaxAttempts: %d is less than 1", failure.MaxAttempts)
	case failure.Claim.Consumer.Shadow:
		return errors.New("Claim.Consumer: a shadow consumer records no failures")
	}
	return nil
}
