package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

// Begin opens a unit of work and takes the claim in it; see [store.Inbox].
func (s *Store) Begin(ctx context.Context, asked store.Claim) (store.Unit, *store.Held, error) {
	if err := check(asked); err != nil {
		return nil, nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("begin: %w", err)
	}
	unit, held := s.take(asked, false)
	if held != nil && held.Record.Status == dedup.Processing && asked.Wait > 0 {
		s.waitFor(ctx, asked)
		unit, held = s.take(asked, false)
	}
	if held != nil && !asked.Consumer.Shadow {
		return nil, held, nil
	}
	return unit, held, nil
}

// take takes the claim if it is free. A shadow claim that is not still gets a unit, with no
// claim in it.
func (s *Store) take(asked store.Claim, failed bool) (*unit, *store.Held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := &Tx{store: s, puts: make(map[string]string), ids: store.MessageIDs{Claim: asked.ID}}
	if found, taken := s.claims[asked.ID]; taken {
		return &unit{tx: tx}, &store.Held{Record: found.record, Now: time.Now()}
	}
	record := dedup.InFlight()
	record.Fingerprint = asked.Fingerprint
	if failed {
		record = settled(record, dedup.Failed)
	}
	taken := &claim{record: record, done: make(chan struct{})}
	s.claims[asked.ID] = taken
	return &unit{tx: tx, id: asked.ID, claim: taken}, nil
}

func settled(record dedup.Record, status dedup.Status) dedup.Record {
	record.Status, record.LockedUntil, record.CompletedAt = status, time.Time{}, time.Now()
	if status == dedup.Failed {
		record.Failure = dedup.ClassPermanent
	}
	return record
}

// waitFor waits until the claim is no longer in flight, or its time is over.
func (s *Store) waitFor(ctx context.Context, asked store.Claim) {
	s.mu.Lock()
	found, taken := s.claims[asked.ID]
	s.mu.Unlock()
	if !taken {
		return
	}
	timer := time.NewTimer(asked.Wait)
	defer timer.Stop()
	select {
	case <-found.done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Fail counts a failed run and buries the message when it was the last; see [store.Inbox].
func (s *Store) Fail(_ context.Context, failure store.Failure) (store.Settlement, error) {
	switch {
	case !failure.Class.Counted() && !failure.Class.Final():
		return store.Settlement{}, fmt.Errorf("record failure: Class: %q is not the message's fault", failure.Class)
	case failure.MaxAttempts < 1:
		return store.Settlement{}, fmt.Errorf("record failure: MaxAttempts: %d is less than 1", failure.MaxAttempts)
	case failure.Claim.Consumer.Shadow:
		return store.Settlement{}, errors.New("record failure: Claim.Consumer: a shadow consumer records no failures")
	}
	if err := check(failure.Claim); err != nil {
		return store.Settlement{}, err
	}
	s.mu.Lock()
	s.attempts[failure.Claim.ID]++
	result := store.Settlement{Attempts: s.attempts[failure.Claim.ID]}
	s.mu.Unlock()

	letter := failure.Letter
	letter.Class = failure.Class.After(result.Attempts, failure.MaxAttempts)
	letter.Attempts = result.Attempts
	if !letter.Class.Final() {
		return result, nil
	}
	taken, held := s.take(failure.Claim, true)
	if held != nil {
		result.Held = held
		return result, nil
	}
	close(taken.claim.done)
	s.keep(letter)
	result.Buried = true
	return result, nil
}

// Classify says what kind of failure err is; see [store.Inbox].
func (s *Store) Classify(err error) dedup.Class {
	class := dedup.ClassOf(err)
	if class != dedup.ClassPermanent && (errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome)) {
		return dedup.ClassInfrastructure
	}
	return class
}

func check(asked store.Claim) error {
	switch {
	case asked.ID.IsZero():
		return errors.New("claim: ID: missing")
	case asked.Consumer.Name == "":
		return errors.New("claim: Consumer.Name: missing")
	case asked.Consumer.Retention <= 0:
		return fmt.Errorf("claim: Consumer.Retention: %v is not positive", asked.Consumer.Retention)
	case asked.Wait < 0:
		return fmt.Errorf("claim: Wait: %v is negative", asked.Wait)
	case !asked.At.IsZero() && time.Until(asked.At) > 24*time.Hour:
		return fmt.Errorf("claim: %w", store.ErrFutureTime)
	}
	return nil
}
