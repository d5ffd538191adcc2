package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/oncebox/oncebox/store"
)

// Quarantine stores a dead letter without a claim; see [store.Inbox].
func (s *Store) Quarantine(_ context.Context, letter store.DeadLetter) error {
	if !letter.Class.Final() {
		return fmt.Errorf("quarantine: Class: %q does not end a message's way", letter.Class)
	}
	s.keep(letter)
	return nil
}

// keep stores a letter once and counts it after that.
func (s *Store) keep(letter store.DeadLetter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if kept, again := s.letters[letter.ID()]; again {
		kept.Seen++
		kept.LastAt = now
		return
	}
	letter.Reason = cut(letter.Reason)
	letter.Metadata = maps.Clone(letter.Metadata)
	letter.Payload = bytes.Clone(letter.Payload)
	s.letters[letter.ID()] = &store.StoredLetter{DeadLetter: letter, ID: letter.ID(), Seen: 1, FirstAt: now, LastAt: now}
}

func cut(reason string) string {
	if len(reason) <= store.MaxReasonBytes {
		return reason
	}
	end := store.MaxReasonBytes
	for !utf8.RuneStart(reason[end]) {
		end--
	}
	return reason[:end]
}

// Letters returns dead letters, newest first; see [store.DeadLetters].
func (s *Store) Letters(_ context.Context, consumer string, limit int) ([]store.StoredLetter, error) {
	if limit < 1 || limit > 1000 {
		return nil, fmt.Errorf("list dead letters: limit: %d is not from 1 to 1000", limit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []store.StoredLetter
	for _, letter := range s.letters {
		if letter.Consumer.Name == consumer {
			found = append(found, *letter)
		}
	}
	slices.SortFunc(found, func(a, b store.StoredLetter) int {
		return cmp.Or(b.LastAt.Compare(a.LastAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return found[:min(limit, len(found))], nil
}
