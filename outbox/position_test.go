package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/outbox"
	"github.com/oncebox/oncebox/store"
)

// positionSink keeps the position of each bucket together with its messages, as a sink does
// whose broker has transactions.
type positionSink struct {
	memorySink
	mu        sync.Mutex
	positions map[int]string
}

var _ outbox.Resumer = (*positionSink)(nil)

func (s *positionSink) Publish(ctx context.Context, page outbox.Page) []error {
	results := s.memorySink.Publish(ctx, page)
	if page.After != "" && errors.Join(results...) == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.positions[page.Bucket] = page.After
	}
	return results
}

func (s *positionSink) Resume(_ context.Context, from outbox.Takeover) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.positions[from.Bucket], nil
}

func (s *positionSink) Mark(int) string { return "" }

// unsaving is a store that saves no cursor for a while.
type unsaving struct {
	store.Outbox
	left atomic.Int64
}

func (u *unsaving) Save(ctx context.Context, c store.Cursor) error {
	if u.left.Add(-1) >= 0 {
		return errBroken
	}
	return u.Outbox.Save(ctx, c)
}

func (u *unsaving) SaveAndRead(ctx context.Context, c store.Cursor, limit store.Limit) (store.Page, error) {
	if u.left.Add(-1) >= 0 {
		return store.Page{}, errBroken
	}
	return u.Outbox.SaveAndRead(ctx, c, limit)
}

func TestRelay_ASinkThatKeepsThePositionGetsEachMessageOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sink := &positionSink{positions: make(map[int]string)}
	st := &unsaving{Outbox: b.st}
	st.left.Store(6)
	var want []string
	for i := range 50 {
		b.append(text("a", fmt.Sprint(i)))
		want = append(want, fmt.Sprint(i))
	}
	b.runOn(st, sink, func(c *outbox.RelayConfig) { c.PageMessages = 7 })
	b.eventually(func() bool { return len(sink.payloads()) >= 50 && st.left.Load() < 0 }, func() string { return fmt.Sprint(sink.payloads()) })
	require.Equal(t, want, sink.payloads())
}
