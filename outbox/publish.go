package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

// publish takes a page to its end: each message is confirmed, or returned as parked. after
// is the cursor behind the page.
func (w *worker) publish(ctx context.Context, messages []store.Outgoing, after store.Cursor) (parked []store.Parked, err error) {
	held := w.parked.divert(messages)
	pending := held.free
	whole := len(held.parked) == 0
	var oldest time.Duration
	if len(messages) > 0 {
		oldest = messages[0].Age
	}
	confirmed := 0
	for len(pending) > 0 {
		probe, err := w.life.outage.enter(ctx, w.lease.releasing)
		if err != nil {
			return nil, err
		}
		batch := pending
		if probe {
			batch = pending[:1]
		}
		page := Page{Origin: w.origin, Bucket: w.bucket, Epoch: w.epoch, Messages: batch}
		if whole && len(batch) == len(messages) {
			page.After = encodePosition(after)
		}
		results := w.life.sink.Publish(ctx, page)
		if err := checkResults(results, len(batch)); err != nil {
			w.life.abandon(probe)
			return nil, err
		}
		outcome := w.blame.sort(batch, results)
		confirmed += outcome.confirmed
		if ctx.Err() != nil {
			w.life.abandon(probe)
			return nil, context.Cause(ctx)
		}
		switch {
		case outcome.outage != nil:
			w.life.fail(ctx, w.bucket, probe, outcome.outage)
		default:
			w.life.recovered(ctx)
		}
		pending = append(outcome.pending, pending[len(batch):]...)
		for _, one := range outcome.failed {
			held.parked = append(held.parked, w.park(one.message, one.err))
		}
		if len(outcome.failed) > 0 {
			again := w.parked.divert(pending)
			pending, held.parked = again.free, append(held.parked, again.parked...)
		}
	}
	if confirmed > 0 {
		w.life.tell(ctx, Event{Kind: EventPublished, Bucket: w.bucket, Count: confirmed, Age: oldest})
	}
	return held.parked, nil
}

func checkResults(results []error, sent int) error {
	if len(results) != sent {
		return fmt.Errorf("publish: sink answered for %d of %d messages", len(results), sent)
	}
	return nil
}

// blame tells a broker that is away from a message that it can't take.
type blame struct {
	outage *outage
	seen   map[int64]int64 // by message: how much had worked when it met an outage
}

// sorted is what became of a batch.
type sorted struct {
	confirmed int
	pending   []store.Outgoing // to be sent again
	failed    []failure
	outage    error
}

type failure struct {
	message store.Outgoing
	err     error
}

// sort looks at the answers for a batch. What looks like an outage is the message's own
// fault when others get through: in the same batch, or since it was tried before.
func (b *blame) sort(batch []store.Outgoing, results []error) (s sorted) {
	for _, err := range results {
		if err == nil {
			s.confirmed++
		}
	}
	works := b.outage.successes()
	tried := s.confirmed > 0
	for i, err := range results {
		one := batch[i]
		switch {
		case err == nil:
			delete(b.seen, one.Number)
		case errors.Is(err, ErrNotTried):
			s.pending = append(s.pending, one)
		case errors.Is(err, ErrOutage) && s.confirmed == 0 && !b.othersWork(one, works):
			tried = true
			b.seen[one.Number] = works
			s.pending, s.outage = append(s.pending, one), err
		default:
			tried = true
			delete(b.seen, one.Number)
			s.failed = append(s.failed, failure{one, err})
		}
	}
	if !tried { // nothing was even tried: coming back at once would not help
		s.outage = ErrNotTried
	}
	return s
}

func (b *blame) othersWork(one store.Outgoing, works int64) bool {
	before, seen := b.seen[one.Number]
	return seen && works > before
}

// park makes a parked message of one that failed, and holds its key up.
func (w *worker) park(one store.Outgoing, err error) store.Parked {
	parked := store.Parked{Outgoing: one, Attempts: 1, Error: err.Error()}
	parked.Wait, parked.Dead, parked.Released = w.life.verdict(1, err)
	w.parked.hold(one, parked.Wait, parked.Released)
	return parked
}

// verdict says how a message goes on that has failed as often.
func (l *life) verdict(attempts int, err error) (wait time.Duration, dead, released bool) {
	dead = attempts >= l.config.MaxAttempts || dedup.ClassOf(err) == dedup.ClassPermanent
	wait = dedup.DelayOf(err)
	if wait == 0 {
		grown := float64(l.config.RetryMin) * math.Pow(1.5, float64(attempts-1))
		wait = time.Duration(min(grown, float64(l.config.RetryMax)) * (0.75 + rand.Float64()/2))
	}
	return wait, dead, dead && l.config.OnDead == ContinueKey
}

// tellParked tells of messages that were parked just now.
func (w *worker) tellParked(ctx context.Context, parked []store.Parked) {
	dead := 0
	for _, one := range parked {
		if one.Dead {
			dead++
		}
	}
	w.life.tell(ctx, Event{Kind: EventParked, Bucket: w.bucket, Count: len(parked)})
	if dead > 0 {
		w.life.tell(ctx, Event{Kind: EventDead, Bucket: w.bucket, Count: dead})
	}
}

// fail notes that the broker is away.
func (l *life) fail(ctx context.Context, bucket int, probe bool, err error) {
	if l.outage.failed(probe) {
		l.tell(ctx, Event{Kind: EventOutage, Bucket: bucket, Err: err})
	}
}

// recovered notes that the broker has answered.
func (l *life) recovered(ctx context.Context) {
	if l.outage.worked() {
		l.tell(ctx, Event{Kind: EventRecovered, Bucket: -1})
	}
}

func (l *life) abandon(probe bool) {
	if probe {
		l.outage.abandon()
	}
}

// position is a cursor as a sink keeps it.
type position struct {
	Prev string `json:"prev"`
	Cur  string `json:"cur,omitempty"`
	Last int64  `json:"last,omitempty"`
	High int64  `json:"high,omitempty"`
}

func encodePosition(c store.Cursor) string {
	encoded, _ := json.Marshal(position{c.Prev, c.Cur, c.Last, c.High}) // can't fail
	return string(encoded)
}

func decodePosition(text string) (store.Cursor, error) {
	var p position
	err := json.Unmarshal([]byte(text), &p)
	return store.Cursor{Prev: p.Prev, Cur: p.Cur, Last: p.Last, High: p.High}, err
}
