package dedup

import (
	"errors"
	"fmt"
	"time"
)

// Mode says whether claims block duplicates.
type Mode string

// The modes. The zero Mode means Enforce.
const (
	// Enforce blocks duplicates.
	Enforce Mode = "enforce"
	// Observe records shadow claims and reports what Enforce would have blocked; it blocks
	// and replays nothing.
	Observe Mode = "observe"
)

// ExpiredPolicy says what a delivery gets whose record is past its retention.
type ExpiredPolicy string

// The policies for expired records. The zero ExpiredPolicy means RejectExpired.
const (
	// RejectExpired refuses the delivery: a queue message is quarantined.
	RejectExpired ExpiredPolicy = "reject"
	// NewGeneration lets the intent take effect once more.
	NewGeneration ExpiredPolicy = "new_generation"
)

// Recovery says what happens to a leased claim whose owner died. None of them is a blind
// retry.
type Recovery string

// The recovery paths of leased actions.
const (
	// SafeToRepeat: the effect is deduplicated downstream inside a declared window.
	SafeToRepeat Recovery = "safe_to_repeat"
	// Reconcile: ask the other side what happened, then complete or repeat.
	Reconcile Recovery = "reconcile"
	// Manual: park the claim for an operator.
	Manual Recovery = "manual"
	// Abandon: record the claim as failed with an indeterminate outcome.
	Abandon Recovery = "abandon"
)

// Action is the policy of one consumer or endpoint. Front doors fill it from their own
// configuration and refuse to start when [Action.Validate] does.
type Action struct {
	// Name is the stable name of the logical handler. Required, at most 128 bytes.
	Name string
	// Mode is Enforce or Observe. Defaults to Enforce.
	Mode Mode
	// Retention is how long a finished claim is kept at least. Required.
	Retention time.Duration
	// Horizon is the longest time after which the same message can still come back: broker
	// redelivery, consumer downtime, redrive, a sender's resend. Zero means not declared;
	// else Retention must exceed it.
	Horizon time.Duration
	// HandlerTimeout bounds one run of the handler. Required.
	HandlerTimeout time.Duration
	// MaxAttempts is how many failed runs make a transient failure permanent. Required, at
	// least 1.
	MaxAttempts int
	// Expired says what a delivery past the retention gets. Defaults to RejectExpired.
	Expired ExpiredPolicy
	// Leased is nil for transactional actions.
	Leased *LeasePolicy
}

// LeasePolicy is the part of an [Action] for effects outside the database.
type LeasePolicy struct {
	// Length is how long ownership lasts without a heartbeat. Required. Without Heartbeat
	// it must exceed the action's HandlerTimeout.
	Length time.Duration
	// Heartbeat extends the lease every third of its Length while the handler runs.
	Heartbeat bool
	// Recovery says what happens when an owner dies. Required.
	Recovery Recovery
}

// Validate reports every field that is missing or wrong, each by its name, joined into
// one error.
func (a Action) Validate() error {
	var wrong []error
	refuse := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }

	if fault, ok := errors.AsType[*KeyError](checkName("Name", a.Name, MaxScopeBytes)); ok {
		refuse("%s: %s", fault.Field, fault.Fault)
	}
	switch a.Mode {
	case "", Enforce, Observe:
	default:
		refuse("Mode: unknown value of %d bytes; use Enforce or Observe", len(a.Mode))
	}
	if a.Retention <= 0 {
		refuse("Retention: %v is not positive", a.Retention)
	}
	if a.Horizon < 0 {
		refuse("Horizon: %v is negative", a.Horizon)
	}
	if a.Retention > 0 && a.Horizon >= a.Retention {
		refuse("Retention: %v does not exceed Horizon %v, after which the same message can still come back", a.Retention, a.Horizon)
	}
	if a.HandlerTimeout <= 0 {
		refuse("HandlerTimeout: %v is not positive", a.HandlerTimeout)
	}
	if a.MaxAttempts < 1 {
		refuse("MaxAttempts: %d is less than 1", a.MaxAttempts)
	}
	switch a.Expired {
	case "", RejectExpired, NewGeneration:
	default:
		refuse("Expired: unknown value of %d bytes; use RejectExpired or NewGeneration", len(a.Expired))
	}
	if a.Leased != nil {
		wrong = append(wrong, a.Leased.validate(a.HandlerTimeout)...)
	}
	return errors.Join(wrong...)
}

func (l LeasePolicy) validate(handlerTimeout time.Duration) (wrong []error) {
	if l.Length <= 0 {
		wrong = append(wrong, fmt.Errorf("Leased.Length: %v is not positive", l.Length))
	} else if !l.Heartbeat && l.Length <= handlerTimeout {
		wrong = append(wrong, fmt.Errorf(
			"Leased.Length: %v does not exceed HandlerTimeout %v; lengthen it or turn Heartbeat on", l.Length, handlerTimeout))
	}
	switch l.Recovery {
	case SafeToRepeat, Reconcile, Manual, Abandon:
	case "":
		wrong = append(wrong, errors.New("Leased.Recovery: missing; use SafeToRepeat, Reconcile, Manual or Abandon"))
	default:
		wrong = append(wrong, fmt.Errorf("Leased.Recovery: unknown value of %d bytes", len(l.Recovery)))
	}
	return wrong
}
