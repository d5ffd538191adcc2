package store

import (
	"context"
	"errors"
	"time"
)

// Parked is a message that could not be published, or that comes after one under its key.
type Parked struct {
	Outgoing
	// Attempts is how often publishing it has failed.
	Attempts int
	// Wait is how long the next attempt is away.
	Wait time.Duration
	// Error is the text of the last failure, cut to [MaxReasonBytes]; for operators.
	Error string
	// Dead says that no further attempt is made, Released that its key goes on without it.
	Dead, Released bool
}

// Holdup is what holds keys of a bucket up.
type Holdup struct {
	// Keys are the ordering keys of which messages are parked and not released.
	Keys []string
	// Due are the messages whose turn it is, the first of each key.
	Due []Parked
	// Next is how long the next one is away; zero when none waits.
	Next time.Duration
}

// Outcome is what became of a parked message.
type Outcome struct {
	// Number is the message's.
	Number int64
	// Published ends its stay. Otherwise the rest says how it goes on.
	Published bool
	// Attempts, Wait, Error, Dead and Released are as in [Parked].
	Attempts       int
	Wait           time.Duration
	Error          string
	Dead, Released bool
}

// ErrNotParked says that there is no such parked message, or not in a state for what was
// asked.
var ErrNotParked = errors.New("no such parked message, or it is not dead")

// Order is what an operator asks for, with who and why; both are kept.
type Order struct {
	// Number is the parked message's.
	Number int64
	// Who asks and Why, each 1 to 255 bytes. Required.
	Who, Why string
}

// Operator is the role of a store in which people repair an outbox. Every change is
// recorded with who and why.
type Operator interface {
	// ListParked returns parked messages by number, those after the given number, up to limit
	// of 1 to 1000. With dead only those that were given up.
	ListParked(ctx context.Context, after int64, limit int, dead bool) ([]ParkedMessage, error)
	// RetryParked makes a message due now, with its attempts forgotten.
	RetryParked(ctx context.Context, order Order) error
	// SkipParked lets the key of a dead message go on without it. The message stays.
	SkipParked(ctx context.Context, order Order) error
	// DropParked removes a message for good, and so lets its key go on.
	DropParked(ctx context.Context, order Order) error
	// EditHeaders replaces the headers of a parked message: names in set are set, those in
	// unset removed.
	EditHeaders(ctx context.Context, order Order, set map[string]string, unset []string) error
	// ResetOutbox makes an outbox that [ErrRestored] refuses usable: what had not been
	// published when it was copied will be. Stop all relays first.
	ResetOutbox(ctx context.Context, order Order) error
	// State looks at the outbox as a whole.
	State(ctx context.Context) (OutboxState, error)
	// Audit returns the latest changes, newest first, up to limit of 1 to 1000.
	Audit(ctx context.Context, limit int) ([]AuditEntry, error)
}

// ParkedMessage is a parked message as an operator sees it.
type ParkedMessage struct {
	Parked
	// Bucket is its bucket.
	Bucket int
	// ParkedAt is when it was parked.
	ParkedAt time.Time
}

// AuditEntry is a change that an operator made.
type AuditEntry struct {
	// At is when.
	At time.Time
	// Verb is what was done, Who did it and Why.
	Verb, Who, Why string
	// Number, MessageID and Topic are of the message, if it was about one.
	Number           int64
	MessageID, Topic string
	// Detail says more, such as the names of headers.
	Detail string
}

// OutboxState is an outbox as a whole.
type OutboxState struct {
	// Buckets are its buckets, in order.
	Buckets []BucketState
	// Parked, Dead and Delayed count messages.
	Parked, Dead, Delayed int64
	// Relays counts those that live.
	Relays int
	// Bytes is the size of the messages' tables on disk.
	Bytes int64
}

// BucketState is how far a bucket is.
type BucketState struct {
	// Bucket is its number.
	Bucket int
	// Owned says that a relay holds it, under Epoch.
	Owned bool
	Epoch int64
	// SavedAgo is how long ago its cursor was written.
	SavedAgo time.Duration
	// Oldest is the age of its oldest message that is not published; zero when there is none.
	Oldest time.Duration
}
