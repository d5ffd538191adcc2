package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncebox/oncebox/outbox"
)

// clockSkew is how far the clocks of the database and of NATS may be apart. It matters for a
// stream that a bucket has not published to before.
const clockSkew = 5 * time.Minute

// takeover is a bucket that this process has taken over.
type takeover struct {
	outbox.Takeover
	mark mark
	at   time.Time
	read map[string]bool // by stream: its tail was read, or false when the server knows it all
	sent map[string]bool // ids that the former owner has published, and perhaps not saved
}

// settled reports that all that the former owner has published is known, and behind.
func (t *takeover) settled() bool {
	for _, read := range t.read {
		if !read {
			return false
		}
	}
	return len(t.read) > 0 && len(t.sent) == 0
}

// Resume makes the bucket's next page look at what its former owner has published; see
// [outbox.Resumer].
func (s *Sink) Resume(_ context.Context, from outbox.Takeover) (position string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[from.Bucket] = &takeover{
		Takeover: from, mark: parseMark(from.Mark), at: time.Now(),
		read: make(map[string]bool), sent: make(map[string]bool),
	}
	return "", nil
}

// lookBack reads the tails of the streams that the bucket has published to, and of those
// that the page goes to, once after a take-over.
func (s *Sink) lookBack(ctx context.Context, page outbox.Page) error {
	s.mu.Lock()
	taken := s.taken[page.Bucket]
	s.mu.Unlock()
	if taken == nil {
		return nil
	}
	streams := make(map[string]bool)
	for name := range taken.mark.Streams {
		streams[name] = true
	}
	for _, one := range page.Messages {
		name, err := s.streamOf(ctx, s.config.Subject(one.Topic))
		if err != nil {
			return fmt.Errorf("%w: look for stream: %w", outbox.ErrOutage, err)
		}
		streams[name] = true
	}
	delete(streams, "")
	for name := range streams {
		// Invariant: a bucket has one page at a time, so nobody else changes what it has read.
		if _, done := taken.read[name]; done {
			continue
		}
		read, ids, err := s.readTail(ctx, name, taken)
		if err != nil {
			return fmt.Errorf("%w: read tail of stream: %w", outbox.ErrOutage, err)
		}
		s.mu.Lock()
		taken.read[name] = read
		for _, id := range ids {
			taken.sent[id] = true
		}
		s.mu.Unlock()
	}
	return nil
}

// wasSent reports whether a former owner has published the message.
func (s *Sink) wasSent(bucket int, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.taken[bucket]
	if taken == nil || !taken.sent[id] {
		return false
	}
	delete(taken.sent, id)
	return true
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
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return "", nil // publishing will say so
	case err != nil:
		return "", err
	}
	s.mu.Lock()
	s.streams[subject] = name
	s.mu.Unlock()
	return name, nil
}
