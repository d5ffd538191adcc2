package watermill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/oncebox/oncebox/outbox"
	"github.com/oncebox/oncebox/store"
)

// MetadataKey carries the ordering key, for marshalers that make a partition key of it.
const MetadataKey = outbox.MetadataKey

// Config is the configuration of a sink. The zero Config works.
type Config struct {
	// InFlight is how many messages of a bucket are under way at once, each of another
	// ordering key. Set it to 1 for a publisher that is not safe for concurrent use. Defaults
	// to 16.
	InFlight int
	// PublishTimeout is how long a call may take; after it the broker counts as away. A call
	// that hangs for longer goes on, and its message may be published twice. Defaults to 10 s.
	PublishTimeout time.Duration
	// IsOutage says whether an error means that the broker can't be reached, and not that the
	// message is wrong. Defaults to errors of the network and timeouts.
	IsOutage func(error) bool
	// AllowUnconfirmed accepts a publisher that is known to return before the broker has
	// confirmed: messages may be lost. Defaults to false.
	AllowUnconfirmed bool
}

// Sink publishes through a Publisher of Watermill. It is safe for concurrent use.
type Sink struct {
	publisher message.Publisher
	config    Config
}

var _ outbox.Sink = (*Sink)(nil)

// New returns a sink. It refuses publishers that are known not to wait for confirmation,
// with [ErrUnconfirmed].
func New(publisher message.Publisher, config Config) (*Sink, error) {
	if publisher == nil {
		return nil, errors.New("new Watermill sink: publisher: missing")
	}
	if config.InFlight == 0 {
		config.InFlight = 16
	}
	if config.PublishTimeout == 0 {
		config.PublishTimeout = 10 * time.Second
	}
	if config.InFlight < 1 || config.PublishTimeout < 0 {
		return nil, fmt.Errorf("new Watermill sink: InFlight, PublishTimeout: %d and %v are not positive", config.InFlight, config.PublishTimeout)
	}
	if config.IsOutage == nil {
		config.IsOutage = isNetworkError
	}
	if !config.AllowUnconfirmed {
		if err := checkConfirms(publisher); err != nil {
			return nil, fmt.Errorf("new Watermill sink: %w", err)
		}
	}
	return &Sink{publisher: publisher, config: config}, nil
}

// Publish sends a page; see [outbox.Sink].
func (s *Sink) Publish(ctx context.Context, page outbox.Page) []error {
	return outbox.PublishChains(page.Messages, s.config.InFlight, func(one store.Outgoing) error {
		return s.publish(ctx, one)
	})
}

// publish bounds one call, which has no context of its own.
func (s *Sink) publish(ctx context.Context, one store.Outgoing) error {
	msg := message.NewMessage(one.ID, one.Payload)
	for name, value := range one.Headers {
		msg.Metadata.Set(name, value)
	}
	if one.Key != "" {
		msg.Metadata.Set(MetadataKey, one.Key)
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.PublishTimeout)
	defer cancel()
	msg.SetContext(ctx)
	done := make(chan error, 1)
	go func() { done <- s.call(one.Topic, msg) }()
	select {
	case err := <-done:
		if err != nil && s.config.IsOutage(err) {
			return fmt.Errorf("%w: %w", outbox.ErrOutage, err)
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: publisher has not answered: %w", outbox.ErrOutage, context.Cause(ctx))
	}
}

func (s *Sink) call(topic string, msg *message.Message) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("publisher panicked")
		}
	}()
	return s.publisher.Publish(topic, msg)
}

// isNetworkError recognises a broker that is not there.
func isNetworkError(err error) bool {
	var network net.Error
	for _, known := range []error{
		context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return errors.As(err, &network)
}
