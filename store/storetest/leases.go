package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/store"
)

func leases(t *testing.T, open func(t *testing.T) Backend) {
	one, two, three := store.RelayID{1}, store.RelayID{2}, store.RelayID{3}
	runFacts(t, open, []fact{
		{"a relay alone gets all buckets, each under its next epoch", func(t *testing.T, b bench) {
			lease := b.lease(one, time.Minute)
			require.Len(t, lease.Buckets, store.Buckets)
			require.Equal(t, store.Buckets, lease.Share)
			require.NotEmpty(t, lease.Origin)
			for i, leased := range lease.Buckets {
				require.Equal(t, i, leased.Cursor.Bucket)
				require.EqualValues(t, 1, leased.Cursor.Epoch)
			}
			require.EqualValues(t, 1, b.lease(one, time.Minute).Buckets[0].Cursor.Epoch, "renewing is no take-over")
		}},
		{"relays share evenly, as buckets are given back", func(t *testing.T, b bench) {
			held := b.lease(one, time.Minute).Buckets
			require.Empty(t, b.lease(two, time.Minute).Buckets, "nothing is free")
			b.lease(three, time.Minute)
			share := b.lease(one, time.Minute).Share
			require.Equal(t, 6, share)
			for _, leased := range held[share:] {
				require.NoError(t, b.Outbox.Release(t.Context(), leased.Cursor))
			}
			require.Len(t, b.lease(two, time.Minute).Buckets, 5)
			require.Len(t, b.lease(three, time.Minute).Buckets, 5)
			require.Len(t, b.lease(one, time.Minute).Buckets, 6)
		}},
		{"a lease that ran out is taken over, and its owner is fenced off", func(t *testing.T, b bench) {
			old := b.lease(one, time.Second).Buckets[0].Cursor
			require.Eventually(t, func() bool {
				return len(b.lease(two, time.Minute).Buckets) == store.Buckets
			}, 10*time.Second, 50*time.Millisecond)
			require.ErrorIs(t, b.Outbox.Save(t.Context(), old), store.ErrLeaseLost)
			require.ErrorIs(t, b.Outbox.Release(t.Context(), old), store.ErrLeaseLost)
			require.ErrorIs(t, b.Outbox.Settle(t.Context(), old, nil), store.ErrLeaseLost)
			parked := []store.Parked{{Outgoing: store.Outgoing{Message: note("a", "1"), Number: 5}}}
			require.ErrorIs(t, b.Outbox.Park(t.Context(), old, parked), store.ErrLeaseLost)
			listed, err := b.Operator.ListParked(t.Context(), 0, 10, false)
			require.NoError(t, err)
			require.Empty(t, listed)
			old.Cur, old.High = old.Prev, 1
			_, err = b.Outbox.SaveAndRead(t.Context(), old, store.Limit{Messages: 1, Bytes: 1})
			require.ErrorIs(t, err, store.ErrLeaseLost)
		}},
		{"a cursor comes back as it was saved", func(t *testing.T, b bench) {
			cursor := b.lease(one, time.Minute).Buckets[3].Cursor
			cursor.Cur, cursor.Last, cursor.High, cursor.Mark, cursor.Ahead = cursor.Prev, 7, 9, "mark", 500
			require.NoError(t, b.Outbox.Save(t.Context(), cursor))
			require.NoError(t, b.Outbox.Leave(t.Context(), one))
			found := b.lease(two, time.Minute).Buckets[3].Cursor
			cursor.Relay, cursor.Epoch = two, 2
			require.Equal(t, cursor, found)
		}},
		{"the age of a cursor counts from when what is ahead of it was known last", func(t *testing.T, b bench) {
			cursor := b.lease(one, time.Minute).Buckets[0].Cursor
			time.Sleep(300 * time.Millisecond)
			cursor.Ahead = store.UnknownAhead
			require.NoError(t, b.Outbox.Save(t.Context(), cursor))
			require.Greater(t, b.lease(one, time.Minute).Buckets[0].SavedAgo, 200*time.Millisecond)
			cursor.Ahead = 1
			require.NoError(t, b.Outbox.Save(t.Context(), cursor))
			require.Less(t, b.lease(one, time.Minute).Buckets[0].SavedAgo, 200*time.Millisecond)
		}},
		{"a fresh relay fences its former life off", func(t *testing.T, b bench) {
			old := b.lease(one, time.Minute).Buckets[0].Cursor
			_, err := b.Outbox.Lease(t.Context(), store.LeaseRequest{Relay: one, For: time.Minute, Fresh: true})
			require.NoError(t, err)
			require.ErrorIs(t, b.Outbox.Save(t.Context(), old), store.ErrLeaseLost)
		}},
		{"idle cursors are saved with the lease", func(t *testing.T, b bench) {
			cursor := b.lease(one, time.Minute).Buckets[0].Cursor
			cursor.Mark = "idle"
			lease, err := b.Outbox.Lease(t.Context(), store.LeaseRequest{Relay: one, For: time.Minute, Idle: []store.Cursor{cursor}})
			require.NoError(t, err)
			require.Equal(t, "idle", lease.Buckets[0].Cursor.Mark)
		}},
		{"a lease shorter than a second is refused", func(t *testing.T, b bench) {
			_, err := b.Outbox.Lease(t.Context(), store.LeaseRequest{Relay: one, For: time.Millisecond})
			require.ErrorContains(t, err, "For: ")
		}},
	})
}
