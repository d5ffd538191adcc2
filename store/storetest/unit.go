package storetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/store"
)

func committing(t *testing.T, open func(t *testing.T) Backend) {
	runFacts(t, open, []fact{
		{"an aborted transaction is never a success", func(t *testing.T, b bench) {
			unit := b.take(claimOf(t, "1"))
			b.write(unit, "one")
			require.NoError(t, b.Abort(unit.Context(t.Context())))
			require.ErrorIs(t, unit.Commit(t.Context()), store.ErrAborted)
			b.written()
			b.finish(claimOf(t, "1"), "again")
			b.written("again")
		}},
		{"the transaction is closed after commit", func(t *testing.T, b bench) {
			unit := b.take(claimOf(t, "1"))
			ctx := unit.Context(t.Context())
			require.NoError(t, unit.Commit(t.Context()))
			require.Error(t, b.Write(ctx, "late"))
			require.Error(t, unit.Commit(t.Context()), "a second commit is an error")
			require.NoError(t, unit.Rollback(t.Context()), "a rollback after it does nothing")
			b.written()
		}},
		{"the transaction is closed after rollback", func(t *testing.T, b bench) {
			unit := b.take(claimOf(t, "1"))
			ctx := unit.Context(t.Context())
			require.NoError(t, unit.Rollback(t.Context()))
			require.Error(t, b.Write(ctx, "late"))
			require.Error(t, unit.Commit(t.Context()))
			b.written()
		}},
		{"commit runs to its end when the caller's context is cancelled", func(t *testing.T, b bench) {
			unit := b.take(claimOf(t, "1"))
			b.write(unit, "one")
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.NoError(t, unit.Commit(ctx))
			b.written("one")
		}},
		{"rollback runs to its end when the caller's context is cancelled", func(t *testing.T, b bench) {
			unit := b.take(claimOf(t, "1"))
			b.write(unit, "one")
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.NoError(t, unit.Rollback(ctx))
			b.finish(claimOf(t, "1"), "two")
			b.written("two")
		}},
		{"a write outside a unit is refused", func(t *testing.T, b bench) {
			require.ErrorIs(t, b.Write(t.Context(), "stray"), store.ErrNoTx)
		}},
	})
}
