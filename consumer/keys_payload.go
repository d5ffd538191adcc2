package consumer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/oncebox/oncebox/dedup"
)

// JSONFields takes the key from fields of a JSON payload, by dotted paths, in the global
// scope. Each must hold a string or an integer. A field that is missing, or a payload that
// is not JSON, is an error; null and "" are too. Paths that tell of something that varies
// from try to try are refused.
func JSONFields(paths ...string) Keyer {
	var faults []error
	for _, path := range paths {
		faults = append(faults, dedup.VetName(path))
		if path == "" {
			faults = append(faults, errors.New("a JSON path is empty"))
		}
	}
	if len(paths) == 0 {
		faults = append(faults, errors.New("no JSON paths are given"))
	}
	return keyer{func(msg *message.Message) (dedup.Key, error) {
		document, err := dedup.ParseJSON(msg.Payload)
		if err != nil {
			return dedup.Key{}, err
		}
		parts := make([]string, len(paths))
		for i, path := range paths {
			value := document.Lookup(path)
			if value.Kind() == dedup.Absent {
				return dedup.Key{}, fmt.Errorf("JSON field %q: %w", path, ErrNoKey)
			}
			if parts[i], err = value.KeyText(); err != nil {
				return dedup.Key{}, fmt.Errorf("JSON field %q: %w", path, err)
			}
			if parts[i] == "" {
				return dedup.Key{}, fmt.Errorf("JSON field %q: is empty", path)
			}
		}
		return dedup.Key{Scope: dedup.Global, ID: onePart(parts)}, nil
	}, errors.Join(faults...), false}
}

// onePart leaves a single part as it is and joins several.
func onePart(parts []string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	return dedup.JoinParts(parts...)
}

// JSONFingerprint digests the schema's fields of a JSON payload, for Config.Fingerprint.
// A schema that is wrong is an error at once.
func JSONFingerprint(schema dedup.Schema) (FingerprintFunc, error) {
	if err := schema.Validate(); err != nil {
		return nil, err
	}
	return func(msg *message.Message) (dedup.Fingerprint, error) { return schema.FromJSON(msg.Payload) }, nil
}

// PayloadDigest takes a digest of the whole payload as the key, for messages that have
// nothing better. It can't tell a retry from an honest repeat ("add one more"), so it needs
// a scope, and a window of time outside which an equal payload is another intent. The
// instant that is placed in a window must be the same on every try, such as the broker's
// stamp of the stored message; two tries on both sides of a window's edge are two intents.
func PayloadDigest(scope string, window time.Duration, instant func(msg *message.Message) (time.Time, error)) Keyer {
	var faults []error
	if scope == "" {
		faults = append(faults, errors.New("payload digest: scope is empty"))
	}
	if window < time.Second {
		faults = append(faults, fmt.Errorf("payload digest: window %v is shorter than a second", window))
	}
	if instant == nil {
		faults = append(faults, errors.New("payload digest: instant function is nil"))
	}
	return keyer{func(msg *message.Message) (dedup.Key, error) {
		at, err := instant(msg)
		if err != nil {
			return dedup.Key{}, fmt.Errorf("payload digest: instant: %w", err)
		}
		if at.IsZero() {
			return dedup.Key{}, errors.New("payload digest: instant is missing")
		}
		sum := sha256.Sum256(msg.Payload)
		number := at.UnixNano() / int64(window)
		return dedup.Key{Scope: scope, ID: dedup.JoinParts(hex.EncodeToString(sum[:]), fmt.Sprint(number))}, nil
	}, errors.Join(faults...), false}
}

// BusinessKey takes the key that pick finds in a JSON payload of type T: a string, an
// integer, a UUID, or a struct of them, whose fields are joined. Types that vary with time
// or have no exact text are refused; see dedup.VetType. A zero key is an error: it is what
// a missing field looks like in Go.
func BusinessKey[T any, K comparable](pick func(T) K) Keyer {
	fault := dedup.VetType(reflect.TypeFor[K]())
	if pick == nil {
		fault = errors.Join(fault, errors.New("business key: pick function is nil"))
	}
	return keyer{func(msg *message.Message) (dedup.Key, error) {
		var body T
		if err := json.Unmarshal(msg.Payload, &body); err != nil {
			// The decoder's own error may quote the payload.
			return dedup.Key{}, fmt.Errorf("business key: payload does not fit %T", body)
		}
		picked := pick(body)
		var zero K
		if picked == zero {
			return dedup.Key{}, fmt.Errorf("business key: %T is zero: %w", picked, ErrNoKey)
		}
		return dedup.Key{Scope: dedup.Global, ID: onePart(dedup.KeyParts(picked))}, nil
	}, fault, false}
}
