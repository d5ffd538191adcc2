package consumer

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// NackDelay tells a subscriber how long a message is to stay away after its nack. A
// subscriber whose broker can keep a message away gives one to each, by [WithNackDelay],
// and the consumer then leaves the waiting to the broker. It is safe for concurrent use.
type NackDelay struct {
	asked atomic.Int64
	// of is the message: others may inherit its context.
	of *message.Message
}

type nackDelayKey struct{}

// WithNackDelay puts the delay that the nack of msg is to have into its context.
func WithNackDelay(msg *message.Message) *NackDelay {
	delay := &NackDelay{of: msg}
	msg.SetContext(context.WithValue(msg.Context(), nackDelayKey{}, delay))
	return delay
}

// nackDelayOf returns nil when the message's subscriber gave it none.
func nackDelayOf(msg *message.Message) *NackDelay {
	if delay, ok := msg.Context().Value(nackDelayKey{}).(*NackDelay); ok && delay.of == msg {
		return delay
	}
	return nil
}

// Or returns the delay that was asked for last, or fallback when none was. Zero is for a
// nack at once.
func (d *NackDelay) Or(fallback time.Duration) time.Duration {
	if asked := time.Duration(d.asked.Load()); asked != 0 {
		return max(asked, 0)
	}
	return fallback
}

// stayAway lets the broker keep the message away for d, if it can, and else holds it here,
// but not beyond [MaxNackHold] or the end of ctx. With d zero the broker's own delay
// applies, or [DefaultNackDelay]; a negative d is none.
func stayAway(ctx context.Context, broker *NackDelay, d time.Duration) {
	if broker != nil {
		broker.asked.Store(int64(d))
		return
	}
	_ = hold(ctx, min(cmp.Or(d, DefaultNackDelay), MaxNackHold)) // a shutdown nacks at once
}
