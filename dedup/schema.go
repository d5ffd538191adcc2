package dedup

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// Schema names the fields that make an intent: change one, and it is another intent. Leave
// out what differs between honest retries: times, request ids, headers.
//
// The first version of the digest, fp1, is SHA-256 over the version, the action, and each
// field in the order of names: name, kind, and the value after its length.
type Schema struct {
	// Action separates the digests of different operations. Required.
	Action string
	// Fields are the fields. Required, at least one, with different names.
	Fields []Field
	// Pepper, when set, makes the digest an HMAC, so that who reads the table can't try out
	// guesses. At least 16 bytes, from a secret store; changing it makes every stored
	// fingerprint differ.
	Pepper []byte
}

// Field is one field of a [Schema].
type Field struct {
	// Name is the field's name, and its dotted path when values come from JSON. Required.
	Name string
	// Default is the value of a field that is absent. Unset: absent stays absent.
	Default Value
	// NullAsAbsent takes a null for absent.
	NullAsAbsent bool
	// Trim removes white space around a string.
	Trim bool
	// NFC brings a string into Unicode's composed form, so that ü is ü however it is typed.
	NFC bool
	// UpperCase upper-cases a string of ASCII letters, such as a currency's code.
	UpperCase bool
	// Decimal reads a number, or a string that is one, as an amount with exactly Scale
	// digits behind the point. More digits than that are an error, unless they are zeros.
	Decimal bool
	// Scale is used with Decimal, from 0 to 18.
	Scale int
	// Set takes a list for a set: order and repetition do not count.
	Set bool
}

// Validate reports every fault of the schema by the field's name.
func (s Schema) Validate() error {
	var wrong []error
	if err := checkName("Action", s.Action, MaxScopeBytes); err != nil {
		wrong = append(wrong, fmt.Errorf("schema: %w", err))
	}
	if len(s.Fields) == 0 {
		wrong = append(wrong, errors.New("schema: Fields: missing"))
	}
	if len(s.Pepper) > 0 && len(s.Pepper) < 16 {
		wrong = append(wrong, fmt.Errorf("schema: Pepper: %d bytes, fewer than 16", len(s.Pepper)))
	}
	seen := make(map[string]bool)
	for i, field := range s.Fields {
		switch {
		case field.Name == "":
			wrong = append(wrong, fmt.Errorf("schema: Fields[%d].Name: missing", i))
		case seen[field.Name]:
			wrong = append(wrong, fmt.Errorf("schema: Fields[%d].Name: named before", i))
		case field.Scale < 0 || field.Scale > 18:
			wrong = append(wrong, fmt.Errorf("schema: Fields[%d].Scale: %d is not from 0 to 18", i, field.Scale))
		}
		seen[field.Name] = true
	}
	return errors.Join(wrong...)
}

// FromJSON digests the fields of a JSON document; see [ParseJSON] for what it refuses.
func (s Schema) FromJSON(document []byte) (Fingerprint, error) {
	value, err := ParseJSON(document)
	if err != nil {
		return Fingerprint{}, err
	}
	values := make(map[string]Value, len(s.Fields))
	for _, field := range s.Fields {
		values[field.Name] = value.Lookup(field.Name)
	}
	return s.Fingerprint(values)
}

// Fingerprint digests the named values; a field that values does not have is absent, and
// a value that is no field is an error.
func (s Schema) Fingerprint(values map[string]Value) (Fingerprint, error) {
	if err := s.Validate(); err != nil {
		return Fingerprint{}, err
	}
	sum := s.newHash()
	writePart(sum, "oncebox fp1", s.Action)
	fields := slices.SortedFunc(slices.Values(s.Fields), func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	known := make(map[string]bool, len(fields))
	for _, field := range fields {
		known[field.Name] = true
		value, err := field.normalize(values[field.Name])
		if err != nil {
			return Fingerprint{}, fmt.Errorf("fingerprint: field %q: %w", field.Name, err)
		}
		encoded, err := value.encode(nil)
		if err != nil {
			return Fingerprint{}, fmt.Errorf("fingerprint: field %q: %w", field.Name, err)
		}
		writePart(sum, field.Name, string(encoded))
	}
	for name := range values {
		if !known[name] {
			return Fingerprint{}, fmt.Errorf("fingerprint: value %q is no field of the schema", name)
		}
	}
	return Fingerprint{version: fp1, sum: [sha256.Size]byte(sum.Sum(nil))}, nil
}

func (s Schema) newHash() hash.Hash {
	if len(s.Pepper) > 0 {
		return hmac.New(sha256.New, s.Pepper)
	}
	return sha256.New()
}

// normalize applies the field's options.
func (f Field) normalize(v Value) (Value, error) {
	if f.NullAsAbsent && v.kind == Null {
		v = Value{}
	}
	if v.kind == Absent {
		v = f.Default
	}
	if v.kind == StringKind {
		if f.Trim {
			v.text = strings.TrimSpace(v.text)
		}
		if f.NFC {
			v.text = norm.NFC.String(v.text)
		}
		if f.UpperCase {
			v.text = strings.ToUpper(v.text)
		}
	}
	if f.Set && v.kind == ListKind {
		v.kind = SetKind
	}
	if f.Decimal && v.kind != Absent && v.kind != Null {
		return v.toScale(f.Scale)
	}
	return v, nil
}

// toScale reads v as an amount with exactly scale digits behind the point.
func (v Value) toScale(scale int) (Value, error) {
	switch v.kind {
	case StringKind, IntKind, DecimalKind:
	default:
		return Value{}, fmt.Errorf("is of kind %s, not an amount", v.kind)
	}
	digits, has, err := parseNumber(v.text)
	if err != nil {
		return Value{}, err
	}
	if has > scale {
		return Value{}, fmt.Errorf("has %d digits behind the point, more than %d", has, scale)
	}
	if digits != "0" {
		digits += strings.Repeat("0", scale-has)
	}
	return Value{kind: DecimalKind, text: placePoint(digits, scale)}, nil
}
