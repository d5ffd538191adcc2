package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/store"
)

// reader reads an outbox as a relay does that holds all its buckets.
type reader struct {
	b       bench
	relay   store.RelayID
	cursors []store.Cursor
	limit   store.Limit
}

func (b bench) reader() *reader {
	b.t.Helper()
	r := &reader{b: b, relay: store.RelayID{1}, limit: store.Limit{Messages: 3, Bytes: 1 << 20}}
	for _, one := range b.lease(r.relay, time.Minute).Buckets {
		r.cursors = append(r.cursors, one.Cursor)
	}
	require.Len(b.t, r.cursors, store.Buckets)
	return r
}

func (b bench) lease(relay store.RelayID, length time.Duration) store.Lease {
	b.t.Helper()
	lease, err := b.Outbox.Lease(b.t.Context(), store.LeaseRequest{Relay: relay, For: length})
	require.NoError(b.t, err)
	return lease
}

// read opens the next window of every bucket and reads it to its end.
func (r *reader) read() (all []store.Outgoing) {
	r.b.t.Helper()
	ctx := r.b.t.Context()
	beginnings := make([]string, len(r.cursors))
	for i, one := range r.cursors {
		beginnings[i] = one.Prev
	}
	opening, err := r.b.Outbox.Open(ctx, beginnings)
	require.NoError(r.b.t, err)
	for i := range r.cursors {
		cursor := r.cursors[i]
		if cursor.Prev == opening.Cur {
			continue
		}
		cursor.Cur, cursor.High, cursor.Last = opening.Cur, opening.High, opening.Starts[cursor.Prev]
		for cursor.Last < cursor.High {
			page, err := r.b.Outbox.SaveAndRead(ctx, cursor, r.limit)
			require.NoError(r.b.t, err)
			require.LessOrEqual(r.b.t, len(page.Messages), r.limit.Messages)
			for _, one := range page.Messages {
				require.Equal(r.b.t, cursor.Bucket, one.Bucket())
			}
			all = append(all, page.Messages...)
			cursor.Last = page.Through
		}
		cursor = cursor.Finish()
		require.NoError(r.b.t, r.b.Outbox.Save(ctx, cursor))
		r.cursors[i] = cursor
	}
	return all
}

func (r *reader) payloads() (all []string) {
	r.b.t.Helper()
	for _, one := range r.read() {
		all = append(all, string(one.Payload))
	}
	return all
}

func windows(t *testing.T, open func(t *testing.T) Backend) {
	runFacts(t, open, []fact{
		{"a unit that commits late is in a later window, although its messages are older", func(t *testing.T, b bench) {
			reader := b.reader()
			late := b.take(claimOf(t, "late"))
			b.send(late, note("a", "late"))
			for i := range 5 {
				b.commit(fmt.Sprint(i), note("b", fmt.Sprint(i)))
				require.Equal(t, []string{fmt.Sprint(i)}, reader.payloads())
			}
			require.NoError(t, late.Commit(t.Context()))
			require.Equal(t, []string{"late"}, reader.payloads())
		}},
		{"an open unit keeps nobody else's messages back", func(t *testing.T, b bench) {
			reader := b.reader()
			unit := b.take(claimOf(t, "open"))
			b.write(unit, "something")
			b.commit("1", note("a", "1"))
			require.Equal(t, []string{"1"}, reader.payloads())
			require.NoError(t, unit.Rollback(t.Context()))
		}},
		{"a page is full at its bytes, and one message always fits", func(t *testing.T, b bench) {
			reader := b.reader()
			reader.limit = store.Limit{Messages: 100, Bytes: 1}
			b.commit("1", note("a", "long"), note("a", "longer"))
			require.Equal(t, []string{"long", "longer"}, reader.payloads())
		}},
		{"each message is in exactly one window, whatever happens meanwhile", interleaved},
		{"what is passed is tidied away, and nothing else", func(t *testing.T, b bench) {
			reader := b.reader()
			b.commit("1", note("a", "1"))
			_, err := b.Outbox.Tidy(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{"1"}, reader.payloads())
			_, err = b.Outbox.Tidy(t.Context())
			require.NoError(t, err)
			b.commit("2", note("a", "2"))
			require.Equal(t, []string{"2"}, reader.payloads())
		}},
	})
}

// interleaved opens units, appends to them, ends them and reads, in a random order.
func interleaved(t *testing.T, b bench) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	reader := b.reader()
	type open struct {
		unit store.Unit
		sent []string
	}
	var units []open
	var committed, read []string
	for i := range 150 {
		switch random.IntN(4) {
		case 0:
			if len(units) < 6 {
				units = append(units, open{unit: b.take(claimOf(t, fmt.Sprint("unit-", i)))})
			}
		case 1:
			if len(units) > 0 {
				one := &units[random.IntN(len(units))]
				payload := fmt.Sprint(i)
				b.send(one.unit, note(fmt.Sprint("key-", random.IntN(5)), payload))
				one.sent = append(one.sent, payload)
			}
		case 2:
			if len(units) > 0 {
				at := random.IntN(len(units))
				one := units[at]
				units = append(units[:at], units[at+1:]...)
				if random.IntN(3) == 0 {
					require.NoError(t, one.unit.Rollback(t.Context()))
				} else {
					require.NoError(t, one.unit.Commit(t.Context()))
					committed = append(committed, one.sent...)
				}
			}
		case 3:
			read = append(read, reader.payloads()...)
			require.ElementsMatch(t, committed, read)
			_, err := b.Outbox.Tidy(t.Context())
			require.NoError(t, err)
		}
	}
	for _, one := range units {
		require.NoError(t, one.unit.Commit(t.Context()))
		committed = append(committed, one.sent...)
	}
	require.ElementsMatch(t, committed, append(read, reader.payloads()...))
}
