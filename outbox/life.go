package outbox

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oncebox/oncebox/internal/failpoint"
	"github.com/oncebox/oncebox/store"
)

// Times of a life.
const (
	// minPoll is the time between two looks while there are messages.
	minPoll = 5 * time.Millisecond
	// tidyEvery is how often slots are looked at; a slot lasts for a million messages.
	tidyEvery = time.Second
	// tidyTimeout is long for a look at a million messages, and for a database that is slow.
	tidyTimeout = 2 * time.Minute
	// endTimeout bounds what is written at the end of a life.
	endTimeout = 5 * time.Second
)

// Reasons for which work ends.
var (
	errReleasing = errors.New("bucket is to be given back")
	errReborn    = errors.New("server was started again or is another one: what the relay knows may be ahead of it")
	errEnded     = errors.New("relay's life has ended")
)

// life is the time from one beginning of a relay to its end or the next failure of the
// database. Whatever is known of cursors is known from this life's server.
type life struct {
	*Relay
	store   bounded // shadows the relay's
	id      store.RelayID
	rung    <-chan struct{}
	outage  *outage
	workers sync.WaitGroup
	failed  chan error    // of a worker, the first one
	asked   chan struct{} // a worker has become idle
	due     chan struct{} // delayed messages are due

	// turn guards the rest. While renew saves cursors of idle buckets it is held, so that none
	// is saved after its bucket went on; those in opening are with the opener, which tells by
	// opened when it has done with them.
	turn        sync.Mutex
	opened      *sync.Cond
	opening     map[int]bool
	buckets     map[int]*worker
	idle        map[int]store.Cursor
	incarnation string
	share       int
}

// live holds leases and publishes until ctx ends or something fails.
func (r *Relay) live(ctx context.Context, id store.RelayID, rung <-chan struct{}) (err error) {
	l := &life{
		Relay: r, id: id, store: bounded{r.store, r.config.LeaseFor}, rung: rung, outage: newOutage(100*time.Millisecond, 10*time.Second),
		failed: make(chan error, 1), asked: make(chan struct{}, 1), due: make(chan struct{}, 1),
		buckets: make(map[int]*worker), idle: make(map[int]store.Cursor), opening: make(map[int]bool),
	}
	l.opened = sync.NewCond(&l.turn)
	// Workers outlive ctx by the shutdown grace.
	working, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer func() {
		end(errEnded)
		l.workers.Wait()
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		err = errors.Join(err, r.store.Leave(leaving, id))
	}()
	if err := l.renew(ctx, working, true); err != nil {
		return err
	}
	loops, looping := errgroup.WithContext(ctx)
	loops.Go(func() error { return l.keepLeases(looping, working) })
	loops.Go(func() error { return l.openWindows(looping) })
	loops.Go(func() error { return l.tidy(looping) })
	loops.Go(func() error {
		select {
		case err := <-l.failed:
			return err
		case <-looping.Done():
			return nil
		}
	})
	err = loops.Wait()
	if ctx.Err() != nil {
		failpoint.Hit(failpoint.RelayHandOver)
		l.drain()
		return nil
	}
	return err
}

// drain asks all workers to finish their pages, and gives them the shutdown grace.
func (l *life) drain() {
	l.turn.Lock()
	for _, one := range l.buckets {
		one.release()
	}
	l.turn.Unlock()
	done := make(chan struct{})
	go func() { l.workers.Wait(); close(done) }()
	timer := time.NewTimer(l.config.ShutdownGrace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// keepLeases renews what the relay holds, and takes and gives buckets so that relays share
// them evenly.
func (l *life) keepLeases(ctx, working context.Context) error {
	for hold(ctx, l.untilRenewal()) == nil {
		if err := l.renew(ctx, working, false); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// untilRenewal is shorter while the relay holds less than its share.
func (l *life) untilRenewal() time.Duration {
	l.turn.Lock()
	defer l.turn.Unlock()
	wait := l.config.LeaseFor / 3
	if len(l.buckets) < l.share {
		wait = min(wait, 500*time.Millisecond)
	}
	return wait
}

func (l *life) renew(ctx, working context.Context, fresh bool) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	request := store.LeaseRequest{Relay: l.id, For: l.config.LeaseFor, Fresh: fresh}
	for bucket, cursor := range l.idle {
		if one := l.buckets[bucket]; one != nil && !l.opening[bucket] && cursor.Ahead >= 0 && cursor != one.saved {
			cursor = l.marked(cursor)
			one.saved, l.idle[bucket] = cursor, cursor
			request.Idle = append(request.Idle, cursor)
		}
	}
	sent := time.Now()
	lease, err := l.store.Lease(ctx, request)
	if err != nil {
		return err
	}
	l.share = lease.Share
	held := make(map[int]bool, len(lease.Buckets))
	for _, leased := range lease.Buckets {
		bucket := leased.Cursor.Bucket
		held[bucket] = true
		one := l.buckets[bucket]
		if one != nil && one.epoch != leased.Cursor.Epoch {
			continue // it was given back and taken again; the old worker is about to end
		}
		if one == nil {
			one = newWorker(l, leased, lease.Origin, sent)
			one.keepUntil(sent.Add(l.config.LeaseFor)) // before it asks for its lease
			l.buckets[bucket] = one
			l.workers.Go(func() { l.work(working, one) })
			l.tell(ctx, Event{Kind: EventLeased, Bucket: bucket})
		}
		one.keepUntil(sent.Add(l.config.LeaseFor))
	}
	for bucket, one := range l.buckets {
		if !held[bucket] && !one.isReleasing() {
			l.tell(ctx, Event{Kind: EventFenced, Bucket: bucket, Err: store.ErrLeaseLost})
			one.stop(store.ErrLeaseLost)
		}
	}
	l.giveBack(len(held) - lease.Share)
	return nil
}

// giveBack hands over as many buckets, idle ones first.
func (l *life) giveBack(excess int) {
	candidates := make([]int, 0, len(l.buckets))
	for bucket, one := range l.buckets {
		if one.isReleasing() {
			excess--
		} else {
			candidates = append(candidates, bucket)
		}
	}
	slices.SortFunc(candidates, func(a, b int) int {
		_, idleA := l.idle[a]
		_, idleB := l.idle[b]
		switch {
		case idleA == idleB:
			return b - a
		case idleA:
			return -1
		}
		return 1
	})
	for _, bucket := range candidates[:max(0, min(excess, len(candidates)))] {
		l.buckets[bucket].release()
	}
}

// work runs a worker to its end. What ends it may end this life.
func (l *life) work(ctx context.Context, one *worker) {
	err := one.run(ctx)
	bucket := one.bucket
	l.turn.Lock()
	delete(l.idle, bucket)
	delete(l.buckets, bucket)
	l.turn.Unlock()
	switch {
	case errors.Is(err, store.ErrLeaseLost):
		l.tell(ctx, Event{Kind: EventFenced, Bucket: bucket, Err: err})
	case err == nil:
		l.tell(ctx, Event{Kind: EventReleased, Bucket: bucket})
	case errors.Is(err, errEnded):
	default:
		select {
		case l.failed <- err:
		default: // another one was first
		}
	}
}

// marked is the cursor with the sink's mark, which must not pass what a former owner has left.
func (l *life) marked(cursor store.Cursor) store.Cursor {
	if sink, ok := l.sink.(Resumer); ok && cursor.Ahead >= 0 {
		cursor.Mark = sink.Mark(cursor.Bucket)
	}
	return cursor
}

// tidy notes ticks and empties slots.
func (l *life) tidy(ctx context.Context) error {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.due:
			moving, cancel := context.WithTimeout(ctx, tidyTimeout)
			_, err := l.store.MoveDue(moving, l.config.PageMessages)
			cancel()
			if err != nil && ctx.Err() == nil {
				return err
			}
		case <-tick.C:
			tidying, cancel := context.WithTimeout(ctx, tidyTimeout)
			done, err := l.store.Tidy(tidying)
			cancel()
			if err != nil && ctx.Err() == nil { // publishing goes on without it
				l.tell(ctx, Event{Kind: EventFailed, Bucket: -1, Err: err})
			}
			if done.Emptied > 0 {
				l.tell(ctx, Event{Kind: EventEmptied, Bucket: -1, Count: done.Emptied})
			}
			if done.Full > 0 {
				l.tell(ctx, Event{Kind: EventFull, Bucket: -1, Count: done.Full})
			}
		}
	}
}
