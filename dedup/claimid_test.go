package dedup_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
)

// Golden vectors are never edited: a claim id that changes makes every message new.
func TestClaimID_GoldenVectors(t *testing.T) {
	t.Parallel()
	var vectors []struct {
		Consumer, Scope, Key string
		At                   time.Time
		Shadow               bool
		ID                   string
	}
	golden(t, "testdata/claim_ids.json", &vectors)
	require.NotEmpty(t, vectors)
	for _, vector := range vectors {
		name := dedup.NewClaimID
		if vector.Shadow {
			name = dedup.NewShadowClaimID
		}
		id, err := name(vector.Consumer, dedup.Key{Scope: vector.Scope, ID: vector.Key, At: vector.At})
		require.NoError(t, err)
		require.Equal(t, vector.ID, id.String(), "%+v", vector)
		parsed, err := dedup.ParseClaimID(vector.ID)
		require.NoError(t, err)
		require.Equal(t, id, parsed)
	}
}

func golden(t *testing.T, file string, into any) {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, into))
}

func claimID(t *testing.T, consumer, scope, id string) dedup.ClaimID {
	t.Helper()
	claim, err := dedup.NewClaimID(consumer, dedup.Key{Scope: scope, ID: id})
	require.NoError(t, err)
	return claim
}

func TestClaimID_PartsAreNotJoined(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, claimID(t, "a", "bc", "d"), claimID(t, "ab", "c", "d"))
	require.NotEqual(t, claimID(t, "a", "b", "cd"), claimID(t, "a", "bc", "d"))
	require.NotEqual(t, claimID(t, "a", "b|c", "d"), claimID(t, "a|b", "c", "d"))
}

func TestClaimID_ConsumersAndShadowsAreApart(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, claimID(t, "billing", "*", "1"), claimID(t, "shipping", "*", "1"))
	shadow, err := dedup.NewShadowClaimID("billing", dedup.Key{Scope: "*", ID: "1"})
	require.NoError(t, err)
	require.NotEqual(t, claimID(t, "billing", "*", "1"), shadow)
	_, err = dedup.NewClaimID("", dedup.Key{Scope: "*", ID: "1"})
	require.ErrorContains(t, err, "Consumer: is empty")
}

func TestClaimID_StableTimeGivesTimeOrder(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 1, 12, 0, 0, 123_456_789, time.FixedZone("", 3600))
	early, err := dedup.NewClaimID("billing", dedup.Key{Scope: "*", ID: "z", At: at})
	require.NoError(t, err)
	late, err := dedup.NewClaimID("billing", dedup.Key{Scope: "*", ID: "a", At: at.Add(time.Millisecond)})
	require.NoError(t, err)
	require.Less(t, early.String(), late.String())
	same, err := dedup.NewClaimID("billing", dedup.Key{Scope: "*", ID: "z", At: at.UTC().Truncate(time.Millisecond)})
	require.NoError(t, err)
	require.Equal(t, early, same, "zone and fractions of a millisecond don't matter")
	require.NotEqual(t, early.LockKey("a"), late.LockKey("a"))
	require.NotEqual(t, early.LockKey("a"), early.LockKey("b"))
}

func TestParseClaimID_RefusesOtherForms(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "1", "2ed6657d-e927-568b-95e1-2665a8aea6a", "2ed6657de927568b95e12665a8aea6a200000", "zed6657d-e927-568b-95e1-2665a8aea6a2"} {
		_, err := dedup.ParseClaimID(text)
		require.Error(t, err, text)
	}
}
