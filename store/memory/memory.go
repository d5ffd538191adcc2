// Package memory keeps claims and an outbox in memory, for tests and examples. It keeps the contract of
// package store except that everything is gone when the process ends; nothing outside the
// process knows of its claims.
package memory

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

// Store keeps claims in memory. It implements [store.Inbox], [store.DeadLetters],
// [store.Outbox] and [store.Operator]. Its
// clock is the process's. It is safe for concurrent use.
type Store struct {
	mu       sync.Mutex
	claims   map[dedup.ClaimID]*claim
	attempts map[dedup.ClaimID]int
	letters  map[[16]byte]*store.StoredLetter
	values   map[string]string
	outbox   *outbox
}

var (
	_ store.Inbox       = (*Store)(nil)
	_ store.DeadLetters = (*Store)(nil)
	_ store.Outbox      = (*Store)(nil)
	_ store.Operator    = (*Store)(nil)
)

// claim is a claim that is held, or in flight as long as done is open.
type claim struct {
	record dedup.Record
	done   chan struct{}
}

// New returns an empty store.
func New() *Store {
	return &Store{
		claims:   make(map[dedup.ClaimID]*claim),
		attempts: make(map[dedup.ClaimID]int),
		letters:  make(map[[16]byte]*store.StoredLetter),
		values:   make(map[string]string),
		outbox:   newOutbox(),
	}
}

// Value returns a value that a committed transaction has put.
func (s *Store) Value(key string) (value string, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, found = s.values[key]
	return value, found
}

// Keys returns the keys of all values that committed transactions have put, in order.
func (s *Store) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.values))
}

// Now is the process's clock.
func (s *Store) Now(context.Context) (time.Time, error) { return time.Now(), nil }
