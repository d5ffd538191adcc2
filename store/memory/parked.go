package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/oncebox/oncebox/store"
)

// Park stores messages that can't be published now; see [store.Outbox].
func (s *Store) Park(_ context.Context, cursor store.Cursor, parked []store.Parked) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.outbox
	if err := o.save(cursor); err != nil {
		return err
	}
	for _, one := range parked {
		if o.parked[one.Number] == nil {
			o.parked[one.Number] = &store.ParkedMessage{Parked: one, Bucket: cursor.Bucket, ParkedAt: time.Now()}
			o.retryAt[one.Number] = time.Now().Add(one.Wait)
		}
	}
	return nil
}

// sorted are the parked messages by number.
func (o *outbox) sorted() []*store.ParkedMessage {
	all := make([]*store.ParkedMessage, 0, len(o.parked))
	for _, one := range o.parked {
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *store.ParkedMessage) int { return cmp.Compare(a.Number, b.Number) })
	return all
}

// Parked returns what holds keys up; see [store.Outbox].
func (s *Store) Parked(_ context.Context, bucket, limit int) (held store.Holdup, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.outbox
	seen := make(map[string]bool)
	for _, one := range o.sorted() {
		if one.Bucket != bucket || one.Released {
			continue
		}
		if one.Key != "" {
			if seen[one.Key] {
				continue
			}
			seen[one.Key] = true
			held.Keys = append(held.Keys, one.Key)
		}
		if one.Dead {
			continue
		}
		wait := time.Until(o.retryAt[one.Number])
		switch {
		case wait <= 0 && len(held.Due) < limit:
			held.Due = append(held.Due, one.Parked)
		case wait > 0 && (held.Next == 0 || wait < held.Next):
			held.Next = wait
		}
	}
	return held, nil
}

// Settle records what became of parked messages; see [store.Outbox].
func (s *Store) Settle(_ context.Context, cursor store.Cursor, outcomes []store.Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.outbox
	if err := o.save(cursor); err != nil {
		return err
	}
	for _, outcome := range outcomes {
		one := o.parked[outcome.Number]
		switch {
		case one == nil:
		case outcome.Published:
			o.forget(outcome.Number)
		default:
			one.Attempts, one.Error, one.Dead, one.Released = outcome.Attempts, outcome.Error, outcome.Dead, outcome.Released
			o.retryAt[one.Number] = time.Now().Add(outcome.Wait)
		}
	}
	return nil
}

func (o *outbox) forget(number int64) {
	delete(o.parked, number)
	delete(o.retryAt, number)
}
