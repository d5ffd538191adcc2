package consumer

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// pause makes all messages of a consumer wait while its database is away, longer each
// time, instead of asking it a thousand times a second.
type pause struct {
	mu     sync.Mutex
	growth *backoff.ExponentialBackOff
	until  time.Time
}

func newPause() *pause {
	growth := backoff.NewExponentialBackOff()
	growth.InitialInterval, growth.MaxInterval = 100*time.Millisecond, 15*time.Second
	return &pause{growth: growth}
}

// lengthen starts or prolongs the pause. Failures of messages that were under way when it
// began do not.
func (p *pause) lengthen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); !now.Before(p.until) {
		p.until = now.Add(p.growth.NextBackOff())
	}
}

// end is called when the database has answered.
func (p *pause) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.until.IsZero() {
		p.until = time.Time{}
		p.growth.Reset()
	}
}

// wait waits for the end of the pause, or of ctx.
func (p *pause) wait(ctx context.Context) error {
	p.mu.Lock()
	left := time.Until(p.until)
	p.mu.Unlock()
	return hold(ctx, left)
}

// hold waits for d, or for the end of ctx.
func hold(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
