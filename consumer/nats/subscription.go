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

// subscription is one call of Subscribe: as many workers as Concurrency says, which feed
// one channel.
type subscription struct {
	config    Config
	logger    watermill.LoggerAdapter
	conn      *nats.Conn
	durable   jetstream.Consumer
	abandoned *atomic.Int64
	output    chan *message.Message
	pulls     []jetstream.MessagesContext
}

// open starts one pull for each worker.
//
// Invariant: a pull asks for one message, and only when its worker is idle. A message that
// waited in a buffer would use up its AckWait there and be delivered twice.
func (s *subscription) open() error {
	for range s.config.Concurrency {
		pull, err := s.durable.Messages(jetstream.PullMaxMessages(1), jetstream.PullExpiry(pullExpiry))
		if err != nil {
			for _, opened := range s.pulls {
				opened.Stop()
			}
			return fmt.Errorf("pull: %w", err)
		}
		s.pulls = append(s.pulls, pull)
	}
	return nil
}

// run works until ctx or closing ends, gives the handlers CloseTimeout to finish, and
// closes the output. The output is closed last, so that a router that waits for it also
// waits for the acks.
func (s *subscription) run(ctx context.Context, closing <-chan struct{}) {
	defer close(s.output)
	stopping, stop := context.WithCancel(ctx)
	defer stop()
	// Handlers outlive the cancel of ctx by CloseTimeout.
	patience, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()

	var workers sync.WaitGroup
	for _, pull := range s.pulls {
		workers.Go(func() { s.work(ctx, stopping, patience, pull) })
	}
	finished := make(chan struct{})
	go func() {
		workers.Wait()
		close(finished)
	}()

	select {
	case <-ctx.Done():
	case <-closing:
	case <-finished:
		return
	}
	stop()
	s.endPulls()
	grace := time.AfterFunc(s.config.CloseTimeout, giveUp)
	defer grace.Stop()
	<-finished
}

// endPulls asks for no more. A drained pull still gives what was on its way, to be handed
// back; without a server there is nothing to wait for.
func (s *subscription) endPulls() {
	connected := s.conn.IsConnected()
	for _, pull := range s.pulls {
		if connected {
			pull.Drain()
		} else {
			pull.Stop()
		}
	}
}

// work delivers the messages of one pull, one after the other.
func (s *subscription) work(ctx, stopping, patience context.Context, pull jetstream.MessagesContext) {
	defer pull.Stop()
	for {
		msg, err := pull.Next(jetstream.NextContext(patience))
		switch {
		case err == nil:
			s.deliver(ctx, stopping, patience, msg)
		case stopping.Err() != nil && (errors.Is(err, jetstream.ErrMsgIteratorClosed) || patience.Err() != nil):
			return
		case s.ended(patience, err):
			s.logger.Error("Subscription ended", err, nil)
			return
		default:
			s.logger.Error("Pull again", err, nil)
		}
	}
}

// ended reports whether err is the end of the pull. A durable that was deleted while
// nothing was asked of it can only be missed.
func (s *subscription) ended(ctx context.Context, err error) bool {
	if errors.Is(err, jetstream.ErrNoHeartbeat) {
		_, err = s.durable.Info(ctx)
		return errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
	}
	return errors.Is(err, jetstream.ErrMsgIteratorClosed) ||
		errors.Is(err, jetstream.ErrConsumerDeleted) ||
		errors.Is(err, jetstream.ErrBadRequest)
}
