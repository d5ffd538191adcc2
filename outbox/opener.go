package outbox

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/internal/failpoint"
	"github.com/oncebox/oncebox/store"
)

// window is a new window of a bucket, with its first page.
type window struct {
	cursor store.Cursor
	page   store.Page
}

// openWindows looks for new messages for the buckets that are idle: at once when this
// process has committed some, else after a time that grows as long as there are none.
func (l *life) openWindows(ctx context.Context) error {
	wait := minPoll
	timer := time.NewTimer(0)
	defer timer.Stop()
	var looked, next time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.asked:
			// Only ever sooner: whoever asks again and again must not put it off.
			if soon := time.Now().Add(minPoll); soon.Before(next) {
				wait, next = minPoll, soon
				timer.Reset(minPoll)
			}
			continue
		case <-l.rung:
			if soon := minPoll - time.Since(looked); soon > 0 { // many commit: they share a window
				next = time.Now().Add(soon)
				timer.Reset(soon)
				continue
			}
		case <-timer.C:
		}
		looked = time.Now()
		found, err := l.open(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		wait = min(2*wait, l.config.PollMax)
		if found {
			wait = minPoll
		}
		next = time.Now().Add(wait)
		timer.Reset(wait)
	}
}

// open opens the next window of each idle bucket and hands it out. It reports whether there
// was something in one. Leases are renewed meanwhile.
func (l *life) open(ctx context.Context) (found bool, err error) {
	cursors := l.takeIdle()
	if len(cursors) == 0 {
		return false, nil
	}
	windows := make(map[int]window)
	defer func() { l.handOut(cursors, windows) }()
	opening, err := l.store.Open(ctx, beginnings(cursors))
	if err != nil {
		return false, err
	}
	if l.incarnation != "" && l.incarnation != opening.Incarnation {
		return false, errReborn
	}
	l.incarnation = opening.Incarnation
	if opening.Due {
		select {
		case l.due <- struct{}{}:
		default: // it is known already
		}
	}
	failpoint.Hit(failpoint.RelayWindow)
	var opened []store.Cursor
	for i, cursor := range cursors {
		if cursor.Prev == opening.Cur {
			continue // nothing has finished since
		}
		cursor.Cur, cursor.High, cursor.Last = opening.Cur, opening.High, opening.Starts[cursor.Prev]
		if cursor.Last >= cursor.High {
			cursors[i] = l.finished(cursor)
			continue
		}
		opened = append(opened, cursor)
	}
	if len(opened) == 0 {
		return false, nil
	}
	pages, err := l.store.Read(ctx, opened, l.limit())
	if err != nil {
		return false, err
	}
	for i, cursor := range opened {
		windows[cursor.Bucket] = window{cursor, pages[i]}
	}
	for i, cursor := range cursors {
		next, opened := windows[cursor.Bucket]
		if opened && len(next.page.Messages) == 0 && next.page.Through >= next.cursor.High {
			cursors[i] = l.finished(next.cursor)
			delete(windows, cursor.Bucket)
		}
	}
	return len(windows) > 0, nil
}

// takeIdle marks the idle buckets as being opened, and returns their cursors.
func (l *life) takeIdle() (cursors []store.Cursor) {
	l.turn.Lock()
	defer l.turn.Unlock()
	for bucket, cursor := range l.idle {
		l.opening[bucket] = true
		cursors = append(cursors, cursor)
	}
	return cursors
}

// handOut gives windows to their workers, and makes the other buckets idle at their cursors.
func (l *life) handOut(cursors []store.Cursor, windows map[int]window) {
	l.turn.Lock()
	defer l.turn.Unlock()
	for _, cursor := range cursors {
		delete(l.opening, cursor.Bucket)
		if next, has := windows[cursor.Bucket]; has {
			delete(l.idle, cursor.Bucket)
			l.buckets[cursor.Bucket].windows <- next // it has room: the worker is idle
			continue
		}
		if one := l.buckets[cursor.Bucket]; one != nil && one.unsure {
			cursor.Ahead = store.UnknownAhead
		}
		l.idle[cursor.Bucket] = cursor
	}
	l.opened.Broadcast()
}

// finished ends the first window of an owner or a later one: whatever a former one had under
// way lay in it.
func (l *life) finished(cursor store.Cursor) store.Cursor {
	cursor = cursor.Finish()
	cursor.Ahead = l.config.PageMessages
	return cursor
}

// beginnings are where the cursors' next windows begin, each once.
func beginnings(cursors []store.Cursor) (distinct []string) {
	seen := make(map[string]bool)
	for _, cursor := range cursors {
		if !seen[cursor.Prev] {
			seen[cursor.Prev] = true
			distinct = append(distinct, cursor.Prev)
		}
	}
	return distinct
}

func (l *life) limit() store.Limit {
	return store.Limit{Messages: l.config.PageMessages, Bytes: l.config.PageBytes}
}
