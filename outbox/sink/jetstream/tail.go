package jetstream

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// tailTimeout bounds the reading of a tail.
	tailTimeout = 2 * time.Minute
	// keepTail is how long a tail is kept: a relay takes many buckets over at once.
	keepTail = 30 * time.Second
)

// tail is what a stretch of a stream holds of one outbox, read once for all its buckets.
type tail struct {
	mu       sync.Mutex        // guards the rest, while it is read too
	from, to uint64            // the sequences that were read; to is before from when there are none
	found    map[string][]sent // by origin: outbox and bucket
	forget   *time.Timer
	used     time.Time
}

// sent is a message in a stream.
type sent struct {
	sequence uint64
	id       string
}

// readTail collects the ids of the bucket's messages behind its mark, unless the server still
// knows them all.
func (s *Sink) readTail(ctx context.Context, name string, taken *takeover) error {
	ctx, cancel := context.WithTimeout(ctx, tailTimeout)
	defer cancel()
	stream, err := s.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s.learn(taken, name, nil) // it was deleted
		return nil
	}
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	if known := taken.since.Add(info.Config.Duplicates * 3 / 4); time.Now().Before(known) {
		s.mu.Lock()
		taken.known[name] = known
		s.mu.Unlock()
		return nil
	}
	own := origin(taken.origin, taken.bucket)
	var ids []string
	if last, marked := taken.mark[name]; marked {
		all, err := s.tailOf(name).read(ctx, stream, taken.origin+"/", s.earliest(name, last)+1, info.State.LastSeq)
		if err != nil {
			return err
		}
		for _, one := range all[own] {
			if one.sequence > last {
				ids = append(ids, one.id)
			}
		}
	} else {
		since := taken.since.Add(-clockSkew)
		from := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since}
		err := collect(ctx, stream, from, info.State.LastSeq, func(found string, one sent) {
			if found == own {
				ids = append(ids, one.id)
			}
		})
		if err != nil {
			return err
		}
	}
	s.learn(taken, name, ids)
	return nil
}

// learn records that a stream's tail was read.
func (s *Sink) learn(taken *takeover, stream string, ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken.read[stream] = true
	for _, id := range ids {
		taken.sent[id] = true
	}
}

// earliest is the lowest mark of a stream among the buckets that have not read its tail, so
// that all of them are served by one reading.
func (s *Sink) earliest(stream string, last uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.taken {
		if marked, known := other.mark[stream]; known && !other.read[stream] {
			last = min(last, marked)
		}
	}
	return last
}

func (s *Sink) tailOf(stream string) *tail {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tails[stream] == nil {
		s.tails[stream] = &tail{}
	}
	return s.tails[stream]
}

// read makes sure that the stretch from one sequence to another is read, and returns what it
// holds of the outbox whose messages have that prefix to their origin. What was read before
// it failed is kept: a tail that takes longer than a lease must come to its end.
func (t *tail) read(ctx context.Context, stream jetstream.Stream, prefix string, from, to uint64) (map[string][]sent, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.forget == nil {
		t.forget = time.AfterFunc(keepTail, t.clear)
	}
	t.forget.Stop()
	t.used = time.Now()
	defer func() {
		t.used = time.Now()
		t.forget.Reset(keepTail)
	}()
	if t.found == nil || from < t.from {
		t.from, t.to, t.found = from, from-1, make(map[string][]sent)
	}
	if to > t.to {
		begin := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: t.to + 1}
		err := collect(ctx, stream, begin, to, func(origin string, one sent) {
			if strings.HasPrefix(origin, prefix) {
				t.found[origin] = append(t.found[origin], one)
			}
			t.to = one.sequence
		})
		if err != nil {
			return nil, err
		}
		t.to = to
	}
	found := make(map[string][]sent, len(t.found))
	for origin, all := range t.found {
		found[origin] = all[:len(all):len(all)]
	}
	return found, nil
}

func (t *tail) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.used) >= keepTail { // it may have waited for a reading
		t.found = nil
	}
}

// collect reads the headers of a stream up to a sequence, and visits every message.
func collect(ctx context.Context, stream jetstream.Stream, from jetstream.OrderedConsumerConfig, to uint64, visit func(origin string, one sent)) error {
	from.HeadersOnly = true
	reader, err := stream.OrderedConsumer(ctx, from)
	if err != nil {
		return err
	}
	started, err := reader.Info(ctx)
	if err != nil {
		return err
	}
	messages, err := reader.Messages(jetstream.PullMaxMessages(5000))
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
		if at.Sequence.Stream > to {
			return nil
		}
		visit(msg.Headers().Get(HeaderOutbox), sent{at.Sequence.Stream, msg.Headers().Get(natsgo.MsgIdHdr)})
		if left = at.NumPending; at.Sequence.Stream == to {
			return nil
		}
	}
	return nil
}
