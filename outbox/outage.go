package outbox

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// outage keeps a relay from hammering a broker that is away: all buckets wait, and one after
// another tries a single message when the time has come. It is shared by them.
type outage struct {
	first, longest time.Duration

	mu      sync.Mutex // guards the rest
	growth  *backoff.ExponentialBackOff
	open    bool
	until   time.Time
	probing bool
	changed chan struct{} // closed when any of it changes
	works   int64         // pages of which something was confirmed
}

func newOutage(first, longest time.Duration) *outage {
	return &outage{first: first, longest: longest, changed: make(chan struct{})}
}

// enter waits until the broker may be talked to. probe says that a single message is to be
// tried, and that exactly one of worked, failed and abandon has to follow.
func (o *outage) enter(ctx context.Context, leave <-chan struct{}) (probe bool, err error) {
	for {
		o.mu.Lock()
		changed, wait := o.changed, time.Until(o.until)
		switch {
		case !o.open:
			o.mu.Unlock()
			return false, nil
		case wait <= 0 && !o.probing:
			o.probing = true
			o.mu.Unlock()
			return true, nil
		case o.probing:
			wait = time.Hour
		}
		o.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-leave:
			timer.Stop()
			return false, errReleasing
		case <-ctx.Done():
			timer.Stop()
			return false, context.Cause(ctx)
		}
		timer.Stop()
	}
}

// worked ends the outage. It reports whether there was one.
func (o *outage) worked() (was bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.works++
	was = o.open
	if was {
		o.open, o.probing, o.growth = false, false, nil
		o.change()
	}
	return was
}

// failed begins the outage or lengthens it. It reports whether it begins.
func (o *outage) failed(probe bool) (begins bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	begins = !o.open
	if !begins && !probe {
		return false // sent before it began
	}
	if o.growth == nil {
		o.growth = backoff.NewExponentialBackOff()
		o.growth.InitialInterval, o.growth.MaxInterval = o.first, o.longest
	}
	o.open, o.probing, o.until = true, false, time.Now().Add(o.growth.NextBackOff())
	o.change()
	return begins
}

// abandon lets another one probe.
func (o *outage) abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.probing = false
	o.change()
}

// successes counts pages of which something was confirmed.
func (o *outage) successes() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.works
}

func (o *outage) change() {
	close(o.changed)
	o.changed = make(chan struct{})
}
