package store

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/dedup"
)

// Inbox is the role of a store on the transactional path. All methods are safe for
// concurrent use. Errors of the database are classified by [Inbox.Classify].
type Inbox interface {
	// Begin opens a unit of work and takes the claim in it. When the claim is taken the
	// unit is returned and held is nil. When it is not, held says what was found, and the
	// unit is nil: nothing is open. A shadow claim blocks nothing: its unit is always
	// returned, with held set when the claim was not taken.
	Begin(ctx context.Context, claim Claim) (unit Unit, held *Held, err error)

	// Fail counts a failed run of the handler, in a transaction of its own. When the class
	// is final or the attempt is the last one allowed, the claim is recorded as FAILED and
	// the letter stored in that same transaction.
	Fail(ctx context.Context, failure Failure) (Settlement, error)

	// Quarantine stores a dead letter that has no claim of its own, or whose claim belongs
	// to another intent. Storing the same letter again only counts it.
	Quarantine(ctx context.Context, letter DeadLetter) error

	// Classify says what kind of failure err is. It knows the errors of the store's own
	// driver wherever they are in err, and falls back to [dedup.ClassOf].
	Classify(err error) dedup.Class

	// Now is the store's clock.
	Now(ctx context.Context) (time.Time, error)
}

// Limited is the role of a store with limits, which front doors compare with their own
// configuration when they start.
type Limited interface {
	// MaxUnits is how many units can be open at once; 0 for no limit.
	MaxUnits() int
	// MaxTimedRetention is the longest retention of a consumer whose keys have a stable
	// time; 0 for no limit.
	MaxTimedRetention() time.Duration
}

// Unit is one unit of work: an open transaction with a claim in it. It is used by one
// goroutine at a time, except for the transaction in its context, which the handler may
// share out as its driver allows.
type Unit interface {
	// Context returns parent with the unit's transaction in it, for the handler.
	Context(parent context.Context) context.Context

	// Commit closes the transaction to the handler and commits it. Any error but
	// [ErrUnknownOutcome] means that nothing was committed. ctx gives values only:
	// cancelling it does not interrupt a commit, which has a time limit of its own.
	Commit(ctx context.Context) error

	// Rollback closes the transaction to the handler and undoes it. After Commit it does
	// nothing. A connection that can't be cleaned is closed instead of reused. An error
	// that is [ErrUnavailable] says that the connection was lost before: what the handler
	// reported may not be its own fault.
	Rollback(ctx context.Context) error
}

// Claim is what a delivery asks for.
type Claim struct {
	// ID identifies the claim.
	ID dedup.ClaimID
	// Consumer is the logical handler that the claim belongs to.
	Consumer Consumer
	// At is the stable time of the intent; zero when its key has none. A shadow claim has
	// none.
	At time.Time
	// Fingerprint is stored with the claim; zero stores none.
	Fingerprint dedup.Fingerprint
	// Wait is how long to wait for a claim that is in flight. Zero means not at all, which
	// ties up no connection.
	Wait time.Duration
	// IdleTimeout ends the transaction when the handler leaves it idle for longer, so that
	// a hung handler can't hold its key. A limit of the server's own is left when it is as
	// long, and not more than twice as long. Zero leaves the server's in any case.
	IdleTimeout time.Duration
}

// Held is what Begin found instead of the claim.
type Held struct {
	// Record is the held claim, [dedup.InFlight] while its unit is open.
	Record dedup.Record
	// Now is the store's clock when it was read.
	Now time.Time
}

// Failure is a failed run of a handler.
type Failure struct {
	// Claim is the claim that the run had taken and lost by its rollback.
	Claim Claim
	// Class is the class of the failure. Classes that are neither counted nor final are
	// refused: they are not the message's fault.
	Class dedup.Class
	// MaxAttempts is the number of the last attempt allowed, at least 1.
	MaxAttempts int
	// Letter is stored when the message is given up.
	Letter DeadLetter
}

// Settlement is what became of a failed message.
type Settlement struct {
	// Attempts is how many runs have failed so far, this one included.
	Attempts int
	// Buried says that the claim is FAILED and the letter stored.
	Buried bool
	// Held is set when the claim could not be recorded as FAILED because another delivery
	// has completed it or is at work on it; then nothing was buried.
	Held *Held
}
