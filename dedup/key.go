package dedup

import "time"

// Limits of a key, in bytes.
const (
	MaxScopeBytes = 128
	MaxIDBytes    = 255
)

// Global is the scope of keys that are unique everywhere.
const Global = "*"

// Key names an intent: the same intent has the same key on every retry.
type Key struct {
	Scope string
	ID    string
	At    time.Time
}

// ClaimID identifies a claim everywhere.
type ClaimID [16]byte
