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
			w.cursor.Ahead = store.UnknownAhead // some of the page may have been published
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
		w.life.note(ctx, w.bucket, probe, outcome)
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
	seen   map[int64]suspect // messages that met an outage
}

// suspect is a message that meets an outage while others get through.
type suspect struct {
	works int64 // how much had worked when it was tried last
	times int   // how often others had got through since it was tried before
}

// suspicions is how often others must get through, between tries of a message that looks like
// an outage each time, until it is the message's fault. A broker that comes and goes lets
// others through once or twice.
const suspicions = 3

// sorted is what became of a batch.
type sorted struct {
	confirmed int
	answered  bool             // by the broker, for at least one message
	pending   []store.Outgoing // to be sent again
	failed    []failure
	outage    error
}

type failure struct {
	message store.Outgoing
	err     error
}

// sort looks at the answers for a batch.
func (b *blame) sort(batch []store.Outgoing, results []error) (s sorted) {
	works := b.outage.successes()
	for i, err := range results {
		one := batch[i]
		switch {
		case err == nil:
			s.confirmed++
			s.answered = true
			delete(b.seen, one.Number)
		case errors.Is(err, ErrNotTried):
			s.pending = append(s.pending, one)
		case errors.Is(err, ErrOutage) && !b.guilty(one, works):
			s.pending, s.outage = append(s.pending, one), err
		default:
			s.answered = s.answered || !errors.Is(err, ErrOutage)
			delete(b.seen, one.Number)
			s.failed = append(s.failed, failure{one, err})
		}
	}
	if !s.answered && len(s.failed) == 0 && s.outage == nil {
		s.outage = ErrNotTried // nothing was even tried: coming back at once would not help
	}
	return s
}

// guilty notes that a message has met an outage, and reports whether it is to blame.
func (b *blame) guilty(one store.Outgoing, works int64) bool {
	before, seen := b.seen[one.Number]
	if seen && works > before.works {
		before.times++
	}
	before.works = works
	b.seen[one.Number] = before
	return before.times >= suspicions
}

// note tells the breaker how a batch went.
func (l *life) note(ctx context.Context, bucket int, probe bool, s sorted) {
	switch {
	case s.outage != nil && !s.answered:
		l.fail(ctx, bucket, probe, s.outage)
	case s.answered:
		l.recovered(ctx)
	default: // only messages that are to blame themselves
		l.abandon(probe)
	}
}

// park makes a parked message of one that failed, and holds its key up.
func (w *worker) park(one store.Outgoing, err error) store.Parked {
	parked := store.Parked{Outgoing: one, Attempts: 1, Error: err.Error()}
	parked.Wait, parked.Dead, parked.Released = w.life.verdict(1, err)
	w.parked.hold(one, parked.Wait, parked.Released)
	w.unsure = w.unsure || errors.Is(err, ErrOutage)
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
