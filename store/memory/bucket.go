package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/store"
)

// bucket is how far a bucket is, and who publishes it: the relay in its cursor, while that
// is not zero.
type bucket struct {
	cursor  store.Cursor
	until   time.Time
	savedAt time.Time
}

func (b *bucket) free() bool { return b.cursor.Relay == store.RelayID{} || b.until.Before(time.Now()) }

// Lease renews what a relay holds and takes its share; see [store.Outbox].
func (s *Store) Lease(_ context.Context, request store.LeaseRequest) (lease store.Lease, err error) {
	if request.For < time.Second {
		return lease, fmt.Errorf("lease buckets: For: %v is less than a second", request.For)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.outbox
	now := time.Now()
	o.relays[request.Relay] = now.Add(request.For)
	for _, cursor := range request.Idle {
		_ = o.save(cursor) // a lost one is not in the answer
	}
	lease = store.Lease{Origin: "memory", Share: o.share(request.Relay)}
	held := 0
	for i := range o.buckets {
		b := &o.buckets[i]
		if b.cursor.Relay != request.Relay {
			continue
		}
		held++
		b.until = now.Add(request.For)
		if request.Fresh {
			b.cursor.Epoch++
		}
	}
	for i := range o.buckets {
		b := &o.buckets[i]
		if held < lease.Share && b.free() {
			held++
			b.until, b.cursor.Relay, b.cursor.Epoch = now.Add(request.For), request.Relay, b.cursor.Epoch+1
		}
		if b.cursor.Relay == request.Relay {
			lease.Buckets = append(lease.Buckets, store.LeasedBucket{Cursor: b.cursor, SavedAgo: now.Sub(b.savedAt)})
		}
	}
	return lease, nil
}

// share is how many buckets a relay should hold.
func (o *outbox) share(relay store.RelayID) int {
	var alive []store.RelayID
	for one, until := range o.relays {
		if until.After(time.Now()) {
			alive = append(alive, one)
		}
	}
	slices.SortFunc(alive, func(a, b store.RelayID) int { return bytes.Compare(a[:], b[:]) })
	share := store.Buckets / len(alive)
	if slices.Index(alive, relay) < store.Buckets%len(alive) {
		share++
	}
	return share
}

// save writes a cursor under its lease.
func (o *outbox) save(cursor store.Cursor) error {
	b := &o.buckets[cursor.Bucket]
	if b.cursor.Relay != cursor.Relay || b.cursor.Epoch != cursor.Epoch {
		return fmt.Errorf("save cursor: %w", store.ErrLeaseLost)
	}
	if cursor.Ahead >= 0 {
		b.savedAt = time.Now()
	}
	b.cursor = cursor
	return nil
}

// Save stores a cursor; see [store.Outbox].
func (s *Store) Save(_ context.Context, cursor store.Cursor) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outbox.save(cursor)
}

// SaveAndRead stores a cursor and reads on; see [store.Outbox].
func (s *Store) SaveAndRead(_ context.Context, cursor store.Cursor, limit store.Limit) (store.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.outbox.save(cursor); err != nil {
		return store.Page{}, err
	}
	return s.outbox.page(cursor, limit), nil
}

// Release saves a cursor and gives its bucket back; see [store.Outbox].
func (s *Store) Release(_ context.Context, cursor store.Cursor) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.outbox.save(cursor); err != nil {
		return err
	}
	s.outbox.buckets[cursor.Bucket].cursor.Relay = store.RelayID{}
	return nil
}

// Leave gives everything back; see [store.Outbox].
func (s *Store) Leave(_ context.Context, relay store.RelayID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.outbox.buckets {
		if b := &s.outbox.buckets[i]; b.cursor.Relay == relay {
			b.cursor.Relay = store.RelayID{}
		}
	}
	delete(s.outbox.relays, relay)
	return nil
}
