package memory

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/oncebox/oncebox/store"
)

// outbox are the messages of committed transactions. The store's mutex guards it. A snapshot
// is how many transactions have committed messages, in decimal.
type outbox struct {
	commits  int64
	number   int64
	messages []stored
	delayed  []delayed
	buckets  [store.Buckets]bucket
	relays   map[store.RelayID]time.Time // until when they live
	parked   map[int64]*store.ParkedMessage
	retryAt  map[int64]time.Time // of what is parked
	audit    []store.AuditEntry
	hearing  map[chan struct{}]bool
}

// stored is a message with the transaction that has committed it.
type stored struct {
	store.Outgoing
	commit int64
}

type delayed struct {
	store.Message
	dueAt time.Time
}

func newOutbox() *outbox {
	o := &outbox{
		relays: make(map[store.RelayID]time.Time), parked: make(map[int64]*store.ParkedMessage),
		retryAt: make(map[int64]time.Time), hearing: make(map[chan struct{}]bool),
	}
	for i := range o.buckets {
		o.buckets[i].cursor = store.Cursor{Bucket: i, Prev: "0"}
		o.buckets[i].savedAt = time.Now()
	}
	return o
}

// Append stores messages in the transaction of ctx; see [store.Appender].
func (s *Store) Append(ctx context.Context, messages ...store.Message) error {
	tx, err := TxFrom(ctx)
	if err != nil {
		return err
	}
	for i, one := range messages {
		if err := one.Validate(store.DefaultMaxMessageBytes); err != nil {
			return fmt.Errorf("append message %d of %d: %w", i+1, len(messages), err)
		}
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.closed {
		return store.ErrTxClosed
	}
	for _, one := range tx.ids.Assign(messages) {
		one.Headers, one.Payload = maps.Clone(one.Headers), bytes.Clone(one.Payload)
		tx.sent = append(tx.sent, one)
	}
	return nil
}

// commit numbers messages and tells those who wait.
func (o *outbox) commit(messages []store.Message) {
	if len(messages) == 0 {
		return
	}
	o.commits++
	for _, one := range messages {
		if one.Delay > 0 {
			o.delayed = append(o.delayed, delayed{one, time.Now().Add(one.Delay)})
			continue
		}
		o.number++
		o.messages = append(o.messages, stored{store.Outgoing{Message: one, Number: o.number, At: time.Now()}, o.commits})
	}
	for one := range o.hearing {
		select {
		case one <- struct{}{}:
		default: // it has not heard the last one yet
		}
	}
}

// Appended is rung after commits; see [store.Outbox].
func (s *Store) Appended() (rung <-chan struct{}, stop func()) {
	one := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outbox.hearing[one] = true
	return one, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.outbox.hearing, one)
	}
}

// Open returns the commits so far; see [store.Outbox].
func (s *Store) Open(_ context.Context, beginnings []string) (store.Opening, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.outbox
	opening := store.Opening{Cur: strconv.FormatInt(o.commits, 10), High: o.number, Starts: make(map[string]int64), Incarnation: "memory"}
	for _, one := range beginnings {
		opening.Starts[one] = 0
	}
	opening.Due = slices.ContainsFunc(o.delayed, delayed.due)
	return opening, nil
}

func (d delayed) due() bool { return !time.Now().Before(d.dueAt) }

// Read returns the next messages of each window; see [store.Outbox].
func (s *Store) Read(_ context.Context, cursors []store.Cursor, limit store.Limit) ([]store.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pages := make([]store.Page, len(cursors))
	for i, cursor := range cursors {
		pages[i] = s.outbox.page(cursor, limit)
	}
	return pages, nil
}

func (o *outbox) page(c store.Cursor, limit store.Limit) store.Page {
	page := store.Page{Through: c.High}
	size := 0
	for _, one := range o.messages {
		if one.Bucket() != c.Bucket || one.Number <= c.Last || one.Number > c.High || one.commit <= count(c.Prev) || one.commit > count(c.Cur) {
			continue
		}
		out := one.Outgoing
		out.Age = time.Since(out.At)
		page.Messages = append(page.Messages, out)
		if size += len(out.Payload); len(page.Messages) == limit.Messages || size >= limit.Bytes {
			page.Through = out.Number
			break
		}
	}
	return page
}

func count(snapshot string) int64 {
	n, _ := strconv.ParseInt(snapshot, 10, 64) // made here
	return n
}

// MoveDue moves messages whose time has come; see [store.Outbox].
func (s *Store) MoveDue(_ context.Context, limit int) (moved int, err error) {
	if limit < 1 {
		return 0, fmt.Errorf("move delayed messages: limit: %d is less than 1", limit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.outbox
	slices.SortStableFunc(o.delayed, func(a, b delayed) int { return a.dueAt.Compare(b.dueAt) })
	var due []store.Message
	for len(o.delayed) > 0 && len(due) < limit && o.delayed[0].due() {
		one := o.delayed[0].Message
		one.Delay = 0
		due, o.delayed = append(due, one), o.delayed[1:]
	}
	o.commit(due)
	return len(due), nil
}

// Tidy forgets messages that every bucket has passed; see [store.Outbox].
func (s *Store) Tidy(context.Context) (store.Tidied, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.outbox
	before := len(o.messages)
	o.messages = slices.DeleteFunc(o.messages, func(one stored) bool {
		return one.commit <= count(o.buckets[one.Bucket()].cursor.Prev)
	})
	if before > 0 && len(o.messages) == 0 {
		return store.Tidied{Emptied: 1}, nil
	}
	return store.Tidied{}, nil
}
