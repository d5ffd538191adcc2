package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/oncebox/oncebox/store"
)

// Sink publishes messages to a broker. Pages of different buckets come at the same time.
type Sink interface {
	// Publish sends the page's messages, and returns when each is confirmed or has failed: an
	// error for each message, nil where the broker has confirmed it.
	//
	// When a message fails, no later one of its ordering key may be sent; those get
	// [ErrNotTried]. An error that wraps [ErrOutage] says that the broker, and not the message,
	// is at fault. One that is dedup.Permanent is not tried again.
	Publish(ctx context.Context, page Page) []error
}

// Resumer is a [Sink] that looks after what a former owner of a bucket has left.
type Resumer interface {
	Sink
	// Resume is called before the first page of a bucket that was taken over. A sink that
	// keeps positions itself returns the page's After that it has confirmed last; empty
	// leaves the store's own.
	Resume(ctx context.Context, takeover Takeover) (position string, err error)
	// Mark returns what Resume is to be told after the next take-over. It is asked for when
	// the bucket has nothing under way and all that a former owner has left is behind, and is
	// saved with the cursor.
	Mark(bucket int) string
}

// Takeover is a bucket that changes its owner.
type Takeover struct {
	// Origin identifies the outbox.
	Origin string
	// Bucket and Epoch are the bucket and the number of its owner.
	Bucket int
	Epoch  int64
	// Mark is the former owner's, SavedAgo how long ago: all that it has published and not
	// saved came later.
	Mark     string
	SavedAgo time.Duration
}

// Page are messages of one bucket, in order.
type Page struct {
	// Origin identifies the outbox, Bucket the bucket and Epoch its owner.
	Origin string
	Bucket int
	Epoch  int64
	// Messages are to be published in order for each ordering key.
	Messages []store.Outgoing
	// After is the bucket's position behind the page, for sinks that store it with the
	// messages in one transaction of the broker. It is empty when the page is not a whole one.
	After string
}

var (
	// ErrOutage says that the broker can't be reached or can't accept anything now.
	ErrOutage = errors.New("broker is unavailable")
	// ErrNotTried says that the message was not sent, because one before it failed.
	ErrNotTried = errors.New("message was not tried")
)
