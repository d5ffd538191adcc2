package jetstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncebox/oncebox/outbox"
)

// clockSkew is how far the clocks of the database and of NATS may be apart. It matters for a
// stream that a bucket has not published to before.
const clockSkew = 5 * time.Minute

// takeover is a bucket of which it is not known what was published behind its mark: its owner
// has changed, or the answers to its messages were lost.
type takeover struct {
	origin string
	bucket int
	mark   mark
	since  time.Time            // what is unknown was published later
	read   map[string]bool      // streams whose tail is read
	known  map[string]time.Time // by stream: until when the server knows what comes again
	sent   map[string]bool      // ids that were published
}

func newTakeover(origin string, bucket int, from mark, since time.Time) *takeover {
	return &takeover{
		origin: origin, bucket: bucket, mark: from, since: since,
		read: make(map[string]bool), known: make(map[string]time.Time), sent: make(map[string]bool),
	}
}

// Resume makes the bucket's next pages look at what its former owner has published; see
// [outbox.Resumer].
func (s *Sink) Resume(_ context.Context, from outbox.Takeover) (position string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[origin(from.Origin, from.Bucket)] = newTakeover(from.Origin, from.Bucket, parseMark(from.Mark), time.Now().Add(-from.SavedAgo))
	return "", nil
}

// lookBackLater makes the bucket's next pages look at what this one may have published
// without an answer: an outage may last longer than the server knows ids.
func (s *Sink) lookBackLater(page outbox.Page, began time.Time, before mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := newTakeover(page.Origin, page.Bucket, before, began)
	if former := s.taken[origin(page.Origin, page.Bucket)]; former != nil {
		for _, name := range slices.Concat(slices.Collect(maps.Keys(former.mark)), slices.Collect(maps.Keys(former.known))) {
			if !former.read[name] { // it begins earlier
				return
			}
		}
		taken.sent = former.sent
	}
	s.taken[origin(page.Origin, page.Bucket)] = taken
}

func (s *Sink) given() mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.latest)
}

// lookBack reads the tails of the streams that the bucket has published to, and of those
// that the page goes to, if something may have been published to them that the server does
// not know any more.
func (s *Sink) lookBack(ctx context.Context, page outbox.Page) error {
	s.mu.Lock()
	taken := s.taken[origin(page.Origin, page.Bucket)]
	s.mu.Unlock()
	if taken == nil {
		return nil
	}
	streams := make(map[string]bool)
	for name := range taken.mark {
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
		if taken.read[name] || time.Now().Before(taken.known[name]) {
			continue
		}
		if err := s.readTail(ctx, name, taken); err != nil {
			return fmt.Errorf("%w: read tail of stream: %w", outbox.ErrOutage, err)
		}
	}
	return nil
}

// wasSent reports whether a former owner has published the message.
func (s *Sink) wasSent(page outbox.Page, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.taken[origin(page.Origin, page.Bucket)]
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
