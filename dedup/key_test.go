package dedup_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
)

func TestKey_BadPartsAreNamedAndNotShown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key  dedup.Key
		says string
	}{
		"empty scope":         {dedup.Key{ID: "secret"}, "Scope: is empty"},
		"empty id":            {dedup.Key{Scope: "*"}, "ID: is empty"},
		"long scope":          {dedup.Key{Scope: strings.Repeat("s", 129), ID: "secret"}, "Scope: has 129 bytes"},
		"enormous id":         {dedup.Key{Scope: "*", ID: strings.Repeat("secret", 20_000)}, "ID: has 120000 bytes"},
		"control character":   {dedup.Key{Scope: "*", ID: "secret\n1"}, "ID: holds the control character U+000A"},
		"NUL":                 {dedup.Key{Scope: "*", ID: "secret\x00"}, "ID: holds the control character U+0000"},
		"invisible character": {dedup.Key{Scope: "*", ID: "secret\u200b"}, "ID: holds the control character U+200B"},
		"line separator":      {dedup.Key{Scope: "*", ID: "secret\u2028x"}, "U+2028"},
		"invalid UTF-8":       {dedup.Key{Scope: "*", ID: "secret\xff"}, "ID: is not valid UTF-8"},
		"leading space":       {dedup.Key{Scope: "*", ID: " secret"}, "ID: begins or ends with a space"},
		"trailing space":      {dedup.Key{Scope: "tenant ", ID: "secret"}, "Scope: begins or ends with a space"},
		"ancient time":        {dedup.Key{Scope: "*", ID: "secret", At: time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)}, "At: "},
		"time beyond":         {dedup.Key{Scope: "*", ID: "secret", At: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, "At: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := c.key.Canonical()
			require.ErrorIs(t, err, dedup.ErrInvalidKey)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "secret")
			_, err = dedup.NewClaimID("billing", c.key)
			require.ErrorIs(t, err, dedup.ErrInvalidKey)
		})
	}
}

func TestKey_LongIDsAreDigestedNotTruncated(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 200)
	one, err := dedup.Key{Scope: "*", ID: long + "1"}.Canonical()
	require.NoError(t, err)
	two, err := dedup.Key{Scope: "*", ID: long + "2"}.Canonical()
	require.NoError(t, err)
	require.NotEqual(t, one.ID, two.ID)
	require.LessOrEqual(t, len(one.ID), dedup.MaxIDBytes)
	require.Contains(t, one.ID, strings.Repeat("é", 60), "its beginning stays readable")
	again, err := one.Canonical()
	require.NoError(t, err)
	require.Equal(t, one, again, "the canonical form is canonical")

	limit := strings.Repeat("x", dedup.MaxIDBytes)
	kept, err := dedup.Key{Scope: "*", ID: limit}.Canonical()
	require.NoError(t, err)
	require.Equal(t, limit, kept.ID)
}

func TestKey_IsNeverPrinted(t *testing.T) {
	t.Parallel()
	key := dedup.Key{Scope: "tenant-secret", ID: "order-secret"}
	fingerprint, err := dedup.Schema{Action: "charge", Fields: []dedup.Field{{Name: "amount"}}}.FromJSON([]byte(`{"amount": 1}`))
	require.NoError(t, err)
	var log bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&log, verb+verb+"\n", key, fingerprint)
	}
	slog.New(slog.NewTextHandler(&log, nil)).Info("message", "key", key, "fingerprint", fingerprint)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("message", "key", key, "fingerprint", fingerprint, "both", []any{key, fingerprint})
	encoded, err := json.Marshal(map[string]any{"key": key, "fingerprint": fingerprint})
	require.NoError(t, err)
	log.Write(encoded)
	require.NotContains(t, log.String(), "secret")
	require.NotContains(t, log.String(), fmt.Sprintf("%x", fingerprint.Bytes()[1:9]))
	require.Contains(t, log.String(), "key:")
}

func FuzzKey(f *testing.F) {
	f.Add("*", "order-1")
	f.Add("tenant", strings.Repeat("x", 300))
	f.Fuzz(func(t *testing.T, scope, id string) {
		key, err := dedup.Key{Scope: scope, ID: id}.Canonical()
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(key.ID), dedup.MaxIDBytes)
		again, err := key.Canonical()
		require.NoError(t, err)
		require.Equal(t, key, again)
	})
}
