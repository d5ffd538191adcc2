package consumer

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"
)

// NackDelay tells a subscriber how long a message is to stay away after its nack. A
// subscriber whose broker can keep a message away puts one into its context, and the
// consumer then leaves the waiting to the broker. It is safe for concurrent use.
type NackDelay struct{ asked atomic.Int64 }

type nackDelayKey struct{}

// WithNackDelay returns ctx for a message, and the delay that its nack is to have.
func WithNackDelay(ctx context.Context) (context.Context, *NackDelay) {
	delay := new(NackDelay)
	return context.WithValue(ctx, nackDelayKey{}, delay), delay
}

// Or returns the delay that was asked for last, or fallback when none was.
func (d *NackDelay) Or(fallback time.Duration) time.Duration {
	if asked := time.Duration(d.asked.Load()); asked > 0 {
		return asked
	}
	return fallback
}

// stayAway lets the broker keep the message away for d, if it can, and else holds it here,
// but not beyond [MaxNackHold] or the end of ctx. With d zero the broker's own delay
// applies, or [DefaultNackDelay].
func stayAway(ctx context.Context, d time.Duration) {
	if delay, ok := ctx.Value(nackDelayKey{}).(*NackDelay); ok {
		delay.asked.Store(int64(d))
		return
	}
	_ = hold(ctx, min(cmp.Or(d, DefaultNackDelay), MaxNackHold)) // a shutdown nacks at once
}
