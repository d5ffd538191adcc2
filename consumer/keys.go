package consumer

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/oncebox/oncebox/dedup"
)

// ErrNoKey says that a message does not have the key at all. [FirstOf] then asks the next;
// without a next the message is quarantined.
var ErrNoKey = errors.New("message has no key")

// Keyer finds the key of a message: what names its intent, the same on every delivery. A
// message whose key is missing wraps [ErrNoKey]; any error quarantines the message.
// Implementations must be safe for concurrent use and must not change the message.
type Keyer interface {
	Key(msg *message.Message) (dedup.Key, error)
}

// KeyFunc makes a [Keyer] of a function.
type KeyFunc func(msg *message.Message) (dedup.Key, error)

// Key calls f.
func (f KeyFunc) Key(msg *message.Message) (dedup.Key, error) { return f(msg) }

// checkedKeyer is a Keyer that may have been made wrongly; [New] finds out.
type checkedKeyer interface {
	Keyer
	check() error
}

// keyer is what the constructors of this package return.
type keyer struct {
	KeyFunc
	fault error
	timed bool // its keys may have a stable time
}

func (k keyer) check() error { return k.fault }

// timed reports whether one of the keys is known to have a stable time.
func timed(keyers ...Keyer) bool {
	return slices.ContainsFunc(keyers, func(k Keyer) bool {
		made, ok := k.(keyer)
		return ok && made.timed
	})
}

// faultOf is what was wrong in the making of k.
func faultOf(k Keyer) error {
	if k == nil {
		return errors.New("one of the keys is nil")
	}
	if checked, ok := k.(checkedKeyer); ok {
		return checked.check()
	}
	return nil
}

// Metadata takes the key from the metadata of that name, in the global scope. A name that
// tells of something that varies from try to try is refused; see dedup.VetName.
func Metadata(name string) Keyer {
	fault := dedup.VetName(name)
	if name == "" {
		fault = errors.New("metadata name is empty")
	}
	return keyer{func(msg *message.Message) (dedup.Key, error) {
		id, present := msg.Metadata[name]
		if !present {
			return dedup.Key{}, fmt.Errorf("metadata %q: %w", name, ErrNoKey)
		}
		return dedup.Key{Scope: dedup.Global, ID: id}, nil
	}, fault, false}
}

// MessageUUID takes Watermill's UUID of the message. It identifies what the producer's
// library published, not the intent: a producer that publishes twice makes two. Messages
// that were not published by Watermill may have none, which is an error here.
func MessageUUID() Keyer {
	return keyer{KeyFunc: func(msg *message.Message) (dedup.Key, error) {
		if msg.UUID == "" {
			return dedup.Key{}, fmt.Errorf("message UUID: %w", ErrNoKey)
		}
		return dedup.Key{Scope: dedup.Global, ID: msg.UUID}, nil
	}}
}

// FirstOf takes the first key that is there. A key that is there and invalid is an error:
// falling through to another would give one intent two keys.
func FirstOf(keyers ...Keyer) Keyer {
	return keyer{func(msg *message.Message) (dedup.Key, error) {
		for _, one := range keyers {
			key, err := one.Key(msg)
			if err == nil || !errors.Is(err, ErrNoKey) {
				return key, err
			}
		}
		return dedup.Key{}, fmt.Errorf("none of %d keys: %w", len(keyers), ErrNoKey)
	}, faultOfAll(keyers), timed(keyers...)}
}

// Join makes one key of several, which must all be there and in the same scope. Parts keep
// their lengths, so no two lists of parts give the same key. The stable time is that of
// the first part that has one.
func Join(keyers ...Keyer) Keyer {
	return keyer{func(msg *message.Message) (dedup.Key, error) {
		var joined dedup.Key
		parts := make([]string, len(keyers))
		for i, one := range keyers {
			key, err := one.Key(msg)
			if err != nil {
				return dedup.Key{}, err
			}
			if key, err = key.Canonical(); err != nil {
				return dedup.Key{}, err
			}
			if i > 0 && key.Scope != joined.Scope {
				return dedup.Key{}, errors.New("parts of a joined key have different scopes")
			}
			joined.Scope, parts[i] = key.Scope, key.ID
			if joined.At.IsZero() {
				joined.At = key.At
			}
		}
		joined.ID = dedup.JoinParts(parts...)
		return joined, nil
	}, faultOfAll(keyers), timed(keyers...)}
}

// InScope puts a key into the scope that another names by its id: a tenant, an account.
func InScope(scope, key Keyer) Keyer {
	return keyer{func(msg *message.Message) (dedup.Key, error) {
		within, err := scope.Key(msg)
		if err != nil {
			return dedup.Key{}, fmt.Errorf("scope: %w", err)
		}
		found, err := key.Key(msg)
		found.Scope = within.ID
		return found, err
	}, faultOfAll([]Keyer{scope, key}), timed(key)}
}

// WithTime names a time that is the same on every try of the intent, as the creation time
// of an event; never one of sending or arrival. Claims are then kept in time order, which
// costs less, and expire a day at a time. Config.Retention may then be 31 days at most. An
// error quarantines the message.
func WithTime(key Keyer, at func(msg *message.Message) (time.Time, error)) Keyer {
	fault := faultOf(key)
	if at == nil {
		fault = errors.Join(fault, errors.New("time function is nil"))
	}
	return keyer{func(msg *message.Message) (dedup.Key, error) {
		found, err := key.Key(msg)
		if err != nil {
			return dedup.Key{}, err
		}
		if found.At, err = at(msg); err != nil {
			return dedup.Key{}, fmt.Errorf("stable time: %w", err)
		}
		if found.At.IsZero() {
			return dedup.Key{}, errors.New("stable time: is missing")
		}
		return found, nil
	}, fault, true}
}

func faultOfAll(keyers []Keyer) error {
	if len(keyers) == 0 {
		return errors.New("no keys are given")
	}
	faults := make([]error, len(keyers))
	for i, one := range keyers {
		faults[i] = faultOf(one)
	}
	return errors.Join(faults...)
}
