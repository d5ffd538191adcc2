package dedup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Limits of JSON input.
const (
	// MaxJSONBytes is the longest document that is read.
	MaxJSONBytes = 1 << 20
	// MaxJSONDepth is how deep objects and lists may be nested.
	MaxJSONDepth = 64
)

// ParseJSON reads one document with exact numbers. Unlike encoding/json, and unlike the
// canonical JSON of RFC 8785, whose numbers are doubles, it keeps integers beyond 2^53
// apart, and it refuses duplicate members, invalid UTF-8 and trailing data. Errors never
// show the document.
func ParseJSON(document []byte) (Value, error) {
	if len(document) > MaxJSONBytes {
		return Value{}, fmt.Errorf("parse JSON: %d bytes, more than %d", len(document), MaxJSONBytes)
	}
	if !utf8.Valid(document) {
		return Value{}, errors.New("parse JSON: not valid UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	value, err := parseValue(decoder, 0)
	if err != nil {
		return Value{}, fmt.Errorf("parse JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Value{}, errors.New("parse JSON: something follows the document")
	}
	return value, nil
}

func parseValue(decoder *json.Decoder, depth int) (Value, error) {
	if depth > MaxJSONDepth {
		return Value{}, fmt.Errorf("nested deeper than %d", MaxJSONDepth)
	}
	token, err := decoder.Token()
	if err != nil {
		// The decoder's own error quotes the input.
		return Value{}, fmt.Errorf("malformed at byte %d", decoder.InputOffset())
	}
	switch token := token.(type) {
	case nil:
		return NullValue(), nil
	case bool:
		return Bool(token), nil
	case string:
		return String(token), nil
	case json.Number:
		number, err := Number(token.String())
		if err != nil {
			return Value{}, fmt.Errorf("number at byte %d: %w", decoder.InputOffset(), err)
		}
		return number, nil
	case json.Delim:
		if token == '{' {
			return parseObject(decoder, depth)
		}
		if token == '[' {
			return parseList(decoder, depth)
		}
	}
	return Value{}, fmt.Errorf("malformed at byte %d", decoder.InputOffset())
}

func parseObject(decoder *json.Decoder, depth int) (Value, error) {
	members := make(map[string]Value)
	for decoder.More() {
		token, err := decoder.Token()
		name, isName := token.(string)
		if err != nil || !isName {
			return Value{}, fmt.Errorf("malformed at byte %d", decoder.InputOffset())
		}
		if _, twice := members[name]; twice {
			return Value{}, fmt.Errorf("duplicate member at byte %d", decoder.InputOffset())
		}
		if members[name], err = parseValue(decoder, depth+1); err != nil {
			return Value{}, err
		}
	}
	return Value{kind: JSONKind, members: members}, closing(decoder)
}

func parseList(decoder *json.Decoder, depth int) (Value, error) {
	list := Value{kind: ListKind}
	for decoder.More() {
		item, err := parseValue(decoder, depth+1)
		if err != nil {
			return Value{}, err
		}
		list.items = append(list.items, item)
	}
	return list, closing(decoder)
}

func closing(decoder *json.Decoder) error {
	if _, err := decoder.Token(); err != nil {
		return fmt.Errorf("malformed at byte %d", decoder.InputOffset())
	}
	return nil
}
