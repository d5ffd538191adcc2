package jetstream

import (
	"context"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncebox/oncebox/outbox"
)

// clockSkew is how far the clocks of the database and of NATS may be apart. It matters for a
// stream that a bucket has not published to before.
const clockSkew = 5 * time.Minute

// takeover is a bucket that this process has taken over.
type takeover struct {
	outbox.Takeover
	mark    mark
	at      time.Time
	checked map[string]bool // streams whose tail is read
	sent    map[string]bool // ids that the former owner has published, and perhaps not saved
}

// Resume makes the bucket's next page look at what its former owner has published; see
// [outbox.Resumer].
func (s *Sink) Resume(_ context.Context, from outbox.Takeover) (position string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[from.Bucket] = &takeover{
		Takeover: from, mark: parseMark(from.Mark), at: time.Now(),
		checked: make(map[string]bool), sent: make(map[string]bool),
	}
	return "", nil
}

// sentBefore are ids of the page that a former owner of its bucket may have published.
func (s *Sink) sentBefore(ctx context.Context, page outbox.Page) (map[string]bool, error) {
	s.mu.Lock()
	taken := s.taken[page.Bucket]
	s.mu.Unlock()
	if taken == nil {
		return nil, nil
	}
	// Invariant: a bucket has one page at a time, so nobody else uses what it has taken.
	for _, one := range page.Messages {
		stream, err := s.streamOf(ctx, s.config.Subject(one.Topic))
		if err != nil {
			return nil, fmt.Errorf("%w: look for stream: %w", outbox.ErrOutage, err)
		}
		if stream == "" || taken.checked[stream] {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		err = s.readTail(ctx, stream, taken)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("%w: read tail of stream: %w", outbox.ErrOutage, err)
		}
		taken.checked[stream] = true
	}
	return taken.sent, nil
}

// streamOf returns the stream of a subject; empty when there is none.
func (s *Sink) streamOf(ctx context.Context, subject string) (string, error) {
	s.mu.Lock()
	name, known := s.streams[subject]
	s.mu.Unlock()
	if known {
		return name, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.PublishTimeout)
	defer cancel()
	name, err := s.js.StreamNameBySubject(ctx, subject)
	switch {
	case err == jetstream.ErrStreamNotFound:
		return "", nil // publishing will say so
	case err != nil:
		return "", err
	}
	s.mu.Lock()
	s.streams[subject] = name
	s.mu.Unlock()
	return name, nil
}

// readTail collects the ids of the bucket's messages behind its mark, unless the server
// still knows them all.
func (s *Sink) readTail(ctx context.Context, name string, taken *takeover) error {
	stream, err := s.js.Stream(ctx, name)
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	ago := taken.SavedAgo + time.Since(taken.at)
	if ago < info.Config.Duplicates*3/4 {
		return nil
	}
	config := jetstream.OrderedConsumerConfig{HeadersOnly: true, DeliverPolicy: jetstream.DeliverByStartSequencePolicy}
	if last, marked := taken.mark[name]; marked {
		config.OptStartSeq = last + 1
	} else {
		since := time.Now().Add(-ago - clockSkew)
		config.DeliverPolicy, config.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	}
	if info.State.Msgs == 0 || config.OptStartSeq > info.State.LastSeq {
		return nil
	}
	reader, err := stream.OrderedConsumer(ctx, config)
	if err != nil {
		return err
	}
	started, err := reader.Info(ctx)
	if err != nil {
		return err
	}
	wanted := origin(taken.Origin, taken.Bucket)
	messages, err := reader.Messages(jetstream.PullMaxMessages(1000))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for left := started.NumPending + started.Delivered.Consumer; left > 0; {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		at, err := msg.Metadata()
		if err != nil {
			return err
		}
		if headers := msg.Headers(); headers.Get(HeaderOutbox) == wanted {
			taken.sent[headers.Get(natsgo.MsgIdHdr)] = true
		}
		left = at.NumPending
		if at.Sequence.Stream >= info.State.LastSeq {
			break
		}
	}
	return nil
}
