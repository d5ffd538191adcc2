package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// ErrBusy says that another delivery is at work on the same intent. It is no failure: the
// message comes back later.
var ErrBusy = errors.New("another delivery is at work on this intent")

// busyWait paces the looks at a claim that is in flight.
type busyWait struct {
	hold   time.Duration
	end    time.Time
	growth *backoff.ExponentialBackOff // nil until it is needed
}

// again waits until the next look. It reports false when the hold is over or ctx ended.
func (b *busyWait) again(ctx context.Context) bool {
	if b.growth == nil {
		b.end = time.Now().Add(b.hold)
		b.growth = backoff.NewExponentialBackOff()
		b.growth.InitialInterval, b.growth.MaxInterval = 10*time.Millisecond, 500*time.Millisecond
	}
	left := time.Until(b.end)
	if left <= 0 {
		return false
	}
	return hold(ctx, min(left, b.growth.NextBackOff())) == nil
}
