package postgres

import (
	"sync/atomic"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

// met notes what became of a claim. One in flight says nothing of what is coming.
func (r *registered) met(held *store.Held, err error) {
	if err == nil && (held == nil || held.Record.Status != dedup.Processing) {
		r.duplicates.note(held != nil)
	}
}

// share is about how much of the latest messages were duplicates. Notes that cross may
// lose one another, which does not matter.
type share struct{ parts atomic.Int32 }

const (
	wholeShare = 1 << 20
	shareSpan  = 32 // messages; lookups begin after about 45 duplicates and end after 10 new ones
)

func (s *share) note(duplicate bool) {
	parts, towards := s.parts.Load(), int32(0)
	if duplicate {
		towards = wholeShare
	}
	s.parts.Store(parts + (towards-parts)/shareSpan)
}

// prevail reports that most are duplicates, by far: a vain lookup costs a new message a trip.
func (s *share) prevail() bool { return s.parts.Load() > wholeShare/4*3 }
