package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

func claiming(t *testing.T, open func(t *testing.T) Backend) {
	runFacts(t, open, []fact{
		{"a claim and its write are seen together after commit", func(t *testing.T, b bench) {
			unit := b.take(claimOf(t, "1"))
			b.write(unit, "one")
			b.written()
			require.NoError(t, unit.Commit(t.Context()))
			b.written("one")
			require.Equal(t, dedup.Completed, b.meet(claimOf(t, "1")).Record.Status)
		}},
		{"a rolled back unit leaves neither claim nor write", func(t *testing.T, b bench) {
			unit := b.take(claimOf(t, "1"))
			b.write(unit, "one")
			require.NoError(t, unit.Rollback(t.Context()))
			b.written()
			b.finish(claimOf(t, "1"), "two")
			b.written("two")
		}},
		{"of many concurrent claims exactly one is taken", oneOfMany},
		{"a claim in an open unit is in flight at once", func(t *testing.T, b bench) {
			unit := b.take(claimOf(t, "1"))
			held := b.meet(claimOf(t, "1"))
			require.Equal(t, dedup.Busy, dedup.Decide(held.Record, dedup.Fingerprint{}, held.Now))
			require.NoError(t, unit.Commit(t.Context()))
		}},
		{"a claim that waits gets it when the owner rolls back", func(t *testing.T, b bench) {
			unit := b.take(claimOf(t, "1"))
			waiting := claimOf(t, "1")
			waiting.Wait = time.Minute
			var waited sync.WaitGroup
			waited.Go(func() {
				unit, held, err := b.Inbox.Begin(t.Context(), waiting)
				if err == nil && held == nil {
					err = unit.Commit(t.Context())
				}
				if err != nil || held != nil {
					t.Errorf("waiting claim: held %v, error %v", held, err)
				}
			})
			require.NoError(t, unit.Rollback(t.Context()))
			waited.Wait()
		}},
		{"a claim that waits finds the record when the owner commits", func(t *testing.T, b bench) {
			unit := b.take(claimOf(t, "1"))
			waiting := claimOf(t, "1")
			waiting.Wait = time.Minute
			var waited sync.WaitGroup
			waited.Go(func() {
				_, held, err := b.Inbox.Begin(t.Context(), waiting)
				if err != nil || held == nil || held.Record.Status != dedup.Completed {
					t.Errorf("waiting claim: held %v, error %v", held, err)
				}
			})
			require.NoError(t, unit.Commit(t.Context()))
			waited.Wait()
		}},
		{"a claim that waited in vain is in flight", func(t *testing.T, b bench) {
			unit := b.take(claimOf(t, "1"))
			waiting := claimOf(t, "1")
			waiting.Wait = 10 * time.Millisecond
			require.Equal(t, dedup.Processing, b.meet(waiting).Record.Status)
			require.Equal(t, dedup.Processing, b.meet(claimOf(t, "1")).Record.Status)
			require.NoError(t, unit.Commit(t.Context()))
		}},
		{"a claim that does not wait answers at once beside one that waited for it", func(t *testing.T, b bench) {
			owner := claimOf(t, "1")
			owner.Wait = time.Minute
			unit := b.take(owner)
			require.Equal(t, dedup.Processing, b.meet(claimOf(t, "1")).Record.Status)
			require.NoError(t, unit.Commit(t.Context()))
		}},
		{"a held claim comes with its fingerprint and the store's time", func(t *testing.T, b bench) {
			claim := claimOf(t, "1")
			fingerprint, err := dedup.FingerprintFrom(append([]byte{1}, make([]byte, 32)...))
			require.NoError(t, err)
			claim.Fingerprint = fingerprint
			b.finish(claim, "one")
			held := b.meet(claimOf(t, "1"))
			require.True(t, held.Record.Fingerprint.Equal(fingerprint))
			require.False(t, held.Now.IsZero())
			require.False(t, held.Record.CompletedAt.After(held.Now))
		}},
		{"claims of other consumers are apart", func(t *testing.T, b bench) {
			b.finish(claimOf(t, "1"), "billing")
			other := store.Consumer{Name: "shipping", Retention: time.Hour}
			b.finish(claimFor(t, other, dedup.Key{Scope: dedup.Global, ID: "1"}), "shipping")
			b.written("billing", "shipping")
		}},
		{"a shadow claim blocks nothing and is no real claim", func(t *testing.T, b bench) {
			shadow := claimFor(t, store.Consumer{Name: "billing", Retention: time.Hour, Shadow: true}, dedup.Key{Scope: dedup.Global, ID: "1"})
			b.finish(shadow, "first")
			unit, held, err := b.Inbox.Begin(t.Context(), shadow)
			require.NoError(t, err)
			require.Equal(t, dedup.Completed, held.Record.Status)
			b.write(unit, "second")
			require.NoError(t, unit.Commit(t.Context()))
			b.finish(claimOf(t, "1"), "real")
			b.written("first", "second", "real")
		}},
		{"a shadow claim in flight blocks nothing", func(t *testing.T, b bench) {
			shadow := claimFor(t, store.Consumer{Name: "billing", Retention: time.Hour, Shadow: true}, dedup.Key{Scope: dedup.Global, ID: "1"})
			first := b.take(shadow)
			unit, held, err := b.Inbox.Begin(t.Context(), shadow)
			require.NoError(t, err)
			require.Equal(t, dedup.Processing, held.Record.Status)
			b.write(unit, "second")
			require.NoError(t, unit.Commit(t.Context()))
			require.NoError(t, first.Commit(t.Context()))
			b.written("second")
		}},
		{"a claim without an id or a consumer is refused", func(t *testing.T, b bench) {
			_, _, err := b.Inbox.Begin(t.Context(), store.Claim{Consumer: billing})
			require.ErrorContains(t, err, "ID")
			nameless := claimOf(t, "1")
			nameless.Consumer.Name = ""
			_, _, err = b.Inbox.Begin(t.Context(), nameless)
			require.ErrorContains(t, err, "Name")
		}},
	})
}

func oneOfMany(t *testing.T, b bench) {
	const claimants, keys = 50, 4
	claims := make([]store.Claim, keys)
	for i := range claims {
		claims[i] = claimOf(t, string(rune('a'+i)))
	}
	var taken [keys]atomic.Int64
	var team sync.WaitGroup
	for range claimants {
		team.Go(func() {
			for i, claim := range claims {
				for { // a claim in flight is asked for again, as a broker delivers again
					unit, held, err := b.Inbox.Begin(t.Context(), claim)
					if err != nil {
						t.Errorf("begin: %v", err)
						return
					}
					if held != nil && held.Record.Status == dedup.Completed {
						break
					}
					if held != nil {
						continue
					}
					taken[i].Add(1)
					if err := b.Write(unit.Context(context.WithoutCancel(t.Context())), claim.ID.String()); err != nil {
						t.Errorf("write: %v", err)
					}
					if err := unit.Commit(t.Context()); err != nil {
						t.Errorf("commit: %v", err)
					}
					break
				}
			}
		})
	}
	team.Wait()
	var written []string
	for i := range claims {
		require.EqualValues(t, 1, taken[i].Load())
		written = append(written, claims[i].ID.String())
	}
	b.written(written...)
}
