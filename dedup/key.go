package dedup

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of a key, in bytes.
const (
	// MaxScopeBytes is the longest scope, and the longest consumer name.
	MaxScopeBytes = 128
	// MaxIDBytes is the longest id that is kept as it is; longer ones are digested.
	MaxIDBytes = 255
	// MaxLongIDBytes is the longest id that is accepted at all.
	MaxLongIDBytes = 64 << 10
)

// Global is the scope of keys that are unique everywhere.
const Global = "*"

// ErrInvalidKey is in the chain of every error about a key.
var ErrInvalidKey = errors.New("invalid key")

// KeyError says which part of a key is wrong and how, never its value. It wraps
// [ErrInvalidKey].
type KeyError struct {
	// Field is the part that is wrong: "Consumer", "Scope", "ID" or "At".
	Field string
	// Fault says what is wrong with it.
	Fault string
}

func (e *KeyError) Error() string { return fmt.Sprintf("invalid key: %s: %s", e.Field, e.Fault) }

// Unwrap returns [ErrInvalidKey].
func (e *KeyError) Unwrap() error { return ErrInvalidKey }

// Key names an intent: the same intent has the same key on every retry. Formatting a key
// in any way shows a short digest, never its parts.
type Key struct {
	// Scope is the boundary inside which ID is unique: a tenant, an account, or [Global].
	// Required, at most [MaxScopeBytes] bytes.
	Scope string
	// ID names the intent inside its scope. Required. One longer than [MaxIDBytes] bytes,
	// up to [MaxLongIDBytes], is replaced by a digest with a readable prefix.
	ID string
	// At is a time that is the same on every retry of this intent, to the millisecond.
	// Optional: it keeps claims in time order. Never a time of arrival or of sending.
	At time.Time
}

// Canonical checks the key and returns the form that claims are made of: a long ID is
// digested, and At is in UTC without what is below a millisecond. Errors are [*KeyError].
func (k Key) Canonical() (Key, error) {
	if err := checkName("Scope", k.Scope, MaxScopeBytes); err != nil {
		return Key{}, err
	}
	if err := checkName("ID", k.ID, MaxLongIDBytes); err != nil {
		return Key{}, err
	}
	if len(k.ID) > MaxIDBytes {
		k.ID = digestLongID(k.ID)
	}
	if !k.At.IsZero() {
		k.At = k.At.UTC().Truncate(time.Millisecond)
		if k.At.Year() < 1970 || k.At.Year() > 9998 {
			return Key{}, &KeyError{"At", "is not between the years 1970 and 9998"}
		}
	}
	return k, nil
}

// digestMark begins a digested id. Whoever can send a digested form can as well send the
// long id, so an id that looks like one needs no defence.
const digestMark = "sha256:"

// digestPrefix is how many bytes of a long id stay readable.
const digestPrefix = 128

func digestLongID(id string) string {
	sum := sha256.Sum256([]byte(id))
	end := digestPrefix
	for !utf8.RuneStart(id[end]) {
		end--
	}
	return digestMark + base64.RawURLEncoding.EncodeToString(sum[:]) + ":" + strings.TrimRight(id[:end], " ")
}

// checkName refuses what a name or key part must not be: empty, too long, not UTF-8, with
// control characters, or with space at an end.
func checkName(field, s string, limit int) error {
	refuse := func(format string, args ...any) error { return &KeyError{field, fmt.Sprintf(format, args...)} }
	switch {
	case s == "":
		return refuse("is empty")
	case len(s) > limit:
		return refuse("has %d bytes, more than %d", len(s), limit)
	case !utf8.ValidString(s):
		return refuse("is not valid UTF-8")
	}
	for _, r := range s {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Cf, r) {
			return refuse("holds the control character %U", r)
		}
	}
	if strings.TrimSpace(s) != s {
		return refuse("begins or ends with a space")
	}
	return nil
}

// String shows a short digest of the key.
func (k Key) String() string {
	sum := sha256.New()
	writePart(sum, "oncebox key 1", k.Scope, k.ID)
	return "key:" + hex.EncodeToString(sum.Sum(nil)[:6])
}

// Format shows the digest whatever the verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) }

// LogValue shows the digest.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText shows the digest: a key can't be got back from it.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
