package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/store"
)

// ListParked returns parked messages; see [store.Operator].
func (s *Store) ListParked(_ context.Context, after int64, limit int, dead bool) ([]store.ParkedMessage, error) {
	if limit < 1 || limit > 1000 {
		return nil, fmt.Errorf("list parked messages: limit: %d is not from 1 to 1000", limit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var listed []store.ParkedMessage
	for _, one := range s.outbox.sorted() {
		if one.Number > after && len(listed) < limit && (one.Dead || !dead) {
			found := *one
			found.Wait = max(0, time.Until(s.outbox.retryAt[one.Number]))
			listed = append(listed, found)
		}
	}
	return listed, nil
}

// order runs a verb on a parked message and records it.
func (s *Store) order(verb string, order store.Order, detail string, run func(*store.ParkedMessage) bool) error {
	if order.Who == "" || order.Why == "" {
		return fmt.Errorf("%s: Who, Why: 0 bytes, want 1 to %d", verb, store.MaxMessageTextBytes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.outbox.parked[order.Number]
	if one == nil || !run(one) {
		return fmt.Errorf("%s: %w", verb, store.ErrNotParked)
	}
	s.outbox.audit = append(s.outbox.audit, store.AuditEntry{
		At: time.Now(), Verb: verb, Who: order.Who, Why: order.Why,
		Number: order.Number, MessageID: one.ID, Topic: one.Topic, Detail: detail,
	})
	return nil
}

// RetryParked makes a message due; see [store.Operator].
func (s *Store) RetryParked(_ context.Context, order store.Order) error {
	return s.order("retry", order, "", func(one *store.ParkedMessage) bool {
		one.Attempts, one.Dead, one.Released = 0, false, false
		s.outbox.retryAt[one.Number] = time.Now()
		return true
	})
}

// SkipParked lets a key go on; see [store.Operator].
func (s *Store) SkipParked(_ context.Context, order store.Order) error {
	return s.order("skip", order, "", func(one *store.ParkedMessage) bool {
		able := one.Dead && !one.Released
		one.Released = one.Released || able
		return able
	})
}

// DropParked removes a message; see [store.Operator].
func (s *Store) DropParked(_ context.Context, order store.Order) error {
	return s.order("drop", order, "", func(one *store.ParkedMessage) bool {
		s.outbox.forget(one.Number)
		return true
	})
}

// EditHeaders changes headers; see [store.Operator].
func (s *Store) EditHeaders(_ context.Context, order store.Order, set map[string]string, unset []string) error {
	if len(set)+len(unset) == 0 {
		return errors.New("edit headers: nothing to change")
	}
	changed := slices.Concat(slices.Sorted(maps.Keys(set)), unset)
	return s.order("edit headers", order, strings.Join(changed, ", "), func(one *store.ParkedMessage) bool {
		headers := maps.Clone(one.Headers)
		if headers == nil {
			headers = make(map[string]string)
		}
		maps.Copy(headers, set)
		for _, name := range unset {
			delete(headers, name)
		}
		one.Headers = headers
		return true
	})
}

// ResetOutbox has nothing to do: memory is not restored elsewhere; see [store.Operator].
func (s *Store) ResetOutbox(context.Context, store.Order) error { return nil }

// State looks at the outbox; see [store.Operator].
func (s *Store) State(context.Context) (state store.OutboxState, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.outbox
	for i := range o.buckets {
		b := &o.buckets[i]
		one := store.BucketState{Bucket: i, Owned: !b.free(), Epoch: b.cursor.Epoch, SavedAgo: time.Since(b.savedAt)}
		for _, message := range o.messages {
			passed := message.commit <= count(b.cursor.Prev) || message.commit <= count(b.cursor.Cur) && message.Number <= b.cursor.Last
			if message.Bucket() == i && !passed {
				one.Oldest = time.Since(message.At)
				break
			}
		}
		state.Buckets = append(state.Buckets, one)
	}
	for _, one := range o.parked {
		if one.Dead {
			state.Dead++
		} else {
			state.Parked++
		}
	}
	for _, until := range o.relays {
		if until.After(time.Now()) {
			state.Relays++
		}
	}
	state.Delayed = int64(len(o.delayed))
	return state, nil
}

// Audit returns the latest changes; see [store.Operator].
func (s *Store) Audit(_ context.Context, limit int) ([]store.AuditEntry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := slices.Clone(s.outbox.audit)
	slices.Reverse(entries)
	return entries[:min(limit, len(entries))], nil
}
