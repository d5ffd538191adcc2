package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/store"
)

// park parks messages in their order, as failed once and due at once, and returns the cursor
// of their bucket, which all of them must have in common.
func (b bench) park(messages ...store.Parked) store.Cursor {
	b.t.Helper()
	leased := b.lease(store.RelayID{1}, time.Minute).Buckets
	cursor := leased[messages[0].Bucket()].Cursor
	require.NoError(b.t, b.Outbox.Park(b.t.Context(), cursor, messages))
	return cursor
}

func failed(number int64, key, payload string) store.Parked {
	one := note(key, payload)
	one.ID = payload
	return store.Parked{Outgoing: store.Outgoing{Message: one, Number: number}, Attempts: 1, Error: "no"}
}

func (b bench) heldUp(bucket int) store.Holdup {
	b.t.Helper()
	held, err := b.Outbox.Parked(b.t.Context(), bucket, 10)
	require.NoError(b.t, err)
	return held
}

func due(held store.Holdup) (payloads []string) {
	for _, one := range held.Due {
		payloads = append(payloads, string(one.Payload))
	}
	return payloads
}

func parking(t *testing.T, open func(t *testing.T) Backend) {
	runFacts(t, open, []fact{
		{"of each key the first message is due, and then the next", func(t *testing.T, b bench) {
			cursor := b.park(failed(1, "a", "a1"), failed(2, "a", "a2"))
			held := b.heldUp(cursor.Bucket)
			require.Equal(t, []string{"a"}, held.Keys)
			require.Equal(t, []string{"a1"}, due(held))
			require.Equal(t, 1, held.Due[0].Attempts)
			require.NoError(t, b.Outbox.Settle(t.Context(), cursor, []store.Outcome{{Number: 1, Published: true}}))
			require.Equal(t, []string{"a2"}, due(b.heldUp(cursor.Bucket)))
			require.NoError(t, b.Outbox.Settle(t.Context(), cursor, []store.Outcome{{Number: 2, Published: true}}))
			require.Empty(t, b.heldUp(cursor.Bucket).Keys)
		}},
		{"messages without a key are due each for itself", func(t *testing.T, b bench) {
			one := failed(1, "", "same bucket")
			two := failed(2, "", "same bucket")
			require.ElementsMatch(t, []string{"same bucket", "same bucket"}, due(b.heldUp(b.park(one, two).Bucket)))
		}},
		{"a message that failed again waits", func(t *testing.T, b bench) {
			cursor := b.park(failed(1, "a", "a1"))
			again := store.Outcome{Number: 1, Attempts: 2, Wait: time.Hour, Error: "again"}
			require.NoError(t, b.Outbox.Settle(t.Context(), cursor, []store.Outcome{again}))
			held := b.heldUp(cursor.Bucket)
			require.Empty(t, held.Due)
			require.Greater(t, held.Next, 59*time.Minute)
			listed, err := b.Operator.ListParked(t.Context(), 0, 10, false)
			require.NoError(t, err)
			require.Equal(t, 2, listed[0].Attempts)
			require.Equal(t, "again", listed[0].Error)
		}},
		{"a dead message holds its key up until it is released", func(t *testing.T, b bench) {
			cursor := b.park(failed(1, "a", "a1"), failed(2, "a", "a2"))
			dead := store.Outcome{Number: 1, Attempts: 2, Dead: true}
			require.NoError(t, b.Outbox.Settle(t.Context(), cursor, []store.Outcome{dead}))
			held := b.heldUp(cursor.Bucket)
			require.Empty(t, held.Due)
			require.Equal(t, []string{"a"}, held.Keys)
			dead.Released = true
			require.NoError(t, b.Outbox.Settle(t.Context(), cursor, []store.Outcome{dead}))
			require.Equal(t, []string{"a2"}, due(b.heldUp(cursor.Bucket)))
		}},
		{"parking again changes nothing", func(t *testing.T, b bench) {
			b.park(failed(1, "a", "a1"))
			cursor := b.park(failed(1, "a", "other"))
			require.Equal(t, []string{"a1"}, due(b.heldUp(cursor.Bucket)))
		}},
	})
}

func operators(t *testing.T, open func(t *testing.T) Backend) {
	order := store.Order{Number: 1, Who: "ann", Why: "ticket 7"}
	kill := func(b bench) store.Cursor {
		cursor := b.park(failed(1, "a", "a1"), failed(2, "a", "a2"))
		require.NoError(b.t, b.Outbox.Settle(b.t.Context(), cursor, []store.Outcome{{Number: 1, Attempts: 5, Dead: true}}))
		return cursor
	}
	runFacts(t, open, []fact{
		{"a dead message that is retried is due with its attempts forgotten", func(t *testing.T, b bench) {
			cursor := kill(b)
			require.NoError(t, b.Operator.RetryParked(t.Context(), order))
			held := b.heldUp(cursor.Bucket)
			require.Equal(t, []string{"a1"}, due(held))
			require.Zero(t, held.Due[0].Attempts)
		}},
		{"a dead message that is skipped stays, and its key goes on", func(t *testing.T, b bench) {
			cursor := kill(b)
			require.NoError(t, b.Operator.SkipParked(t.Context(), order))
			require.Equal(t, []string{"a2"}, due(b.heldUp(cursor.Bucket)))
			listed, err := b.Operator.ListParked(t.Context(), 0, 10, true)
			require.NoError(t, err)
			require.Len(t, listed, 1)
			require.True(t, listed[0].Released)
			require.ErrorIs(t, b.Operator.SkipParked(t.Context(), order), store.ErrNotParked, "it is skipped already")
		}},
		{"a message that is dropped is gone, and its key goes on", func(t *testing.T, b bench) {
			cursor := kill(b)
			require.NoError(t, b.Operator.DropParked(t.Context(), order))
			require.Equal(t, []string{"a2"}, due(b.heldUp(cursor.Bucket)))
			require.ErrorIs(t, b.Operator.DropParked(t.Context(), order), store.ErrNotParked)
		}},
		{"headers are set and removed", func(t *testing.T, b bench) {
			one := failed(1, "a", "a1")
			one.Headers = map[string]string{"keep": "1", "change": "1", "remove": "1"}
			cursor := b.park(one)
			require.NoError(t, b.Operator.EditHeaders(t.Context(), order, map[string]string{"change": "2", "add": "2"}, []string{"remove"}))
			require.Equal(t, map[string]string{"keep": "1", "change": "2", "add": "2"}, b.heldUp(cursor.Bucket).Due[0].Headers)
		}},
		{"every change is recorded with who and why, and refused without", func(t *testing.T, b bench) {
			kill(b)
			for _, bad := range []store.Order{{Number: 1, Why: "x"}, {Number: 1, Who: "x"}} {
				require.Error(t, b.Operator.RetryParked(t.Context(), bad))
			}
			require.NoError(t, b.Operator.SkipParked(t.Context(), order))
			require.NoError(t, b.Operator.EditHeaders(t.Context(), order, map[string]string{"h": "secret"}, nil))
			require.NoError(t, b.Operator.DropParked(t.Context(), order))
			entries, err := b.Operator.Audit(t.Context(), 10)
			require.NoError(t, err)
			require.Len(t, entries, 3)
			for i, verb := range []string{"drop", "edit headers", "skip"} {
				require.Equal(t, verb, entries[i].Verb)
				require.Equal(t, "ann", entries[i].Who)
				require.Equal(t, "ticket 7", entries[i].Why)
				require.Equal(t, "a1", entries[i].MessageID)
			}
			require.Equal(t, "h", entries[1].Detail)
		}},
		{"the state tells buckets, messages and relays", func(t *testing.T, b bench) {
			kill(b)
			b.commit("1", note("a", "waits"))
			state, err := b.Operator.State(t.Context())
			require.NoError(t, err)
			require.Len(t, state.Buckets, store.Buckets)
			require.EqualValues(t, 1, state.Dead)
			require.EqualValues(t, 1, state.Parked)
			require.Equal(t, 1, state.Relays)
			for _, one := range state.Buckets {
				require.True(t, one.Owned)
				require.Equal(t, one.Bucket == note("a", "").Bucket(), one.Oldest > 0, "bucket %d", one.Bucket)
			}
		}},
	})
}
