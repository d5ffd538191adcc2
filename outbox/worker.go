package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oncebox/oncebox/internal/failpoint"
	"github.com/oncebox/oncebox/store"
)

// worker publishes one bucket while its lease lasts.
type worker struct {
	life    *life
	origin  string // of the outbox
	bucket  int
	epoch   int64
	windows chan window // has one when the bucket was idle and there is a new window
	lease   *lease
	took    store.LeasedBucket
	at      time.Time    // when that was
	saved   store.Cursor // what renew has saved last; guarded by life.turn

	cursor store.Cursor // while it is not idle
	left   int          // of the messages that the former owner may have published; 0 when it is not known
	parked holdup
	unsure bool // something is parked that may have been published
	blame  blame
}

func newWorker(l *life, took store.LeasedBucket, origin string, at time.Time) *worker {
	cursor := took.Cursor
	left := 0
	if !cursor.Between() && cursor.Ahead >= 0 {
		left = max(1, cursor.Ahead)
	}
	cursor.Ahead = store.UnknownAhead
	return &worker{
		life: l, origin: origin, bucket: took.Cursor.Bucket, epoch: took.Cursor.Epoch, windows: make(chan window, 1),
		lease: newLease(), took: took, at: at, cursor: cursor, left: left, parked: newHoldup(),
		blame: blame{outage: l.outage, seen: make(map[int64]suspect)},
	}
}

// keepUntil, release and stop are called by the life; see lease.
func (w *worker) keepUntil(end time.Time) { w.lease.keepUntil(end) }
func (w *worker) release()                { w.lease.release() }
func (w *worker) stop(cause error)        { w.lease.stop(cause) }
func (w *worker) isReleasing() bool       { return w.lease.isReleasing() }

// run publishes until the bucket is to be given back, which it then does, or until it fails.
func (w *worker) run(ctx context.Context) error {
	ctx, end := w.lease.context(ctx)
	defer end()
	err := w.publishAll(ctx)
	if errors.Is(err, errReleasing) {
		if err = w.life.store.Release(ctx, w.cursor); err == nil {
			return nil
		}
	}
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

// publishAll never returns without an error.
func (w *worker) publishAll(ctx context.Context) error {
	if err := w.resume(ctx); err != nil {
		return err
	}
	// A former owner may have published parked messages too; they are due still.
	if err := w.publishParked(ctx); err != nil {
		return err
	}
	if !w.cursor.Between() {
		if err := w.drain(ctx, nil); err != nil {
			return err
		}
	}
	for {
		if err := w.publishParked(ctx); err != nil {
			return err
		}
		next, err := w.await(ctx)
		if err != nil {
			return err
		}
		if next == nil {
			continue // parked messages are due
		}
		w.cursor = next.cursor
		if err := w.drain(ctx, &next.page); err != nil {
			return err
		}
	}
}

// resume lets the sink look after what a former owner has left.
func (w *worker) resume(ctx context.Context) error {
	sink, ok := w.life.sink.(Resumer)
	if !ok {
		return nil
	}
	for {
		probe, err := w.life.outage.enter(ctx, w.lease.releasing)
		if err != nil {
			return err
		}
		position, err := sink.Resume(ctx, Takeover{
			Origin: w.origin, Bucket: w.bucket, Epoch: w.epoch, Mark: w.cursor.Mark, SavedAgo: w.took.SavedAgo + time.Since(w.at),
		})
		if err != nil && ctx.Err() == nil {
			w.life.fail(ctx, w.bucket, probe, err)
			continue
		}
		w.life.abandon(probe) // it proves nothing for messages
		if err != nil || position == "" {
			return err
		}
		return w.jump(position)
	}
}

// await makes the bucket idle until there is a new window. It returns nil when parked
// messages have to be looked at.
func (w *worker) await(ctx context.Context) (*window, error) {
	l := w.life
	l.turn.Lock()
	l.idle[w.bucket] = w.cursor
	l.turn.Unlock()
	select {
	case l.asked <- struct{}{}:
	default: // it is known already
	}
	timer := time.NewTimer(time.Until(w.parked.lookAt))
	defer timer.Stop()
	var ended error
	select {
	case next := <-w.windows:
		return &next, nil
	case <-timer.C:
	case <-w.lease.releasing:
		ended = errReleasing
	case <-ctx.Done():
		ended = context.Cause(ctx)
	}
	l.turn.Lock()
	defer l.turn.Unlock()
	for l.opening[w.bucket] {
		l.opened.Wait()
	}
	if cursor, still := l.idle[w.bucket]; still {
		delete(l.idle, w.bucket)
		w.cursor = cursor
		return nil, ended
	}
	next := <-w.windows // handed out meanwhile
	if ended != nil {
		w.cursor = next.cursor
		return nil, ended
	}
	return &next, nil
}

// drain publishes the window, of which page is the first one if it is read already.
func (w *worker) drain(ctx context.Context, page *store.Page) error {
	if page == nil {
		pages, err := w.life.store.Read(ctx, []store.Cursor{w.cursor}, w.life.limit())
		if err != nil {
			return err
		}
		page = &pages[0]
	}
	for {
		failpoint.Hit(failpoint.RelayPage)
		after := w.after(page)
		parked, err := w.publish(ctx, page.Messages, after)
		if err != nil {
			return err
		}
		failpoint.Hit(failpoint.RelayPublished)
		w.cursor = w.marked(after)
		if page, err = w.saveAndRead(ctx, parked); page == nil || err != nil {
			return err
		}
		if w.isReleasing() {
			return errReleasing
		}
		if w.parked.due() {
			if err := w.publishParked(ctx); err != nil {
				return err
			}
		}
	}
}

// after is the cursor behind a page. In a window that was taken over in its middle, the
// former owner's page begins where this one's first does.
func (w *worker) after(page *store.Page) store.Cursor {
	after := w.cursor
	after.Last = page.Through
	if after.Last >= after.High {
		return w.life.finished(after)
	}
	if w.left > 0 {
		if w.left -= len(page.Messages); w.left <= 0 {
			after.Ahead = w.life.config.PageMessages
		}
	}
	return after
}

// marked is the cursor with the sink's mark, as far as what was published is known.
func (w *worker) marked(cursor store.Cursor) store.Cursor {
	if w.unsure {
		cursor.Ahead = store.UnknownAhead
	}
	return w.life.marked(cursor)
}

// saveAndRead saves the cursor, and what has to be parked with it, and reads on in the
// window; nil when that is done.
func (w *worker) saveAndRead(ctx context.Context, parked []store.Parked) (*store.Page, error) {
	st := w.life.store
	if w.cursor.Between() {
		failpoint.Hit(failpoint.RelaySaving)
	}
	if len(parked) > 0 {
		if err := st.Park(ctx, w.cursor, parked); err != nil {
			return nil, err
		}
		w.tellParked(ctx, parked)
	} else if w.cursor.Between() {
		return nil, st.Save(ctx, w.cursor)
	}
	if w.cursor.Between() {
		return nil, nil
	}
	page, err := st.SaveAndRead(ctx, w.cursor, w.life.limit())
	return &page, err
}

// jump moves the cursor to a position that the sink has kept.
func (w *worker) jump(position string) error {
	kept, err := decodePosition(position)
	if err != nil {
		return fmt.Errorf("position of bucket %d in the sink: %w", w.bucket, err)
	}
	kept.Bucket, kept.Relay, kept.Epoch, kept.Mark, kept.Ahead = w.cursor.Bucket, w.cursor.Relay, w.cursor.Epoch, w.cursor.Mark, w.cursor.Ahead
	w.cursor = kept
	return nil
}

// lease is the time for which a worker may write and publish, and the wish that it ends.
type lease struct {
	releasing chan struct{} // closed when the bucket is to be given back
	once      sync.Once

	mu    sync.Mutex // guards the rest
	end   time.Time
	timer *time.Timer
	halt  context.CancelCauseFunc
	cause error
}

func newLease() *lease { return &lease{releasing: make(chan struct{})} }

// context ends when the lease does, or when it is stopped.
func (l *lease) context(parent context.Context) (context.Context, func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, halt := context.WithCancelCause(parent)
	l.halt = halt
	if l.cause != nil {
		halt(l.cause)
	}
	l.timer = time.AfterFunc(time.Until(l.end), func() { halt(store.ErrLeaseLost) })
	return ctx, func() {
		l.timer.Stop()
		halt(nil)
	}
}

// keepUntil moves the end; it comes a tenth of a second early, for what is on its way.
func (l *lease) keepUntil(end time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = end.Add(-100 * time.Millisecond)
	if l.timer != nil {
		l.timer.Reset(time.Until(l.end))
	}
}

func (l *lease) release() { l.once.Do(func() { close(l.releasing) }) }

func (l *lease) isReleasing() bool {
	select {
	case <-l.releasing:
		return true
	default:
		return false
	}
}

func (l *lease) stop(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cause = cause
	if l.halt != nil {
		l.halt(cause)
	}
}
