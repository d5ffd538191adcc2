package dedup_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
)

// Whatever is accepted here, encoding/json accepts too.
func FuzzParseJSON(f *testing.F) {
	for _, seed := range []string{`{"a": [1, 2.5e-3, null, true, "x"]}`, `{"a": 1, "a": 2}`, `[[[[]]]]`, `-0`, `1e400`, `"\ud800"`, `{"a"}`, `[1,]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		if _, err := dedup.ParseJSON(document); err == nil {
			require.True(t, json.Valid(document))
		}
	})
}

// The order of members never matters: encoding/json writes them sorted.
func FuzzFingerprintJSON(f *testing.F) {
	f.Add([]byte(`{"f": {"z": 1, "a": [1.50, "x", {"q": null, "b": 12345678901234567890}]}}`))
	schema := dedup.Schema{Action: "charge", Fields: []dedup.Field{{Name: "f"}}}
	f.Fuzz(func(t *testing.T, document []byte) {
		first, err := schema.FromJSON(document)
		if err != nil {
			return
		}
		decoder := json.NewDecoder(strings.NewReader(string(document)))
		decoder.UseNumber()
		var tree any
		require.NoError(t, decoder.Decode(&tree))
		sorted, err := json.Marshal(tree)
		require.NoError(t, err)
		second, err := schema.FromJSON(sorted)
		if err != nil { // escaping may make a document longer than the limit
			require.ErrorContains(t, err, "more than")
			return
		}
		require.True(t, first.Equal(second), "%s", sorted)
	})
}

func TestLookup_FollowsDottedPaths(t *testing.T) {
	t.Parallel()
	document, err := dedup.ParseJSON([]byte(`{"order": {"id": 12345678901234567890, "none": null, "lines": [1]}}`))
	require.NoError(t, err)
	id, err := document.Lookup("order.id").KeyText()
	require.NoError(t, err)
	require.Equal(t, "12345678901234567890", id)
	for path, says := range map[string]string{
		"order.nothing": "is missing", "nothing.at.all": "is missing", "order.id.deeper": "is missing", "": "is missing",
		"order.none": "kind null", "order.lines": "kind list", "order": "kind json",
	} {
		_, err := document.Lookup(path).KeyText()
		require.ErrorContains(t, err, says, path)
	}
}
