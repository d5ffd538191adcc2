package outbox_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/outbox"
	"github.com/oncebox/oncebox/store"
)

// sinkFunc is a sink of a function.
type sinkFunc func(ctx context.Context, page outbox.Page) []error

func (f sinkFunc) Publish(ctx context.Context, page outbox.Page) []error { return f(ctx, page) }

func TestRelay_HasNoTransactionOpenWhileItPublishes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	open := atomic.Int64{}
	open.Store(-1)
	b.runOn(b.st, sinkFunc(func(ctx context.Context, page outbox.Page) []error {
		var found int64
		err := b.db.Pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state LIKE 'idle in transaction%'`, b.db.Schema).Scan(&found)
		if err == nil {
			open.Store(found)
		}
		return make([]error, len(page.Messages))
	}), nil)
	b.append(text("a", "1"))
	b.eventually(func() bool { return open.Load() >= 0 }, func() string { return "nothing was published" })
	require.Zero(t, open.Load())
}

// cutOff is a store that can't renew leases any more, as behind a network that is cut.
type cutOff struct {
	store.Outbox
	cut atomic.Bool
}

func (c *cutOff) Lease(ctx context.Context, request store.LeaseRequest) (store.Lease, error) {
	if c.cut.Load() {
		<-ctx.Done()
		return store.Lease{}, ctx.Err()
	}
	return c.Outbox.Lease(ctx, request)
}

func TestRelay_APageIsBrokenOffBeforeItsLeaseEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	st := &cutOff{Outbox: b.st}
	took := make(chan time.Duration, 100)
	b.append(text("a", "1"))
	stop := b.runOn(st, sinkFunc(func(ctx context.Context, _ outbox.Page) []error {
		st.cut.Store(true)
		began := time.Now()
		<-ctx.Done()
		took <- time.Since(began)
		return []error{ctx.Err()}
	}), func(c *outbox.RelayConfig) { c.LeaseFor = 2 * time.Second })
	select {
	case d := <-took:
		require.Less(t, d, 2*time.Second)
	case <-time.After(patience):
		t.Fatal("the page was not broken off")
	}
	// Another relay goes on; the first one has saved nothing.
	b.run(nil)
	b.published("1")
	stop()
	b.append(text("a", "2"))
	b.published("1", "2")
}

func TestRelay_AnotherTakesOverFromOneThatDied(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// A relay that is not there any more, and has given nothing back.
	_, err := b.st.Lease(t.Context(), store.LeaseRequest{Relay: store.RelayID{9}, For: time.Second})
	require.NoError(t, err)
	b.append(text("a", "1"), text("b", "2"))
	began := time.Now()
	b.run(nil)
	b.published("1", "2")
	require.Less(t, time.Since(began), 10*time.Second)
}

func TestRelay_StopsWithItsPagesFinishedAndItsBucketsGivenBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	entered, release := make(chan struct{}), make(chan struct{})
	stop := b.runOn(b.st, sinkFunc(func(ctx context.Context, page outbox.Page) []error {
		close(entered)
		<-release
		b.sink.Publish(ctx, page)
		return make([]error, len(page.Messages))
	}), nil)
	b.append(text("a", "1"))
	<-entered
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	time.Sleep(50 * time.Millisecond)
	close(release)
	<-stopped
	require.Equal(t, []string{"1"}, b.sink.payloads())
	require.Equal(t, "16", b.owners(), "all buckets belong to nobody")

	b.run(nil)
	b.append(text("a", "2"))
	b.eventually(func() bool { return len(b.sink.payloads()) == 2 }, func() string { return fmt.Sprint(b.sink.payloads()) })
}
