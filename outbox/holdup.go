package outbox

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/store"
)

const (
	// parkedEvery is how often parked messages are looked at for what an operator did.
	parkedEvery = 5 * time.Second
	// parkedAtOnce bounds what is read of them.
	parkedAtOnce = 100
	// parkedRounds bounds how long they keep other messages back: a key may have many.
	parkedRounds = 20
)

// holdup is what a worker knows of its bucket's parked messages. Its keys may be more than
// those in the database, where an operator removes some, but never fewer.
type holdup struct {
	keys   map[string]bool
	lookAt time.Time
}

func newHoldup() holdup { return holdup{keys: make(map[string]bool)} }

func (h *holdup) due() bool { return !time.Now().Before(h.lookAt) }

// hold makes the later messages of a failed message's key wait for it.
func (h *holdup) hold(failed store.Outgoing, wait time.Duration, released bool) {
	if failed.Key != "" && !released {
		h.keys[failed.Key] = true
	}
	if next := time.Now().Add(wait); next.Before(h.lookAt) {
		h.lookAt = next
	}
}

// diverted are messages that may go, and those that have to wait for others of their key.
type diverted struct {
	free   []store.Outgoing
	parked []store.Parked
}

func (h *holdup) divert(messages []store.Outgoing) (d diverted) {
	if len(h.keys) == 0 {
		d.free = messages
		return d
	}
	for _, one := range messages {
		if one.Key != "" && h.keys[one.Key] {
			d.parked = append(d.parked, store.Parked{Outgoing: one, Error: "waits for an earlier message of its key"})
		} else {
			d.free = append(d.free, one)
		}
	}
	return d
}

// publishParked tries the parked messages whose turn it is, key by key in order, until none
// is due or others should have their turn.
func (w *worker) publishParked(ctx context.Context) error {
	for round := 0; w.parked.due() && round < parkedRounds; round++ {
		held, err := w.life.store.Parked(ctx, w.bucket, parkedAtOnce)
		if err != nil {
			return err
		}
		w.parked.keys = make(map[string]bool, len(held.Keys))
		for _, key := range held.Keys {
			w.parked.keys[key] = true
		}
		if len(held.Keys) > 0 {
			w.life.tell(ctx, Event{Kind: EventHeldUp, Bucket: w.bucket, Count: len(held.Keys)})
		}
		if len(held.Due) == 0 {
			next := parkedEvery
			if held.Next > 0 {
				next = min(next, held.Next)
			} else if len(held.Keys) == 0 {
				w.unsure = false
			}
			w.parked.lookAt = time.Now().Add(next)
			return nil
		}
		if err := w.publishDue(ctx, held.Due); err != nil {
			return err
		}
	}
	return nil
}

// publishDue tries messages of different keys and records what became of them.
func (w *worker) publishDue(ctx context.Context, due []store.Parked) error {
	probe, err := w.life.outage.enter(ctx, w.lease.releasing)
	if err != nil {
		w.cursor.Ahead = store.UnknownAhead // some may have been published
		return err
	}
	if probe {
		due = due[:1]
	}
	batch := make([]store.Outgoing, len(due))
	for i, one := range due {
		batch[i] = one.Outgoing
	}
	results := w.life.sink.Publish(ctx, Page{Origin: w.origin, Bucket: w.bucket, Epoch: w.epoch, Messages: batch})
	if err := checkResults(results, len(batch)); err != nil {
		w.life.abandon(probe)
		return err
	}
	if ctx.Err() != nil {
		w.life.abandon(probe)
		return context.Cause(ctx)
	}
	sorted := w.blame.sort(batch, results)
	w.life.note(ctx, w.bucket, probe, sorted)
	if sorted.confirmed == 0 && len(sorted.failed) == 0 {
		return nil // nothing happened; enter waits next time
	}
	return w.settle(ctx, due, results, sorted)
}

// settle records confirmed and failed messages.
func (w *worker) settle(ctx context.Context, due []store.Parked, results []error, sorted sorted) error {
	var outcomes []store.Outcome
	dead := 0
	failed := make(map[int64]error, len(sorted.failed))
	for _, one := range sorted.failed {
		failed[one.message.Number] = one.err
	}
	for i, one := range due {
		if results[i] == nil {
			outcomes = append(outcomes, store.Outcome{Number: one.Number, Published: true})
			continue
		}
		err, is := failed[one.Number]
		if !is {
			continue
		}
		o := store.Outcome{Number: one.Number, Attempts: one.Attempts + 1, Error: err.Error()}
		o.Wait, o.Dead, o.Released = w.life.verdict(o.Attempts, err)
		if o.Dead {
			dead++
		}
		outcomes = append(outcomes, o)
	}
	after := w.marked(w.cursor)
	if err := w.life.store.Settle(ctx, after, outcomes); err != nil {
		return err
	}
	w.cursor = after
	if sorted.confirmed > 0 {
		w.life.tell(ctx, Event{Kind: EventPublished, Bucket: w.bucket, Count: sorted.confirmed, Age: due[0].Age})
	}
	if dead > 0 {
		w.life.tell(ctx, Event{Kind: EventDead, Bucket: w.bucket, Count: dead})
	}
	return nil
}
