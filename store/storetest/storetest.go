// Package storetest is the contract of package store as tests. Every backend runs it:
//
//	func TestContract(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Backend { … })
//	}
//
// Each sentence of the contract is a subtest. [Histories] compares random histories with a
// model, first one operation after another, then many at once.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

// Backend is a store under test, empty and for one test alone.
type Backend struct {
	// Inbox and Letters are the store.
	Inbox   store.Inbox
	Letters store.DeadLetters
	// Repeats says that the store can't see savepoints, and so stores what comes again.
	Repeats bool
	// Outbox and Operator are the store too.
	Outbox   store.Outbox
	Operator store.Operator
	// Write makes a business write in the transaction that ctx carries.
	Write func(ctx context.Context, value string) error
	// Read returns all committed business writes, in any order.
	Read func(ctx context.Context) ([]string, error)
	// Abort makes the transaction in ctx unable to commit and returns no error.
	Abort func(ctx context.Context) error
}

// Run checks the backend that open makes against the contract.
func Run(t *testing.T, open func(t *testing.T) Backend) {
	t.Run("Claiming", func(t *testing.T) { t.Parallel(); claiming(t, open) })
	t.Run("StableTime", func(t *testing.T) { t.Parallel(); stableTime(t, open) })
	t.Run("Committing", func(t *testing.T) { t.Parallel(); committing(t, open) })
	t.Run("Failing", func(t *testing.T) { t.Parallel(); failing(t, open) })
	t.Run("DeadLetters", func(t *testing.T) { t.Parallel(); deadLetters(t, open) })
	t.Run("Appending", func(t *testing.T) { t.Parallel(); appending(t, open) })
	t.Run("Windows", func(t *testing.T) { t.Parallel(); windows(t, open) })
	t.Run("Leases", func(t *testing.T) { t.Parallel(); leases(t, open) })
	t.Run("Parking", func(t *testing.T) { t.Parallel(); parking(t, open) })
	t.Run("Operators", func(t *testing.T) { t.Parallel(); operators(t, open) })
	t.Run("Histories", func(t *testing.T) { t.Parallel(); Histories(t, open) })
}

// fact is one sentence of the contract.
type fact struct {
	name  string
	check func(t *testing.T, b bench)
}

func runFacts(t *testing.T, open func(t *testing.T) Backend, facts []fact) {
	for _, one := range facts {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			one.check(t, bench{Backend: open(t), t: t})
		})
	}
}

// billing is the consumer of most tests.
var billing = store.Consumer{Name: "billing", Retention: 24 * time.Hour}

// claimOf is billing's claim on a key.
func claimOf(t testing.TB, id string) store.Claim {
	return claimFor(t, billing, dedup.Key{Scope: dedup.Global, ID: id})
}

func claimFor(t testing.TB, consumer store.Consumer, key dedup.Key) store.Claim {
	t.Helper()
	identify := dedup.NewClaimID
	if consumer.Shadow {
		identify = dedup.NewShadowClaimID
	}
	id, err := identify(consumer.Name, key)
	require.NoError(t, err)
	return store.Claim{ID: id, Consumer: consumer, At: key.At}
}

// bench is a backend with the steps that tests repeat.
type bench struct {
	Backend
	t *testing.T
}

// take claims and expects to get it.
func (b bench) take(claim store.Claim) store.Unit {
	b.t.Helper()
	unit, held, err := b.Inbox.Begin(b.t.Context(), claim)
	require.NoError(b.t, err)
	require.Nil(b.t, held)
	require.NotNil(b.t, unit)
	return unit
}

// meet claims and expects to find the claim held.
func (b bench) meet(claim store.Claim) *store.Held {
	b.t.Helper()
	unit, held, err := b.Inbox.Begin(b.t.Context(), claim)
	require.NoError(b.t, err)
	require.NotNil(b.t, held)
	require.Nil(b.t, unit, "a unit stays open behind a held claim")
	return held
}

// finish claims, writes value and commits.
func (b bench) finish(claim store.Claim, value string) {
	b.t.Helper()
	unit := b.take(claim)
	b.write(unit, value)
	require.NoError(b.t, unit.Commit(b.t.Context()))
}

func (b bench) write(unit store.Unit, value string) {
	b.t.Helper()
	require.NoError(b.t, b.Write(unit.Context(b.t.Context()), value))
}

func (b bench) written(values ...string) {
	b.t.Helper()
	got, err := b.Read(b.t.Context())
	require.NoError(b.t, err)
	require.ElementsMatch(b.t, values, got)
}

func (b bench) letters() []store.StoredLetter {
	b.t.Helper()
	letters, err := b.Letters.Letters(b.t.Context(), billing.Name, 100)
	require.NoError(b.t, err)
	return letters
}
