package dedup

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// varying are words in a field's name that tell of something that differs between two
// tries of one intent, with the reason.
var varying = map[string]string{
	"time": "is a time", "timestamp": "is a time", "ts": "is a time", "now": "is a time", "date": "is a time",
	"datetime": "is a time", "clock": "is a time",
	"nonce": "is made anew for each try", "random": "is made anew for each try", "salt": "is made anew for each try",
	"attempt": "counts tries", "attempts": "counts tries", "retry": "counts tries", "retries": "counts tries",
	"redelivered": "tells of the delivery, not of the intent", "delivered": "tells of the delivery, not of the intent",
	"delivery": "tells of the delivery, not of the intent", "death": "tells of the delivery, not of the intent",
	"trace": "differs for each request", "traceparent": "differs for each request", "span": "differs for each request",
}

// harmless are names that hold such a word and still name an intent.
var harmless = map[string]bool{
	"delivery_id": true, "delivery_note_id": true, "delivery_order_id": true, "value_date": true, "booking_date": true,
	"due_date": true, "business_date": true, "accounting_date": true,
}

// VetName refuses the name of a key part that varies from try to try: times, counters of
// tries, nonces, what the broker says of a delivery. A date that belongs to the business,
// such as value_date, may pass. The error names the word.
func VetName(name string) error {
	words := nameWords(name)
	if harmless[strings.Join(words, "_")] {
		return nil
	}
	for _, word := range words {
		if reason, found := varying[word]; found {
			return fmt.Errorf("%q in a key part's name: it %s, and a key must be the same on every try", word, reason)
		}
	}
	return nil
}

// nameWords splits at dots, dashes, underscores, spaces and changes to upper case.
func nameWords(name string) []string {
	var split strings.Builder
	before := ' '
	for _, r := range name {
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			split.WriteRune(' ')
		}
		if strings.ContainsRune(".-_/[]:", r) {
			r = ' '
		}
		split.WriteRune(unicode.ToLower(r))
		before = r
	}
	return strings.Fields(split.String())
}

var (
	timeType     = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[time.Duration]()
)

// VetType refuses Go types that can't be a business key: times, durations, fractions,
// pointers, anything without a fixed text, and structs with such fields or with fields
// whose names [VetName] refuses. Integers, strings, booleans, arrays of bytes (such as a
// UUID) and structs of them pass.
func VetType(t reflect.Type) error {
	switch t {
	case nil:
		return fmt.Errorf("no type")
	case timeType, durationType:
		return fmt.Errorf("type %v: a key must not vary with time", t)
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return nil
	case reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil
		}
	case reflect.Struct:
		return vetFields(t)
	}
	return fmt.Errorf("type %v: has no exact text that is the same everywhere", t)
}

func vetFields(t reflect.Type) error {
	if t.NumField() == 0 {
		return fmt.Errorf("type %v: has no fields", t)
	}
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() {
			return fmt.Errorf("field %s of %v: is not exported", field.Name, t)
		}
		if err := VetName(field.Name); err != nil {
			return fmt.Errorf("field %s of %v: %w", field.Name, t, err)
		}
		if err := VetType(field.Type); err != nil {
			return fmt.Errorf("field %s of %v: %w", field.Name, t, err)
		}
	}
	return nil
}

// JoinParts makes one id of several parts, each after its length, so that no two lists of
// parts give the same id: ("a", "bc") is 1:a,2:bc and ("ab", "c") is 2:ab,1:c.
func JoinParts(parts ...string) string {
	joined := make([]string, len(parts))
	for i, part := range parts {
		joined[i] = strconv.Itoa(len(part)) + ":" + part
	}
	return strings.Join(joined, ",")
}

// KeyParts are the texts of a value whose type [VetType] accepts: itself, or its fields in
// order.
func KeyParts(value any) []string { return keyParts(reflect.ValueOf(value)) }

func keyParts(v reflect.Value) []string {
	switch v.Kind() {
	case reflect.Struct:
		var parts []string
		for i := range v.NumField() {
			parts = append(parts, JoinParts(keyParts(v.Field(i))...))
		}
		return parts
	case reflect.Array:
		bytes := make([]byte, v.Len())
		for i := range bytes {
			bytes[i] = byte(v.Index(i).Uint())
		}
		return []string{hex.EncodeToString(bytes)}
	case reflect.String:
		return []string{v.String()}
	case reflect.Bool:
		return []string{strconv.FormatBool(v.Bool())}
	}
	if v.CanInt() {
		return []string{strconv.FormatInt(v.Int(), 10)}
	}
	return []string{strconv.FormatUint(v.Uint(), 10)}
}
