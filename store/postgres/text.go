package postgres

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Postgres holds no NUL and no invalid UTF-8 in text or jsonb. Such values, and those that
// look like an encoded one, are kept in base64, so that every byte comes back.
const encodedMark = "base64:"

func clean(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

func encodeText(s string) string {
	if clean(s) && !strings.HasPrefix(s, encodedMark) {
		return s
	}
	return encodedMark + base64.StdEncoding.EncodeToString([]byte(s))
}

func decodeText(s string) (string, error) {
	encoded, ok := strings.CutPrefix(s, encodedMark)
	if !ok {
		return s, nil
	}
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", fmt.Errorf("read text: %w", err)
	}
	return string(decoded), nil
}

// encodeMetadata writes a JSON object of texts. Names and values are encoded like any text
// that is not clean.
func encodeMetadata(metadata map[string]string) (string, error) {
	safe := make(map[string]string, len(metadata))
	for name, value := range metadata {
		safe[encodeText(name)] = encodeText(value)
	}
	encoded, err := json.Marshal(safe)
	return string(encoded), err
}

func decodeMetadata(encoded []byte) (map[string]string, error) {
	var safe map[string]string
	if err := json.Unmarshal(encoded, &safe); err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	metadata := make(map[string]string, len(safe))
	for name, value := range safe {
		name, err := decodeText(name)
		if err != nil {
			return nil, err
		}
		if metadata[name], err = decodeText(value); err != nil {
			return nil, err
		}
	}
	return metadata, nil
}

// cut shortens s to at most limit bytes, at the beginning of a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
