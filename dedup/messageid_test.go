package dedup_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
)

// These never change between releases: a handler that runs again after an upgrade sends
// under the same ids.
func TestMessageID_IsTheSameForEver(t *testing.T) {
	t.Parallel()
	claim, err := dedup.NewClaimID("billing", dedup.Key{Scope: dedup.Global, ID: "order-1"})
	require.NoError(t, err)
	require.Equal(t, "fc4a8281-de0d-85b8-9098-9ab349dfa79f", dedup.NewMessageID(claim, 0))
	require.Equal(t, "97eb2312-24d1-8aee-a119-51d53e0c457a", dedup.NewMessageID(claim, 1))
	require.Equal(t, "ea95ec4b-20ce-8d39-8116-bd66c7c7e777", dedup.CopyMessageID("id", "topic"))
}

func TestMessageID_HasTheFormOfAUUID(t *testing.T) {
	t.Parallel()
	require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, dedup.NewMessageID(dedup.ClaimID{}, 7))
	require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, dedup.RandomMessageID())
	require.NotEqual(t, dedup.RandomMessageID(), dedup.RandomMessageID())
	require.NotEqual(t, dedup.CopyMessageID("ab", "c"), dedup.CopyMessageID("a", "bc"))
}
