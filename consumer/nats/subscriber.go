package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// openTimeout bounds the calls that find or make the durable.
	openTimeout = 10 * time.Second
	// flushTimeout bounds how long Close waits for the last nacks to leave.
	flushTimeout = 5 * time.Second
	// pullExpiry is how long one request for a message stands. A request lost by the
	// server, as in a restart, is noticed and repeated after as long.
	pullExpiry = 10 * time.Second
)

// ErrClosed is returned by Subscribe after Close.
var ErrClosed = errors.New("subscriber is closed")

// Subscriber reads one durable of one stream. It is a Watermill Subscriber, safe for
// concurrent use.
type Subscriber struct {
	config  Config
	conn    *nats.Conn
	durable jetstream.Consumer
	closing chan struct{}
	// abandoned counts the messages that were still in work when a CloseTimeout ended.
	abandoned atomic.Int64
	// running has one entry for each subscription.
	running sync.WaitGroup

	mu     sync.Mutex // guards closed, and running against a Wait that overtakes an Add
	closed bool
}

var _ message.Subscriber = (*Subscriber)(nil)

// NewSubscriber checks config, connects when it has no Conn, and finds or makes the
// durable. It names every wrong field, and every setting of an existing durable that would
// lose messages, replay them or run them in parallel. Server calls are given up after 10 s.
func NewSubscriber(config Config) (*Subscriber, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("configure subscriber: %w", err)
	}
	conn := config.Conn
	if conn == nil {
		var err error
		if conn, err = nats.Connect(config.URL, nats.MaxReconnects(-1)); err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
	}
	subscriber := &Subscriber{config: config, conn: conn, closing: make(chan struct{})}
	if err := subscriber.open(); err != nil {
		subscriber.release()
		return nil, err
	}
	return subscriber, nil
}

func (s *Subscriber) open() error {
	js, err := jetstream.New(s.conn)
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	s.durable, err = openDurable(ctx, js, s.config)
	return err
}

// release closes the connection if it is the subscriber's own.
func (s *Subscriber) release() {
	if s.config.Conn == nil {
		s.conn.Close()
	}
}

// Subscribe starts to deliver messages. The topic must be the FilterSubject, or the
// stream's name when there is none. Several subscriptions share the messages. A message is
// acked at the server when it is acked here, and comes back after NackDelay when it is
// nacked.
//
// When ctx ends, or Close is called, no further message is delivered; those in work are
// waited for up to CloseTimeout and settled at the server; then the channel is closed. The
// context of a message ends with ctx, with its Ack or Nack, and with the CloseTimeout.
//
// The channel is also closed when the connection is closed or the durable deleted; the
// reason is logged.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if want := s.config.topic(); topic != want {
		return nil, fmt.Errorf("subscribe: topic is %q, but durable %s delivers %q", topic, s.config.Durable, want)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("subscribe: %w", ErrClosed)
	}
	sub := &subscription{
		config:    s.config,
		logger:    s.config.Logger.With(watermill.LogFields{"stream": s.config.Stream, "durable": s.config.Durable}),
		conn:      s.conn,
		durable:   s.durable,
		abandoned: &s.abandoned,
		output:    make(chan *message.Message),
	}
	if err := sub.open(); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	s.running.Go(func() { sub.run(ctx, s.closing) })
	return sub.output, nil
}

// Close ends all subscriptions as described at [Subscriber.Subscribe] and waits for them. A
// Conn that came with the configuration stays open. It returns an error when handlers were
// still at work after CloseTimeout: their messages were neither acked nor lost, and come
// back when AckWait has run out. Calling it again does no harm.
//
// Watermill's router does not always call it: it may only cancel the context. A program
// that uses URL calls Close itself, after the router has stopped.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.running.Wait()

	var left error
	if count := s.abandoned.Load(); count > 0 {
		left = fmt.Errorf("close: messages still in work after %v: %d", s.config.CloseTimeout, count)
	}
	if s.conn.IsConnected() {
		if err := s.conn.FlushTimeout(flushTimeout); err != nil {
			left = errors.Join(left, fmt.Errorf("close: flush: %w", err))
		}
	}
	s.release()
	return left
}
