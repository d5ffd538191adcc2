package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

const day = 24 * time.Hour

func stableTime(t *testing.T, open func(t *testing.T) Backend) {
	runFacts(t, open, []fact{
		{"an intent is claimed once whatever its age", func(t *testing.T, b bench) {
			now, err := b.Inbox.Now(t.Context())
			require.NoError(t, err)
			for _, age := range []time.Duration{
				-23 * time.Hour, -time.Second, 0, time.Hour, day, 30 * day, 31*day - time.Minute, 31*day + time.Minute,
				62*day - time.Minute, 62*day + time.Minute, 64 * day, 65 * day, 20 * 365 * day,
			} {
				claim := claimFor(t, billing, dedup.Key{Scope: dedup.Global, ID: "1", At: now.Add(-age)})
				b.finish(claim, age.String())
				require.Equal(t, dedup.Completed, b.meet(claim).Record.Status, "age %v", age)
			}
		}},
		{"intents with the same key and another time are two", func(t *testing.T, b bench) {
			now, err := b.Inbox.Now(t.Context())
			require.NoError(t, err)
			b.finish(claimFor(t, billing, dedup.Key{Scope: dedup.Global, ID: "1", At: now}), "one")
			b.finish(claimFor(t, billing, dedup.Key{Scope: dedup.Global, ID: "1", At: now.Add(-time.Second)}), "two")
			b.written("one", "two")
		}},
		{"a time of more than a day ahead is refused", func(t *testing.T, b bench) {
			now, err := b.Inbox.Now(t.Context())
			require.NoError(t, err)
			claim := claimFor(t, billing, dedup.Key{Scope: dedup.Global, ID: "1", At: now.Add(25 * time.Hour)})
			unit, held, err := b.Inbox.Begin(t.Context(), claim)
			require.ErrorIs(t, err, store.ErrFutureTime)
			require.NotErrorIs(t, err, store.ErrUnavailable, "it is the sender's fault")
			require.Nil(t, unit)
			require.Nil(t, held)
		}},
		{"a claim with a stable time is in flight like any other", func(t *testing.T, b bench) {
			now, err := b.Inbox.Now(t.Context())
			require.NoError(t, err)
			for _, wait := range []time.Duration{0, 10 * time.Millisecond} {
				claim := claimFor(t, billing, dedup.Key{Scope: dedup.Global, ID: wait.String(), At: now})
				unit := b.take(claim)
				second := claim
				second.Wait = wait
				require.Equal(t, dedup.Processing, b.meet(second).Record.Status)
				require.NoError(t, unit.Commit(t.Context()))
				require.Equal(t, dedup.Completed, b.meet(second).Record.Status)
			}
		}},
	})
}
