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
// was something in one.
func (l *life) open(ctx context.Context) (found bool, err error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	if len(l.idle) == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.config.LeaseFor)
	defer cancel()
	opening, err := l.store.Open(ctx, l.beginnings())
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
	for bucket, cursor := range l.idle {
		if cursor.Prev == opening.Cur {
			continue // nothing has finished since
		}
		cursor.Cur, cursor.High, cursor.Last = opening.Cur, opening.High, opening.Starts[cursor.Prev]
		if cursor.Last >= cursor.High {
			l.idle[bucket] = l.finished(cursor)
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
		if len(pages[i].Messages) == 0 && pages[i].Through >= cursor.High {
			l.idle[cursor.Bucket] = l.finished(cursor)
			continue
		}
		found = true
		delete(l.idle, cursor.Bucket)
		l.buckets[cursor.Bucket].windows <- window{cursor, pages[i]} // it has room: the worker is idle
	}
	return found, nil
}

// finished ends the first window of an owner or a later one: whatever a former one had under
// way lay in it.
func (l *life) finished(cursor store.Cursor) store.Cursor {
	cursor = cursor.Finish()
	cursor.Ahead = l.config.PageMessages
	return cursor
}

func (l *life) beginnings() []string {
	var distinct []string
	seen := make(map[string]bool)
	for _, cursor := range l.idle {
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
