package dedup

import (
	"context"
	"errors"
	"time"
)

// Class says whose fault a failure is and so what happens to the message.
type Class string

// The classes of failure. Only ClassTransient counts as an attempt of the message.
const (
	// ClassTransient: the handler failed and may succeed later; counted, nacked.
	ClassTransient Class = "transient"
	// ClassPermanent: the handler said that no retry can help; dead letter.
	ClassPermanent Class = "permanent"
	// ClassExhausted: transient failures reached the allowed attempts; dead letter.
	ClassExhausted Class = "exhausted"
	// ClassIndeterminate: the outcome of an outside effect is unknown; parked.
	ClassIndeterminate Class = "indeterminate"
	// ClassInfrastructure: database or network; never the message's fault, not counted.
	ClassInfrastructure Class = "infrastructure"
	// ClassCanceled: the run was cancelled from outside, as by a shutdown; not counted.
	ClassCanceled Class = "canceled"
	// ClassKeyReused: the key came with another fingerprint; quarantined.
	ClassKeyReused Class = "key_reused"
	// ClassInvalidKey: the message gave no usable key; quarantined.
	ClassInvalidKey Class = "invalid_key"
)

// Counted reports whether a failure of this class uses up an attempt.
func (c Class) Counted() bool { return c == ClassTransient }

// Final reports whether a failure of this class ends the message's way: it becomes a
// dead letter.
func (c Class) Final() bool {
	switch c {
	case ClassPermanent, ClassExhausted, ClassIndeterminate, ClassKeyReused, ClassInvalidKey:
		return true
	}
	return false
}

// After is the class of a failure that was the attempts-th of maxAttempts allowed: a
// transient one becomes ClassExhausted at the last.
func (c Class) After(attempts, maxAttempts int) Class {
	if c == ClassTransient && attempts >= maxAttempts {
		return ClassExhausted
	}
	return c
}

// Permanent marks err as one that no retry can mend: the message is dead-lettered and
// its claim recorded as FAILED. A nil err stays nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// RetryAfter marks err as transient and asks that the next try come no sooner than delay
// from now. A delay of zero or less leaves the default delay. A nil err stays nil.
func RetryAfter(err error, delay time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err, delay}
}

// DelayOf returns the delay that [RetryAfter] asked for somewhere in err, else zero.
func DelayOf(err error) time.Duration {
	if asked, ok := errors.AsType[*retryAfterError](err); ok && asked.delay > 0 {
		return asked.delay
	}
	return 0
}

// ClassOf tells from err alone what kind of failure a handler reports. Stores refine a
// transient verdict: they know which errors are the database's.
func ClassOf(err error) Class {
	if _, ok := errors.AsType[*permanentError](err); ok {
		return ClassPermanent
	}
	if errors.Is(err, context.Canceled) {
		return ClassCanceled
	}
	return ClassTransient
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

type retryAfterError struct {
	err   error
	delay time.Duration
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }
