package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/internal/deadline"
	"github.com/oncebox/oncebox/outbox"
	"github.com/oncebox/oncebox/store"
)

// Defaults of [Config].
const (
	// DefaultRetention lets a bug that was shipped on Friday be fixed, and its messages sent
	// again, the week after.
	DefaultRetention = 7 * 24 * time.Hour
	// DefaultMaxAttempts bridges an outage of minutes at growing broker delays.
	DefaultMaxAttempts = 10
	// DefaultHandlerTimeout is below the ack deadline of most brokers.
	DefaultHandlerTimeout = 30 * time.Second
	// DefaultShutdownGrace is below the 30 s that orchestrators give a process to stop.
	DefaultShutdownGrace = 10 * time.Second
	// DefaultBusyHold is long enough for most handlers to end.
	DefaultBusyHold = 5 * time.Second
	// DefaultNackDelay keeps a failing message from being delivered a thousand times a second,
	// where the subscriber has no delay of its own.
	DefaultNackDelay = time.Second
	// DefaultStoreRetries bridges a deadlock or a short failover.
	DefaultStoreRetries = 3
)

// Config is the configuration of a consumer.
type Config struct {
	// Name is the stable name of the logical handler and part of every claim's identity:
	// with another name everything is new. At most 128 bytes. Required.
	Name string
	// Key names the intent of a message. Required.
	Key Keyer
	// Retention is how long a claim is kept at least. A redelivery that comes later is
	// handled again, so it must exceed the longest way back. Defaults to 7 days.
	Retention time.Duration
	// Horizon is the longest time after which the same message can still come back: broker
	// redelivery, downtime, redrive, a sender's resend. When set, Retention must exceed it.
	Horizon time.Duration
	// Fingerprint digests what must not differ under one key. Defaults to none.
	Fingerprint FingerprintFunc
	// Mode is dedup.Enforce or dedup.Observe. Defaults to Enforce.
	Mode dedup.Mode
	// MaxAttempts is how many failed runs give a message up. Defaults to 10.
	MaxAttempts int
	// HandlerTimeout bounds one run of the handler; its context ends then, and the database
	// ends a transaction that is left idle for longer. Defaults to 30 s.
	HandlerTimeout time.Duration
	// ShutdownGrace is how long a running handler may go on after the message's context was
	// cancelled, as the router does when it closes. Defaults to 10 s; negative: no grace.
	ShutdownGrace time.Duration
	// Wait is how long the database waits for a claim that is in flight, which ties up a
	// connection. Defaults to 0: it answers at once, and the message is held outside.
	Wait time.Duration
	// BusyHold is how long a message whose claim is in flight is held and looked at again,
	// without a connection, before it is nacked. Defaults to 5 s; negative: not at all.
	BusyHold time.Duration
	// NackDelay is how long a message that failed stays away, so that the broker is not
	// hammered. dedup.RetryAfter overrides it. A broker that can't keep it away, as its
	// subscriber says by [WithNackDelay], gets its nack that much later, but no later than
	// [MaxNackHold]. Defaults to the subscriber's own delay, else to 1 s; negative: not at
	// all.
	NackDelay time.Duration
	// Concurrency is how many messages are handled at once, as the subscriber is set: each
	// needs a connection, and one that waits for a connection uses up its ack deadline.
	// When set, New refuses a store with fewer. Defaults to unknown.
	Concurrency int
	// StoreRetries is how often a message is run afresh after a failure of the database
	// before it is nacked. Defaults to 3; negative: never.
	StoreRetries int
	// Outbox says how the messages that a handler returns are stored. The zero value works.
	Outbox outbox.Config
	// OnEvent is told each outcome, once, on the message's goroutine. It must be quick; a
	// panic in it is dropped. Defaults to none.
	OnEvent func(context.Context, Event)
	// Logger gets what can't be returned. Defaults to none.
	Logger *slog.Logger
}

// MaxNackHold bounds how long a message is held before a nack, whatever the handler asked
// for: the broker would deliver it again meanwhile.
const MaxNackHold = 30 * time.Second

// Consumer runs handlers once per intent. It is safe for concurrent use and keeps nothing
// that must be closed.
type Consumer struct {
	store    store.Inbox
	config   Config
	identity store.Consumer
	pause    *pause

	beginDeadline, handlerDeadline *deadline.Shared
}

// New returns a consumer on st. It names every field of config that is wrong.
func New(st store.Inbox, config Config) (*Consumer, error) {
	if st == nil {
		return nil, errors.New("new consumer: store: missing")
	}
	config = config.withDefaults()
	if err := errors.Join(config.validate(), config.fits(st)); err != nil {
		return nil, fmt.Errorf("new consumer: %w", err)
	}
	return &Consumer{
		store:    st,
		config:   config,
		identity: store.Consumer{Name: config.Name, Retention: config.Retention, Shadow: config.Mode == dedup.Observe},
		pause:    newPause(),

		beginDeadline:   deadline.New(config.HandlerTimeout+config.Wait, errBeginTimeout),
		handlerDeadline: deadline.New(config.HandlerTimeout, errHandlerTimeout),
	}, nil
}

func (c Config) withDefaults() Config {
	orDuration := func(field *time.Duration, value time.Duration) {
		if *field == 0 {
			*field = value
		}
	}
	orDuration(&c.Retention, DefaultRetention)
	orDuration(&c.HandlerTimeout, DefaultHandlerTimeout)
	orDuration(&c.ShutdownGrace, DefaultShutdownGrace)
	orDuration(&c.BusyHold, DefaultBusyHold)
	if c.MaxAttempts == 0 {
		c.MaxAttempts = DefaultMaxAttempts
	}
	if c.StoreRetries == 0 {
		c.StoreRetries = DefaultStoreRetries
	}
	if c.Mode == "" {
		c.Mode = dedup.Enforce
	}
	if c.OnEvent == nil {
		c.OnEvent = func(context.Context, Event) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// validate expects the defaults to be filled in.
func (c Config) validate() error {
	wrong := []error{dedup.Action{
		Name: c.Name, Mode: c.Mode, Retention: c.Retention, Horizon: c.Horizon,
		HandlerTimeout: c.HandlerTimeout, MaxAttempts: c.MaxAttempts,
	}.Validate()}
	if c.Concurrency < 0 {
		wrong = append(wrong, fmt.Errorf("Concurrency: %d is negative", c.Concurrency))
	}
	if c.Wait < 0 {
		wrong = append(wrong, fmt.Errorf("Wait: %v is negative", c.Wait))
	}
	if c.Key == nil {
		wrong = append(wrong, errors.New("Key: missing; it names the intent of a message"))
	} else if checked, ok := c.Key.(checkedKeyer); ok {
		if err := checked.check(); err != nil {
			wrong = append(wrong, fmt.Errorf("Key: %w", err))
		}
	}
	return errors.Join(wrong...)
}

// fits compares the configuration with what the store can do.
func (c Config) fits(st store.Inbox) error {
	limited, ok := st.(store.Limited)
	if !ok {
		return nil
	}
	var wrong []error
	if units := limited.MaxUnits(); units > 0 && c.Concurrency > units {
		wrong = append(wrong, fmt.Errorf("Concurrency: %d messages at once, and the store has %d connections; enlarge its pool", c.Concurrency, units))
	}
	if longest := limited.MaxTimedRetention(); longest > 0 && c.Retention > longest && c.Key != nil && timed(c.Key) {
		wrong = append(wrong, fmt.Errorf("Retention: %v is longer than %v, the limit for keys with a stable time", c.Retention, longest))
	}
	return errors.Join(wrong...)
}
