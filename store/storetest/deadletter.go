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

// letterOf is the letter of a message that stood for claim.
func letterOf(claim store.Claim) store.DeadLetter {
	return store.DeadLetter{
		Consumer: claim.Consumer, ClaimID: claim.ID, Reason: "no such account", Topic: "orders", MessageID: "m-1",
		Metadata: map[string]string{"order_id": "1"}, Payload: []byte(`{}`),
	}
}

func failure(claim store.Claim, class dedup.Class) store.Failure {
	return store.Failure{Claim: claim, Class: class, MaxAttempts: 3, Letter: letterOf(claim)}
}

func failing(t *testing.T, open func(t *testing.T) Backend) {
	runFacts(t, open, []fact{
		{"transient failures are counted and the last one buries", func(t *testing.T, b bench) {
			for attempt := 1; attempt <= 3; attempt++ {
				settled, err := b.Inbox.Fail(t.Context(), failure(claimOf(t, "1"), dedup.ClassTransient))
				require.NoError(t, err)
				require.Equal(t, store.Settlement{Attempts: attempt, Buried: attempt == 3}, settled)
			}
			letters := b.letters()
			require.Len(t, letters, 1)
			require.Equal(t, dedup.ClassExhausted, letters[0].Class)
			require.Equal(t, 3, letters[0].Attempts)
			require.Equal(t, dedup.Failed, b.meet(claimOf(t, "1")).Record.Status)
		}},
		{"a permanent failure buries at once", func(t *testing.T, b bench) {
			settled, err := b.Inbox.Fail(t.Context(), failure(claimOf(t, "1"), dedup.ClassPermanent))
			require.NoError(t, err)
			require.Equal(t, store.Settlement{Attempts: 1, Buried: true}, settled)
			held := b.meet(claimOf(t, "1"))
			require.Equal(t, dedup.FailedBefore, dedup.Decide(held.Record, dedup.Fingerprint{}, held.Now))
		}},
		{"a failed message with a stable time is buried too", func(t *testing.T, b bench) {
			now, err := b.Inbox.Now(t.Context())
			require.NoError(t, err)
			claim := claimFor(t, billing, dedup.Key{Scope: dedup.Global, ID: "1", At: now.Add(-time.Hour)})
			settled, err := b.Inbox.Fail(t.Context(), failure(claim, dedup.ClassPermanent))
			require.NoError(t, err)
			require.True(t, settled.Buried)
			require.Equal(t, dedup.Failed, b.meet(claim).Record.Status)
		}},
		{"a claim that was completed meanwhile is left alone", func(t *testing.T, b bench) {
			b.finish(claimOf(t, "1"), "one")
			settled, err := b.Inbox.Fail(t.Context(), failure(claimOf(t, "1"), dedup.ClassPermanent))
			require.NoError(t, err)
			require.False(t, settled.Buried)
			require.Equal(t, dedup.Completed, settled.Held.Record.Status)
			require.Empty(t, b.letters())
		}},
		{"a claim that is in flight meanwhile is left alone", func(t *testing.T, b bench) {
			unit := b.take(claimOf(t, "1"))
			settled, err := b.Inbox.Fail(t.Context(), failure(claimOf(t, "1"), dedup.ClassPermanent))
			require.NoError(t, err)
			require.False(t, settled.Buried)
			require.Equal(t, dedup.Processing, settled.Held.Record.Status)
			require.NoError(t, unit.Commit(t.Context()))
			require.Empty(t, b.letters())
		}},
		{"what is not the message's fault is not recorded", func(t *testing.T, b bench) {
			for _, class := range []dedup.Class{dedup.ClassInfrastructure, dedup.ClassCanceled} {
				_, err := b.Inbox.Fail(t.Context(), failure(claimOf(t, "1"), class))
				require.ErrorContains(t, err, "Class")
			}
		}},
		{"errors that handlers mark keep their class", func(t *testing.T, b bench) {
			require.Equal(t, dedup.ClassPermanent, b.Inbox.Classify(dedup.Permanent(errors.New("no"))))
			require.Equal(t, dedup.ClassTransient, b.Inbox.Classify(errors.New("no")))
			require.Equal(t, dedup.ClassInfrastructure, b.Inbox.Classify(store.ErrUnavailable))
			require.Equal(t, dedup.ClassInfrastructure, b.Inbox.Classify(store.ErrUnknownOutcome))
		}},
	})
}

func deadLetters(t *testing.T, open func(t *testing.T) Backend) {
	runFacts(t, open, []fact{
		{"a letter comes back byte for byte", func(t *testing.T, b bench) {
			letter := letterOf(claimOf(t, "1"))
			letter.Class = dedup.ClassKeyReused
			letter.Topic, letter.MessageID, letter.Reason = "a\x00b", "\xff", "base64:not"
			letter.Metadata = map[string]string{"nul": "\x00", "\xfe": "bad", "quote": `"'\`, "base64:": "base64:", "": "", "ü": "€"}
			letter.Payload = []byte{0, 255, 1, 'x'}
			require.NoError(t, b.Inbox.Quarantine(t.Context(), letter))
			letters := b.letters()
			require.Len(t, letters, 1)
			got := letters[0]
			require.Equal(t, letter.ID(), got.ID)
			letter.Consumer.Retention, got.Consumer.Retention = 0, 0
			require.Equal(t, letter, got.DeadLetter)
			require.False(t, got.FirstAt.IsZero())
		}},
		{"storing a letter again only counts it", func(t *testing.T, b bench) {
			letter := letterOf(claimOf(t, "1"))
			letter.Class = dedup.ClassInvalidKey
			letter.ClaimID = dedup.ClaimID{}
			for range 3 {
				require.NoError(t, b.Inbox.Quarantine(t.Context(), letter))
				letter.Metadata = map[string]string{"redelivered": "true"}
			}
			other := letter
			other.MessageID = "m-2"
			require.NoError(t, b.Inbox.Quarantine(t.Context(), other))
			seen := make(map[string]int)
			for _, one := range b.letters() {
				seen[one.MessageID] = one.Seen
				require.True(t, one.ClaimID.IsZero())
			}
			require.Equal(t, map[string]int{"m-1": 3, "m-2": 1}, seen)
		}},
		{"quarantine takes no claim", func(t *testing.T, b bench) {
			letter := letterOf(claimOf(t, "1"))
			letter.Class = dedup.ClassKeyReused
			require.NoError(t, b.Inbox.Quarantine(t.Context(), letter))
			b.finish(claimOf(t, "1"), "one")
		}},
		{"a letter without payload and metadata is kept", func(t *testing.T, b bench) {
			require.NoError(t, b.Inbox.Quarantine(t.Context(), store.DeadLetter{Consumer: billing, Class: dedup.ClassInvalidKey}))
			require.Len(t, b.letters(), 1)
		}},
		{"a long reason is cut at a character", func(t *testing.T, b bench) {
			letter := letterOf(claimOf(t, "1"))
			letter.Class = dedup.ClassPermanent
			letter.Reason = "x" + strings.Repeat("€", store.MaxReasonBytes)
			require.NoError(t, b.Inbox.Quarantine(t.Context(), letter))
			reason := b.letters()[0].Reason
			require.LessOrEqual(t, len(reason), store.MaxReasonBytes)
			require.True(t, strings.HasSuffix(reason, "€"))
		}},
		{"the limit of a list is checked", func(t *testing.T, b bench) {
			for _, limit := range []int{-1, 0, 1001} {
				_, err := b.Letters.Letters(t.Context(), billing.Name, limit)
				require.ErrorContains(t, err, "limit")
			}
		}},
		{"a class that does not end a message's way is refused", func(t *testing.T, b bench) {
			letter := letterOf(claimOf(t, "1"))
			letter.Class = dedup.ClassTransient
			require.ErrorContains(t, b.Inbox.Quarantine(t.Context(), letter), "Class")
		}},
	})
}
