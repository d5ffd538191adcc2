package storetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

// note is a message with a payload.
func note(key, payload string) store.Message {
	return store.Message{Topic: "notes", Key: key, Payload: []byte(payload)}
}

// send appends in the unit.
func (b bench) send(unit store.Unit, messages ...store.Message) {
	b.t.Helper()
	require.NoError(b.t, b.Outbox.Append(unit.Context(b.t.Context()), messages...))
}

// commit appends in a unit of its own and commits it.
func (b bench) commit(key string, messages ...store.Message) {
	b.t.Helper()
	unit := b.take(claimOf(b.t, key))
	b.send(unit, messages...)
	require.NoError(b.t, unit.Commit(b.t.Context()))
}

func appending(t *testing.T, open func(t *testing.T) Backend) {
	runFacts(t, open, []fact{
		{"messages of a unit come out when it commits, and not before", func(t *testing.T, b bench) {
			reader := b.reader()
			unit := b.take(claimOf(t, "1"))
			b.send(unit, note("a", "1"), note("a", "2"))
			require.Empty(t, reader.payloads())
			require.NoError(t, unit.Commit(t.Context()))
			require.Equal(t, []string{"1", "2"}, reader.payloads())
			require.Empty(t, reader.payloads(), "they come out once")
		}},
		{"a rolled back unit leaves no message", func(t *testing.T, b bench) {
			reader := b.reader()
			unit := b.take(claimOf(t, "1"))
			b.send(unit, note("a", "1"))
			require.NoError(t, unit.Rollback(t.Context()))
			require.Empty(t, reader.payloads())
		}},
		{"an aborted unit leaves no message", func(t *testing.T, b bench) {
			reader := b.reader()
			unit := b.take(claimOf(t, "1"))
			b.send(unit, note("a", "1"))
			require.NoError(t, b.Abort(unit.Context(t.Context())))
			require.ErrorIs(t, unit.Commit(t.Context()), store.ErrAborted)
			require.Empty(t, reader.payloads())
		}},
		{"outside a unit, and after it, nothing can be appended", func(t *testing.T, b bench) {
			require.ErrorIs(t, b.Outbox.Append(t.Context(), note("a", "1")), store.ErrNoTx)
			unit := b.take(claimOf(t, "1"))
			ctx := unit.Context(t.Context())
			require.NoError(t, unit.Commit(t.Context()))
			require.ErrorIs(t, b.Outbox.Append(ctx, note("a", "1")), store.ErrTxClosed)
		}},
		{"ids are the same on every run of an intent", func(t *testing.T, b bench) {
			reader := b.reader()
			unit := b.take(claimOf(t, "1"))
			b.send(unit, note("a", "1"))
			require.NoError(t, unit.Rollback(t.Context()))
			b.commit("1", note("a", "1"), note("a", "2"))
			read := reader.read()
			claim := claimOf(t, "1").ID
			require.Equal(t, dedup.NewMessageID(claim, 0), read[0].ID)
			require.Equal(t, dedup.NewMessageID(claim, 1), read[1].ID)
		}},
		{"one id and topic is stored once in a unit, with another topic it gets an id of its own", func(t *testing.T, b bench) {
			reader := b.reader()
			one := store.Message{ID: "mine", Topic: "first", Key: "a"}
			other := one
			other.Topic = "second"
			unit := b.take(claimOf(t, "1"))
			b.send(unit, one, other)
			if !b.Repeats {
				b.send(unit, one, other)
			}
			require.NoError(t, unit.Commit(t.Context()))
			read := reader.read()
			require.Len(t, read, 2)
			require.Equal(t, "mine", read[0].ID)
			require.Equal(t, dedup.CopyMessageID("mine", "second"), read[1].ID)
		}},
		{"a message comes out as it was, byte for byte", func(t *testing.T, b bench) {
			reader := b.reader()
			sent := store.Message{
				ID: "id", Topic: "topic", Key: "key \u00e4", Payload: []byte("\x00\xff{}"),
				Headers: map[string]string{"base64": "base64:x", "é": `"quoted" \u0000`, "empty": ""},
			}
			b.commit("1", sent, store.Message{Topic: "bare"})
			read := reader.read()
			byTopic := map[string]store.Outgoing{read[0].Topic: read[0], read[1].Topic: read[1]}
			require.Equal(t, sent, byTopic["topic"].Message)
			require.Empty(t, byTopic["bare"].Payload)
			require.Empty(t, byTopic["bare"].Headers)
		}},
		{"a message that can't be sent is refused with its fields, and none is stored", func(t *testing.T, b bench) {
			reader := b.reader()
			unit := b.take(claimOf(t, "1"))
			ctx := unit.Context(t.Context())
			for field, bad := range map[string]store.Message{
				"Topic":   {Payload: []byte("secret")},
				"Key":     {Topic: "t", Key: strings.Repeat("x", 256)},
				"ID":      {Topic: "t", ID: "sec\x00ret"},
				"Headers": {Topic: "t", Headers: map[string]string{"a": "secret\r\nb: c"}},
				"Payload": {Topic: "t", Payload: make([]byte, 1_000_001)},
				"Delay":   {Topic: "t", Delay: -1},
				"LockKey": {Topic: "t", LockKey: true},
			} {
				err := b.Outbox.Append(ctx, note("a", "good"), bad)
				require.ErrorIs(t, err, store.ErrMessage)
				require.ErrorContains(t, err, field)
				require.NotContains(t, err.Error(), "secret")
			}
			require.NoError(t, unit.Commit(t.Context()))
			require.Empty(t, reader.payloads())
		}},
		{"a delayed message comes out when its time has come", func(t *testing.T, b bench) {
			reader := b.reader()
			late := note("a", "late")
			late.Delay = 200 * time.Millisecond
			b.commit("1", late, note("a", "now"))
			require.Equal(t, []string{"now"}, reader.payloads())
			moved, err := b.Outbox.MoveDue(t.Context(), 10)
			require.NoError(t, err)
			require.Zero(t, moved)
			require.Eventually(t, func() bool {
				opening, err := b.Outbox.Open(t.Context(), nil)
				return err == nil && opening.Due
			}, 10*time.Second, 10*time.Millisecond)
			moved, err = b.Outbox.MoveDue(t.Context(), 10)
			require.NoError(t, err)
			require.Equal(t, 1, moved)
			require.Equal(t, []string{"late"}, reader.payloads())
		}},
		{"units that lock a key commit one after another", lockKeys},
		{"a commit with messages rings, one without does not", func(t *testing.T, b bench) {
			rung, stop := b.Outbox.Appended()
			defer stop()
			b.commit("1")
			select {
			case <-rung:
				t.Fatal("rung for nothing")
			default:
			}
			b.commit("2", note("a", "1"))
			select {
			case <-rung:
			case <-time.After(10 * time.Second):
				t.Fatal("not rung")
			}
		}},
	})
}

// lockKeys appends under one key in many units at once, which must not deadlock or fail.
func lockKeys(t *testing.T, b bench) {
	reader := b.reader()
	failures := make(chan error, 16)
	for i := range 16 {
		go func() {
			unit, held, err := b.Inbox.Begin(t.Context(), claimOf(t, string(rune('a'+i))))
			if err == nil && held != nil {
				err = errors.New("held")
			}
			if err == nil {
				one, two := note("x", "1"), note("y", "2")
				one.LockKey, two.LockKey = true, true
				if i%2 == 0 {
					one, two = two, one
				}
				err = errors.Join(b.Outbox.Append(unit.Context(t.Context()), one, two), unit.Commit(t.Context()))
			}
			failures <- err
		}()
	}
	for range 16 {
		require.NoError(t, <-failures)
	}
	require.Len(t, reader.payloads(), 32)
}
