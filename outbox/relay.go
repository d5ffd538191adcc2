package outbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/oncebox/oncebox/store"
)

// DeadPolicy says what becomes of a key when a message of it is given up.
type DeadPolicy string

const (
	// HoldKey keeps the key's later messages back until an operator retries, skips or drops
	// the dead one.
	HoldKey DeadPolicy = "hold"
	// ContinueKey lets the key go on without it.
	ContinueKey DeadPolicy = "continue"
)

// RelayConfig is the configuration of a relay. The zero RelayConfig works. Relays of one
// outbox should agree in it.
type RelayConfig struct {
	// PageMessages is how many messages of a bucket are read at once. More is faster, and
	// more is sent again after a crash. From 1 to 10,000; defaults to 500.
	PageMessages int
	// PageBytes is when a page is full although it has fewer messages. With 16 buckets, the
	// relay's memory is 16 times this, and what the sink keeps. Defaults to 4 MiB.
	PageBytes int
	// LeaseFor is how long a bucket stays with a relay that died. A page is broken off when
	// the lease is about to end. At least 1 s; defaults to 15 s.
	LeaseFor time.Duration
	// PollMax is the longest time between two looks for messages that other processes have
	// committed; while there are some, it is a few milliseconds. From 5 ms to a minute;
	// defaults to 1 s.
	PollMax time.Duration
	// MaxAttempts is how many failures give a message up. Failures of the broker as a whole
	// don't count. Defaults to 10.
	MaxAttempts int
	// RetryMin and RetryMax are the first and the longest time between two attempts; it grows
	// by half, with jitter. Default to 1 s and 5 min.
	RetryMin, RetryMax time.Duration
	// OnDead is [HoldKey] or [ContinueKey]. Defaults to HoldKey, so that no message of a key
	// overtakes one that was given up.
	OnDead DeadPolicy
	// ShutdownGrace is how long pages under way may take to finish when Run's context ends.
	// Defaults to 10 s.
	ShutdownGrace time.Duration
	// OnEvent is told what happens. It must be quick; a panic in it is dropped. Defaults to
	// none.
	OnEvent func(context.Context, Event)
	// Logger gets what needs attention. Defaults to none.
	Logger *slog.Logger
}

func (c RelayConfig) withDefaults() RelayConfig {
	orDuration := func(field *time.Duration, value time.Duration) {
		if *field == 0 {
			*field = value
		}
	}
	orInt := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	orInt(&c.PageMessages, 500)
	orInt(&c.PageBytes, 4<<20)
	orInt(&c.MaxAttempts, 10)
	orDuration(&c.LeaseFor, 15*time.Second)
	orDuration(&c.PollMax, time.Second)
	orDuration(&c.RetryMin, time.Second)
	orDuration(&c.RetryMax, 5*time.Minute)
	orDuration(&c.ShutdownGrace, 10*time.Second)
	if c.OnDead == "" {
		c.OnDead = HoldKey
	}
	if c.OnEvent == nil {
		c.OnEvent = func(context.Context, Event) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c RelayConfig) validate() error {
	var wrong []error
	refuse := func(is bool, format string, args ...any) {
		if is {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	refuse(c.PageMessages < 1 || c.PageMessages > 10_000, "PageMessages: %d is not from 1 to 10000", c.PageMessages)
	refuse(c.PageBytes < 1, "PageBytes: %d is not positive", c.PageBytes)
	refuse(c.LeaseFor < time.Second, "LeaseFor: %v is less than 1s", c.LeaseFor)
	refuse(c.PollMax < minPoll || c.PollMax > time.Minute, "PollMax: %v is not from %v to 1m", c.PollMax, minPoll)
	refuse(c.MaxAttempts < 1, "MaxAttempts: %d is less than 1", c.MaxAttempts)
	refuse(c.RetryMin < 0 || c.RetryMax < c.RetryMin, "RetryMin, RetryMax: %v and %v are not in order", c.RetryMin, c.RetryMax)
	refuse(c.ShutdownGrace < 0, "ShutdownGrace: %v is negative", c.ShutdownGrace)
	refuse(c.OnDead != HoldKey && c.OnDead != ContinueKey, "OnDead: %q is neither %q nor %q", c.OnDead, HoldKey, ContinueKey)
	return errors.Join(wrong...)
}

// Relay publishes an outbox's messages through a sink.
type Relay struct {
	store  store.Outbox
	sink   Sink
	config RelayConfig
}

// NewRelay returns a relay. It names every field of config that is wrong.
func NewRelay(st store.Outbox, sink Sink, config RelayConfig) (*Relay, error) {
	if st == nil || sink == nil {
		return nil, errors.New("new relay: store or sink: missing")
	}
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("new relay: %w", err)
	}
	return &Relay{store: st, sink: sink, config: config}, nil
}

// Times between two lives of a relay, after a failure of the database.
const (
	firstRest   = 100 * time.Millisecond
	longestRest = 10 * time.Second
)

// Run publishes until ctx ends; then it finishes the pages under way, gives its buckets back
// and returns nil. Failures of the database end everything that it holds in memory, and it
// begins anew. Only [store.ErrRestored] ends it with an error.
func (r *Relay) Run(ctx context.Context) error {
	rung, stop := r.store.Appended()
	defer stop()
	rest := backoff.NewExponentialBackOff()
	rest.InitialInterval, rest.MaxInterval = firstRest, longestRest
	var id store.RelayID
	_, _ = rand.Read(id[:]) // never fails
	for {
		began := time.Now()
		err := r.live(ctx, id, rung)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, store.ErrRestored) {
			return fmt.Errorf("relay: %w", err)
		}
		r.tell(ctx, Event{Kind: EventFailed, Bucket: -1, Err: err})
		if time.Since(began) > longestRest {
			rest.Reset()
		}
		if hold(ctx, rest.NextBackOff()) != nil {
			return nil
		}
	}
}

// hold waits, or until ctx ends.
func hold(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
