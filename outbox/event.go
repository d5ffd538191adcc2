package outbox

import (
	"context"
	"time"
)

// EventKind says what a relay did or met.
type EventKind string

// What a relay tells of.
const (
	// EventPublished: Count messages are confirmed and passed; Age is the oldest one's.
	EventPublished EventKind = "published"
	// EventParked: Count messages could not be published now, or come after one of their key.
	EventParked EventKind = "parked"
	// EventDead: Count messages were given up; they stay parked for an operator.
	EventDead EventKind = "dead"
	// EventHeldUp: Count keys of the bucket are held up by parked messages. It is told when
	// they are looked at.
	EventHeldUp EventKind = "held_up"
	// EventLeased: the bucket was taken.
	EventLeased EventKind = "leased"
	// EventReleased: the bucket was given back.
	EventReleased EventKind = "released"
	// EventFenced: a write was refused, since another relay has taken the bucket over.
	EventFenced EventKind = "fenced"
	// EventOutage: the broker failed; publishing pauses. EventRecovered: it goes on.
	EventOutage    EventKind = "outage"
	EventRecovered EventKind = "recovered"
	// EventEmptied: Count slots of the ring were emptied. EventFull: Count are waiting for it.
	EventEmptied EventKind = "emptied"
	EventFull    EventKind = "full"
	// EventFailed: the database failed; the relay begins anew.
	EventFailed EventKind = "failed"
)

// Event is something that happened in a relay, for metrics and logs. It holds nothing of a
// message.
type Event struct {
	// Kind is what happened.
	Kind EventKind
	// Bucket is the bucket, -1 when it was none in particular.
	Bucket int
	// Count is how many.
	Count int
	// Age is the time since the oldest message of a page was stored, by the store's clock.
	Age time.Duration
	// Err is what went wrong, if something did. It may name hosts and topics.
	Err error
}

// tell calls the hook. What goes wrong in it must not touch the relay.
func (r *Relay) tell(ctx context.Context, event Event) {
	defer func() {
		if recover() != nil {
			r.config.Logger.ErrorContext(ctx, "OnEvent panicked", "kind", event.Kind)
		}
	}()
	switch event.Kind {
	case EventDead, EventFenced, EventOutage, EventFailed:
		r.config.Logger.WarnContext(ctx, "outbox: "+string(event.Kind), "bucket", event.Bucket, "count", event.Count, "error", event.Err)
	case EventRecovered:
		r.config.Logger.InfoContext(ctx, "outbox: recovered")
	}
	r.config.OnEvent(ctx, event)
}
