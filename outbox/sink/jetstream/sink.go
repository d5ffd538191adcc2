package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/outbox"
	"github.com/oncebox/oncebox/store"
)

// Headers that the sink adds.
const (
	// HeaderOutbox tells which outbox and bucket a message is from: the outbox's id, a slash,
	// and the bucket's number.
	HeaderOutbox = "Oncebox-Outbox"
	// HeaderKey is the ordering key, if there is one.
	HeaderKey = "Oncebox-Ordering-Key"
	// uuidHeader is where Watermill's NATS subscribers look for a message's UUID.
	uuidHeader = "_watermill_message_uuid"
	// serverPrefix starts the names of headers that instruct the server.
	serverPrefix = "Nats-"
)

// Config is the configuration of a sink. The zero Config works.
type Config struct {
	// InFlight is how many messages of a page are under way at once. Defaults to 256.
	InFlight int
	// PublishTimeout is how long a confirmation may take before the broker counts as away.
	// Defaults to 5 s.
	PublishTimeout time.Duration
	// Subject returns the subject of a topic. Defaults to the topic itself.
	Subject func(topic string) string
}

// Sink publishes to JetStream. It is safe for concurrent use.
type Sink struct {
	js     jetstream.JetStream
	config Config

	mu      sync.Mutex           // guards the rest
	streams map[string]string    // by subject
	latest  mark                 // the highest sequences that this process was given
	taken   map[string]*takeover // by outbox and bucket
	tails   map[string]*tail     // by stream
}

var _ outbox.Resumer = (*Sink)(nil)

// New returns a sink. Streams for the subjects must exist.
func New(js jetstream.JetStream, config Config) (*Sink, error) {
	if js == nil {
		return nil, errors.New("new JetStream sink: js: missing")
	}
	if config.InFlight == 0 {
		config.InFlight = 256
	}
	if config.PublishTimeout == 0 {
		config.PublishTimeout = 5 * time.Second
	}
	if config.InFlight < 1 || config.PublishTimeout < 0 {
		return nil, fmt.Errorf("new JetStream sink: InFlight, PublishTimeout: %d and %v are not positive", config.InFlight, config.PublishTimeout)
	}
	if config.Subject == nil {
		config.Subject = func(topic string) string { return topic }
	}
	return &Sink{
		js: js, config: config, streams: make(map[string]string), latest: make(mark), taken: make(map[string]*takeover),
		tails: make(map[string]*tail),
	}, nil
}

// Publish sends a page; see [outbox.Sink].
func (s *Sink) Publish(ctx context.Context, page outbox.Page) []error {
	if err := s.lookBack(ctx, page); err != nil {
		return slices.Repeat([]error{err}, len(page.Messages))
	}
	began, before := time.Now(), s.given()
	results := outbox.PublishChains(page.Messages, s.config.InFlight, func(one store.Outgoing) error {
		if s.wasSent(page, one.ID) {
			return nil
		}
		return s.send(ctx, page, one)
	})
	if slices.ContainsFunc(results, func(err error) bool { return errors.Is(err, outbox.ErrOutage) }) {
		s.lookBackLater(page, began, before)
	}
	return results
}

// send publishes one message.
func (s *Sink) send(ctx context.Context, page outbox.Page, one store.Outgoing) error {
	msg := natsgo.NewMsg(s.config.Subject(one.Topic))
	for name, value := range one.Headers {
		if !strings.HasPrefix(name, serverPrefix) {
			msg.Header.Set(name, value)
		}
	}
	msg.Header.Set(natsgo.MsgIdHdr, one.ID)
	msg.Header.Set(uuidHeader, one.ID)
	msg.Header.Set(HeaderOutbox, origin(page.Origin, page.Bucket))
	if one.Key != "" {
		msg.Header.Set(HeaderKey, one.Key)
	}
	msg.Data = one.Payload
	if !s.js.Conn().IsConnected() { // it would lie in the client's buffer, and leave at any time
		return fmt.Errorf("%w: not connected", outbox.ErrOutage)
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.PublishTimeout)
	defer cancel()
	ack, err := s.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
	if errors.Is(err, jetstream.ErrNoStreamResponse) && s.lacksStream(ctx, msg.Subject) {
		return errNoStream
	}
	if err != nil {
		return classify(err)
	}
	s.note(ack.Stream, ack.Sequence)
	return nil
}

func origin(id string, bucket int) string { return id + "/" + strconv.Itoa(bucket) }

var errNoStream = errors.New("no stream takes the topic's subject: create one, or mend the topic")

// lacksStream tells a subject without a stream from a server that does not answer for it.
func (s *Sink) lacksStream(ctx context.Context, subject string) bool {
	_, err := s.js.StreamNameBySubject(ctx, subject)
	return errors.Is(err, jetstream.ErrStreamNotFound)
}

// classify tells a broker that is away, or can take nothing now, from a message that it
// can't take.
func classify(err error) error {
	var answer *jetstream.APIError
	switch {
	case errors.Is(err, natsgo.ErrMaxPayload), errors.Is(err, natsgo.ErrBadSubject):
		return dedup.Permanent(err)
	case errors.As(err, &answer) && answer.Code >= 400 && answer.Code < 500:
		return err
	case errors.As(err, &answer) && answer.ErrorCode == streamStoreFailed:
		return err // the stream's limits, or the message's size
	}
	return fmt.Errorf("%w: %w", outbox.ErrOutage, err)
}

// streamStoreFailed is the server's code for a message that the stream did not store: it is
// full and refuses new ones, or the message is too large for it.
const streamStoreFailed = 10077
