package dedup

import "time"

// Status is the state of a stored claim.
type Status string

// The states of a claim. COMPLETED and FAILED are terminal.
const (
	Processing Status = "PROCESSING"
	Completed  Status = "COMPLETED"
	Failed     Status = "FAILED"
)

// Terminal reports whether nothing more happens to a record of this status.
func (s Status) Terminal() bool { return s == Completed || s == Failed }

// Record is a stored claim as the rules see it. Stores keep more; this is what [Decide]
// and the transitions read and write. All times are the store's, never the process's.
type Record struct {
	// Status is PROCESSING, COMPLETED or FAILED.
	Status Status
	// Fingerprint is what the first delivery declared; zero when it declared none.
	Fingerprint Fingerprint
	// Generation counts the permitted executions under this key, starting at 1.
	Generation int
	// LockVersion is the fencing token: each taking of the lease increases it.
	LockVersion int64
	// LockedUntil is when the lease of a PROCESSING record runs out; zero otherwise.
	LockedUntil time.Time
	// Failure says why a FAILED record failed; empty otherwise.
	Failure Class
	// CompletedAt is when the record became terminal; zero while PROCESSING.
	CompletedAt time.Time
	// ExpiresAt is when the record may be forgotten; zero means not by age.
	ExpiresAt time.Time
}

// InFlight is the record of a claim that an open transaction holds: its owner has not
// committed, so nothing of it can be read yet.
func InFlight() Record {
	return Record{Status: Processing, Generation: 1, LockedUntil: forever}
}

// forever is later than every lease and inside what every store can hold.
var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
