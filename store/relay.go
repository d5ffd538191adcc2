package store

import (
	"context"
	"errors"
	"time"
)

// Outbox is the role of a store that keeps messages until relays have published them. All
// methods are safe for concurrent use; each is one transaction.
type Outbox interface {
	Appender

	// Appended returns a channel that gets a value soon after a unit of work of this process
	// has committed messages. stop ends it.
	Appended() (rung <-chan struct{}, stop func())

	// Lease makes the relay known, keeps what it holds for another while, takes buckets that
	// nobody holds as far as its share allows, and saves the cursors given. It returns all
	// buckets that the relay holds. A store that was restored into another cluster is
	// refused with [ErrRestored].
	Lease(ctx context.Context, request LeaseRequest) (Lease, error)

	// Release saves the cursor and gives its bucket back, for another relay.
	Release(ctx context.Context, cursor Cursor) error

	// Leave gives back all that a relay still holds, and makes it unknown.
	Leave(ctx context.Context, relay RelayID) error

	// Open looks for new messages: it returns the end of the next window, and for each
	// beginning where its messages start at the earliest. It writes nothing.
	Open(ctx context.Context, beginnings []string) (Opening, error)

	// Read returns for each cursor the next messages of its window. It writes nothing.
	Read(ctx context.Context, cursors []Cursor, limit Limit) ([]Page, error)

	// Save stores how far a bucket is, if its lease is still held under the cursor's epoch;
	// [ErrLeaseLost] otherwise.
	Save(ctx context.Context, cursor Cursor) error

	// SaveAndRead is Save followed by Read, in one trip.
	SaveAndRead(ctx context.Context, cursor Cursor, limit Limit) (Page, error)

	// Park stores messages that can't be published now, and the cursor, as Save does.
	Park(ctx context.Context, cursor Cursor, parked []Parked) error

	// Parked returns what holds the bucket's keys up.
	Parked(ctx context.Context, bucket, limit int) (Holdup, error)

	// Settle records what became of parked messages of the cursor's bucket, and the cursor, as
	// Save does.
	Settle(ctx context.Context, cursor Cursor, outcomes []Outcome) error

	// Tidy does what must be done now and then: notes where new windows begin, and empties
	// slots that every bucket has passed.
	Tidy(ctx context.Context) (Tidied, error)

	// MoveDue moves delayed messages whose time has come into the outbox, up to limit.
	MoveDue(ctx context.Context, limit int) (moved int, err error)
}

// Errors of an outbox.
var (
	// ErrLeaseLost says that another relay has taken the bucket over: nothing was written.
	ErrLeaseLost = errors.New("lease is lost: another relay has taken over")
	// ErrRestored says that the outbox was copied into another cluster, where its transaction
	// numbers mean nothing.
	ErrRestored = errors.New("outbox was restored into another cluster: its transaction numbers mean nothing here; look at it, then reset it")
)

// RelayID identifies a relay while it runs.
type RelayID [16]byte

// Cursor is how far a bucket is published. The message at a place belongs to the window
// when it is visible at Cur and not at Prev; what these mean is the store's business.
type Cursor struct {
	// Bucket is the bucket's number.
	Bucket int
	// Relay and Epoch are the lease under which the cursor is written.
	Relay RelayID
	Epoch int64
	// Prev and Cur are the window's ends; Cur is empty between two windows.
	Prev, Cur string
	// Last is the id up to which the window is published, High the last that it may hold.
	Last, High int64
	// Mark is what the sink wants to know after a take-over; the store does not read it.
	Mark string
	// Ahead is how many of the window's next messages its owner may have published already, at
	// most; [UnknownAhead] when what an earlier owner has left may lie anywhere in the window.
	Ahead int
}

// UnknownAhead is the Ahead of a cursor whose owner has not passed yet what its own
// predecessor has left.
const UnknownAhead = -1

// Between reports that the cursor stands between two windows.
func (c Cursor) Between() bool { return c.Cur == "" }

// Finish ends the window.
func (c Cursor) Finish() Cursor {
	c.Prev, c.Cur, c.Last, c.High = c.Cur, "", 0, 0
	return c
}

// LeaseRequest is what a relay says of itself.
type LeaseRequest struct {
	// Relay is the relay.
	Relay RelayID
	// For is how long the leases last, at least a second.
	For time.Duration
	// Fresh makes what the relay holds from an earlier life a new take-over.
	Fresh bool
	// Idle are cursors to save, of buckets in which nothing is under way.
	Idle []Cursor
}

// Lease is what a relay holds.
type Lease struct {
	// Origin identifies the outbox, wherever its messages go.
	Origin string
	// Buckets are those that the relay holds.
	Buckets []LeasedBucket
	// Share is how many it should hold; it gives back what is more.
	Share int
}

// LeasedBucket is a bucket that a relay holds.
type LeasedBucket struct {
	// Cursor is how far it is.
	Cursor Cursor
	// SavedAgo is how long ago, by the store's clock, a cursor was saved of which Ahead was
	// known.
	SavedAgo time.Duration
}

// Opening is the end of the next window.
type Opening struct {
	// Cur is the window's end, High the last id that it may hold.
	Cur  string
	High int64
	// Starts has for each beginning the id after which its messages are.
	Starts map[string]int64
	// Incarnation changes when the server was started again or is another one. What a relay
	// knows from before may be ahead of it then.
	Incarnation string
	// Due says that delayed messages wait for [Outbox.MoveDue].
	Due bool
}

// Limit bounds a page.
type Limit struct {
	// Messages is the most messages, at least 1.
	Messages int
	// Bytes is when a page is full although there are fewer; one message always fits.
	Bytes int
}

// Outgoing is a message on its way out.
type Outgoing struct {
	Message
	// Number is the message's place in the order of its bucket.
	Number int64
	// At is when it was stored, Age how long that was ago when it was read, both by the
	// store's clock.
	At  time.Time
	Age time.Duration
}

// Page are messages of one bucket, in order.
type Page struct {
	// Messages are those that were read.
	Messages []Outgoing
	// Through is the id up to which nothing else is in the window.
	Through int64
}

// Tidied is what was tidied up.
type Tidied struct {
	// Emptied is how many slots were emptied.
	Emptied int
	// Full is how many slots still hold messages.
	Full int
}
