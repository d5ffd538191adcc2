package dedup

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Kind tells values apart that would print alike: the string "1" and the number 1, a
// missing field, a null and an empty string.
type Kind byte

// The kinds of values. Their numbers are part of the encoding and never change.
const (
	Absent Kind = iota
	Null
	StringKind
	IntKind
	DecimalKind
	BoolKind
	BytesKind
	TimeKind
	JSONKind
	ListKind
	SetKind
)

var kindNames = [...]string{"absent", "null", "string", "int", "decimal", "bool", "bytes", "time", "json", "list", "set"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Value is a field's value of one [Kind]. The zero Value is absent.
type Value struct {
	kind    Kind
	text    string           // scalars, in canonical form
	items   []Value          // lists and sets
	members map[string]Value // JSON objects
}

// Kind returns the value's kind.
func (v Value) Kind() Kind { return v.kind }

// NullValue is a null.
func NullValue() Value { return Value{kind: Null} }

// String is a text. It must be valid UTF-8, or [Schema.Fingerprint] refuses it.
func String(s string) Value { return Value{kind: StringKind, text: s} }

// Int is an integer.
func Int(i int64) Value { return Value{kind: IntKind, text: strconv.FormatInt(i, 10)} }

// Number reads a number of any size exactly, as it is written in JSON. One without a
// fraction is an int, however it is written: 1, 1.0 and 1e0 are the same. It fails on what
// is not a number or has more than 400 digits when written out.
func Number(text string) (Value, error) {
	digits, scale, err := parseNumber(text)
	if err != nil {
		return Value{}, err
	}
	if scale == 0 {
		return Value{kind: IntKind, text: digits}, nil
	}
	return Value{kind: DecimalKind, text: placePoint(digits, scale)}, nil
}

// Bool is a truth value.
func Bool(b bool) Value { return Value{kind: BoolKind, text: strconv.FormatBool(b)} }

// Bytes are bytes as they are.
func Bytes(b []byte) Value { return Value{kind: BytesKind, text: string(b)} }

// Time is an instant, whatever its zone. A time that differs between two tries of one
// intent has no place in a fingerprint.
func Time(t time.Time) Value {
	return Value{kind: TimeKind, text: t.UTC().Round(0).Format(time.RFC3339Nano)}
}

// List is a sequence: order and repetition count.
func List(items ...Value) Value { return Value{kind: ListKind, items: slices.Clone(items)} }

// Set is a collection in which neither order nor repetition counts.
func Set(items ...Value) Value { return Value{kind: SetKind, items: slices.Clone(items)} }

// Object is a JSON object.
func Object(members map[string]Value) Value {
	return Value{kind: JSONKind, members: maps.Clone(members)}
}

// Lookup follows a dotted path through objects: "order.total". What is not there is
// absent; a path through something that is not an object is absent too.
func (v Value) Lookup(path string) Value {
	for name := range strings.SplitSeq(path, ".") {
		v = v.members[name]
	}
	return v
}

// KeyText is a scalar as exact text, for use as part of a key. It fails on what can't name
// an intent: absent, null, a fraction, a truth value, a time, an object, a list. Errors name
// the kind, never the value.
func (v Value) KeyText() (string, error) {
	switch v.kind {
	case StringKind, IntKind:
		return v.text, nil
	case Absent:
		return "", errors.New("is missing")
	}
	return "", fmt.Errorf("is of kind %s, which can't name an intent", v.kind)
}

// encode writes the value so that different values are written differently.
func (v Value) encode(into []byte) ([]byte, error) {
	into = append(into, byte(v.kind))
	switch v.kind {
	case Absent, Null:
		return into, nil
	case JSONKind:
		return v.encodeMembers(into)
	case ListKind, SetKind:
		return v.encodeItems(into)
	case StringKind:
		if !utf8.ValidString(v.text) {
			return nil, errors.New("string is not valid UTF-8")
		}
	}
	return appendPart(into, v.text), nil
}

func (v Value) encodeMembers(into []byte) (_ []byte, err error) {
	into = appendCount(into, len(v.members))
	for _, name := range slices.Sorted(maps.Keys(v.members)) {
		into = appendPart(into, name)
		if into, err = v.members[name].encode(into); err != nil {
			return nil, err
		}
	}
	return into, nil
}

func (v Value) encodeItems(into []byte) ([]byte, error) {
	encoded := make([]string, len(v.items))
	for i, item := range v.items {
		one, err := item.encode(nil)
		if err != nil {
			return nil, err
		}
		encoded[i] = string(one)
	}
	if v.kind == SetKind {
		slices.Sort(encoded)
		encoded = slices.Compact(encoded)
	}
	into = appendCount(into, len(encoded))
	for _, one := range encoded {
		into = appendPart(into, one)
	}
	return into, nil
}
