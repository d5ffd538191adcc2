package dedup_test

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
)

// Golden vectors are never edited: a fingerprint that changes makes every retry a mismatch.
func TestFingerprint_GoldenVectors(t *testing.T) {
	t.Parallel()
	var vectors []struct {
		Action   string
		Fields   []string
		Document json.RawMessage
		Pepper   string
		Sum      string
	}
	golden(t, "testdata/fingerprints.json", &vectors)
	require.NotEmpty(t, vectors)
	for _, vector := range vectors {
		schema := dedup.Schema{Action: vector.Action, Pepper: []byte(vector.Pepper)}
		for _, name := range vector.Fields {
			schema.Fields = append(schema.Fields, dedup.Field{Name: name})
		}
		made, err := schema.FromJSON(vector.Document)
		require.NoError(t, err)
		require.Equal(t, vector.Sum, hex.EncodeToString(made.Bytes()), "%s", vector.Document)
	}
}

func of(t testing.TB, field dedup.Field, document string) dedup.Fingerprint {
	t.Helper()
	field.Name = "f"
	made, err := dedup.Schema{Action: "charge", Fields: []dedup.Field{field}}.FromJSON([]byte(document))
	require.NoError(t, err, document)
	return made
}

func TestFingerprint_TellsApart(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2]string{
		"absent and null":                {`{}`, `{"f": null}`},
		"absent and empty":               {`{}`, `{"f": ""}`},
		"null and empty":                 {`{"f": null}`, `{"f": ""}`},
		"null and the word":              {`{"f": null}`, `{"f": "null"}`},
		"number and string":              {`{"f": 1}`, `{"f": "1"}`},
		"true and the word":              {`{"f": true}`, `{"f": "true"}`},
		"integers beyond 2^53":           {`{"f": 9007199254740992}`, `{"f": 9007199254740993}`},
		"decimals beyond a double":       {`{"f": 0.1}`, `{"f": 0.1000000000000000055511151231257827}`},
		"lists by order":                 {`{"f": [1, 2]}`, `{"f": [2, 1]}`},
		"nesting":                        {`{"f": [[1], 2]}`, `{"f": [1, [2]]}`},
		"empty list and empty object":    {`{"f": []}`, `{"f": {}}`},
		"members by name":                {`{"f": {"a": 1}}`, `{"f": {"b": 1}}`},
		"joined strings":                 {`{"f": ["a", "bc"]}`, `{"f": ["ab", "c"]}`},
		"case":                           {`{"f": "EUR"}`, `{"f": "eur"}`},
		"composed and decomposed accent": {`{"f": "\u00fc"}`, `{"f": "u\u0308"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.False(t, of(t, dedup.Field{}, pair[0]).Equal(of(t, dedup.Field{}, pair[1])))
		})
	}
}

func TestFingerprint_TakesForTheSame(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		field dedup.Field
		pair  [2]string
	}{
		"1, 1.0 and 1e0":           {dedup.Field{}, [2]string{`{"f": 1}`, `{"f": 1.0}`}},
		"100 and 1e2":              {dedup.Field{}, [2]string{`{"f": 100}`, `{"f": 1e2}`}},
		"0 and -0":                 {dedup.Field{}, [2]string{`{"f": 0}`, `{"f": -0.0}`}},
		"1.5 and 1.50":             {dedup.Field{}, [2]string{`{"f": 1.5}`, `{"f": 1.50}`}},
		"key order":                {dedup.Field{}, [2]string{`{"f": {"a": 1, "b": 2}}`, `{"f": {"b": 2, "a": 1}}`}},
		"white space":              {dedup.Field{}, [2]string{`{"f":1}`, `{ "f" : 1 }`}},
		"other fields":             {dedup.Field{}, [2]string{`{"f": 1}`, `{"f": 1, "sent": "now"}`}},
		"null as absent":           {dedup.Field{NullAsAbsent: true}, [2]string{`{"f": null}`, `{}`}},
		"default":                  {dedup.Field{Default: dedup.String("EUR")}, [2]string{`{"f": "EUR"}`, `{}`}},
		"null as default":          {dedup.Field{NullAsAbsent: true, Default: dedup.String("EUR")}, [2]string{`{"f": "EUR"}`, `{"f": null}`}},
		"trim":                     {dedup.Field{Trim: true}, [2]string{`{"f": " a "}`, `{"f": "a"}`}},
		"composed form":            {dedup.Field{NFC: true}, [2]string{`{"f": "\u00fc"}`, `{"f": "u\u0308"}`}},
		"currency case":            {dedup.Field{UpperCase: true}, [2]string{`{"f": "eur"}`, `{"f": "EUR"}`}},
		"set":                      {dedup.Field{Set: true}, [2]string{`{"f": [1, 2, 2]}`, `{"f": [2, 1]}`}},
		"amounts, however written": {dedup.Field{Decimal: true, Scale: 2}, [2]string{`{"f": "10"}`, `{"f": 10.00}`}},
		"amounts with zeros":       {dedup.Field{Decimal: true, Scale: 2}, [2]string{`{"f": 10.5}`, `{"f": "10.5000"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.True(t, of(t, c.field, c.pair[0]).Equal(of(t, c.field, c.pair[1])))
		})
	}
}

func TestFingerprint_BadInputIsAnErrorThatNamesTheField(t *testing.T) {
	t.Parallel()
	amount := dedup.Schema{Action: "charge", Fields: []dedup.Field{{Name: "f", Decimal: true, Scale: 2}}}
	for name, c := range map[string]struct{ document, says string }{
		"duplicate member":  {`{"f": "secret", "f": 2}`, "duplicate member"},
		"nested duplicate":  {`{"x": {"a": 1, "a": 2}}`, "duplicate member"},
		"trailing data":     {`{"f": 1} {"f": 2}`, "something follows"},
		"malformed":         {`{"f": "secret`, "malformed"},
		"not JSON":          {`secret`, "malformed"},
		"empty":             {``, "malformed"},
		"invalid UTF-8":     {"{\"f\": \"\xff\"}", "UTF-8"},
		"overflow":          {`{"f": 1e999}`, "more than 400 digits"},
		"enormous exponent": {`{"f": 1e99999999999999999999}`, "more than 400 digits"},
		"deep":              {strings.Repeat(`[`, 100) + strings.Repeat(`]`, 100), "nested deeper"},
		"too precise":       {`{"f": 1.001}`, `field "f": has 3 digits`},
		"no amount":         {`{"f": true}`, `field "f": is of kind bool`},
		"amount in words":   {`{"f": "secret"}`, `field "f": is not a number`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := amount.FromJSON([]byte(c.document))
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "secret")
		})
	}
	_, err := dedup.ParseJSON(make([]byte, dedup.MaxJSONBytes+1))
	require.ErrorContains(t, err, "more than")
}

func TestFingerprint_GoValuesOfEveryKind(t *testing.T) {
	t.Parallel()
	number := func(text string) dedup.Value {
		value, err := dedup.Number(text)
		require.NoError(t, err)
		return value
	}
	at := time.Date(2026, 5, 1, 12, 0, 0, 1, time.UTC)
	values := []dedup.Value{
		{}, dedup.NullValue(), dedup.String(""), dedup.String("1"), dedup.Int(1), dedup.Int(math.MaxInt64), dedup.Int(math.MinInt64),
		number("1.5"), number("123456789012345678901234567890"), dedup.Bool(true), dedup.Bytes([]byte("1")), dedup.Bytes(nil),
		dedup.Time(at), dedup.List(), dedup.List(dedup.Int(1)), dedup.Set(), dedup.Set(dedup.Int(1)),
		dedup.Object(nil), dedup.Object(map[string]dedup.Value{"a": dedup.Int(1)}),
	}
	schema := dedup.Schema{Action: "charge", Fields: []dedup.Field{{Name: "f"}}}
	seen := make(map[string]dedup.Value)
	for _, value := range values {
		made, err := schema.Fingerprint(map[string]dedup.Value{"f": value})
		require.NoError(t, err)
		before, twice := seen[string(made.Bytes())]
		require.False(t, twice, "kinds %s and %s", before.Kind(), value.Kind())
		seen[string(made.Bytes())] = value
	}
	zoned, err := schema.Fingerprint(map[string]dedup.Value{"f": dedup.Time(at.In(time.FixedZone("", 3600)))})
	require.NoError(t, err)
	require.Contains(t, seen, string(zoned.Bytes()), "an instant has no zone")
	_, err = schema.Fingerprint(map[string]dedup.Value{"f": dedup.String("\xff")})
	require.ErrorContains(t, err, "UTF-8")
	_, err = schema.Fingerprint(map[string]dedup.Value{"g": dedup.Int(1)})
	require.ErrorContains(t, err, `"g" is no field`)
}

func TestFingerprint_PepperAndActionCount(t *testing.T) {
	t.Parallel()
	schema := dedup.Schema{Action: "charge", Fields: []dedup.Field{{Name: "f"}}}
	plain, err := schema.FromJSON([]byte(`{"f": 1}`))
	require.NoError(t, err)
	schema.Pepper = []byte("sixteen bytes or more")
	peppered, err := schema.FromJSON([]byte(`{"f": 1}`))
	require.NoError(t, err)
	require.False(t, plain.Equal(peppered))
	refund := dedup.Schema{Action: "refund", Fields: []dedup.Field{{Name: "f"}}}
	refunded, err := refund.FromJSON([]byte(`{"f": 1}`))
	require.NoError(t, err)
	require.False(t, plain.Equal(refunded))
}

func TestSchema_FaultsAreNamed(t *testing.T) {
	t.Parallel()
	err := dedup.Schema{
		Fields: []dedup.Field{{Name: "a", Scale: 19}, {Name: "b"}, {Name: "b"}, {}}, Pepper: []byte("short"),
	}.Validate()
	for _, part := range []string{"Action: is empty", "Fields[0].Scale", "Fields[2].Name: named before", "Fields[3].Name: missing", "Pepper"} {
		require.ErrorContains(t, err, part)
	}
	require.ErrorContains(t, dedup.Schema{Action: "a"}.Validate(), "Fields: missing")
}

func TestFingerprintFrom_ReadsWhatBytesWrote(t *testing.T) {
	t.Parallel()
	made := fingerprint(t, "1")
	read, err := dedup.FingerprintFrom(made.Bytes())
	require.NoError(t, err)
	require.True(t, read.Equal(made))
	none, err := dedup.FingerprintFrom(nil)
	require.NoError(t, err)
	require.False(t, none.Declared())
	_, err = dedup.FingerprintFrom([]byte{1, 2})
	require.Error(t, err)
	unknown := made.Bytes()
	unknown[0] = 9
	_, err = dedup.FingerprintFrom(unknown)
	require.ErrorContains(t, err, "version 9")
}
