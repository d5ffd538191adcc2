package consumer

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/dedup"
)

// EventKind says what became of a delivery.
type EventKind string

// The outcomes of a delivery. Each delivery has exactly one, except in observe mode, where
// Observed comes before the outcome.
const (
	// EventClaimed: the handler ran and its effect is committed.
	EventClaimed EventKind = "claimed"
	// EventDuplicate: the intent had taken effect before; acked.
	EventDuplicate EventKind = "duplicate"
	// EventBusy: another delivery is at work on the intent; nacked.
	EventBusy EventKind = "busy"
	// EventFailed: the handler failed, or was interrupted; nacked.
	EventFailed EventKind = "failed"
	// EventDead: the message was stored as a dead letter; acked.
	EventDead EventKind = "dead"
	// EventUnavailable: the database failed; nacked, not counted.
	EventUnavailable EventKind = "unavailable"
	// EventObserved: what Enforce would have done is in the verdict or the class.
	EventObserved EventKind = "observed"
)

// Event is the outcome of a delivery, for metrics and traces. It holds nothing of the
// message itself.
type Event struct {
	// Kind is the outcome.
	Kind EventKind
	// Consumer is the consumer's name.
	Consumer string
	// ClaimID is the claim's id; zero when the message gave no usable key.
	ClaimID dedup.ClaimID
	// Verdict is what the claim met.
	Verdict dedup.Verdict
	// Class is the class of the failure, if there was one.
	Class dedup.Class
	// Attempts is how many runs have failed so far, when that was counted.
	Attempts int
	// Elapsed is the time since the delivery arrived, waits included.
	Elapsed time.Duration
}

// tell calls the hook. What goes wrong in it must not touch the message.
func (c *Consumer) tell(ctx context.Context, event Event) {
	defer func() {
		if fault := recover(); fault != nil {
			c.config.Logger.ErrorContext(ctx, "OnEvent panicked", "consumer", c.config.Name, "kind", event.Kind)
		}
	}()
	event.Consumer = c.config.Name
	c.config.OnEvent(ctx, event)
}
