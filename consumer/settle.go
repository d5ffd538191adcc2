package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/internal/failpoint"
	"github.com/oncebox/oncebox/store"
)

// settleTimeout bounds what is written about a message after its run; that outlives the
// message's context, or a shutdown would lose it.
const settleTimeout = 10 * time.Second

// Errors that [Consumer.Do] returns for a claim that is held. Messages meet them as dead
// letters.
var (
	// ErrKeyReused says that the key is held by an intent with another fingerprint.
	ErrKeyReused = errors.New("key was used for another intent: its fingerprint differs")
	// ErrFailedBefore says that the intent failed for good earlier.
	ErrFailedBefore = errors.New("intent failed for good before")
	// ErrExpired says that the claim is past its retention.
	ErrExpired = errors.New("claim is past its retention")
)

// settleHeld ends a delivery whose claim is held and not in flight.
func (c *Consumer) settleHeld(ctx context.Context, d *delivery) error {
	switch d.verdict {
	case dedup.Replay:
		c.tell(ctx, d.event(EventDuplicate))
		return nil
	case dedup.KeyReused:
		return c.quarantine(ctx, d, dedup.ClassKeyReused, ErrKeyReused)
	case dedup.FailedBefore:
		return c.quarantine(ctx, d, dedup.ClassPermanent, ErrFailedBefore)
	case dedup.Expired:
		return c.quarantine(ctx, d, dedup.ClassPermanent, ErrExpired)
	}
	// A claim whose lease ran out belongs to a leased consumer of the same name.
	return c.nack(ctx, d, d.event(EventBusy), fmt.Errorf("%w: verdict %s", ErrBusy, d.verdict))
}

// settleFailure ends a delivery that failed.
func (c *Consumer) settleFailure(ctx context.Context, d *delivery, class dedup.Class, err error) error {
	event := d.event(EventFailed)
	event.Class = class
	switch {
	case errors.Is(err, store.ErrFutureTime) && d.letter != nil && !c.identity.Shadow:
		return c.quarantine(ctx, d, dedup.ClassInvalidKey, err)
	case class == dedup.ClassInfrastructure:
		event.Kind = EventUnavailable
		return c.nack(ctx, d, event, err)
	case class == dedup.ClassCanceled, d.letter == nil, c.identity.Shadow:
		return c.nack(ctx, d, event, err)
	}
	return c.recordFailure(ctx, d, event, err)
}

// recordFailure counts the failure, and buries the message when it was the last.
func (c *Consumer) recordFailure(ctx context.Context, d *delivery, event Event, err error) error {
	letter := *d.letter
	letter.Reason = err.Error()
	recording, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	settled, recordErr := c.store.Fail(recording, store.Failure{
		Claim: d.claim, Class: event.Class, MaxAttempts: c.config.MaxAttempts, Letter: letter,
	})
	if recordErr != nil {
		event.Kind, event.Class = EventUnavailable, c.classOf(recordErr)
		return c.nack(ctx, d, event, errors.Join(err, recordErr))
	}
	failpoint.Hit(failpoint.Failed)
	event.Attempts = settled.Attempts
	if settled.Buried {
		event.Kind, event.Class = EventDead, event.Class.After(settled.Attempts, c.config.MaxAttempts)
		c.log(ctx, d, "message is a dead letter", event)
		c.tell(ctx, event)
		return nil
	}
	if settled.Held != nil {
		if d.verdict = dedup.Decide(settled.Held.Record, d.claim.Fingerprint, settled.Held.Now); d.verdict != dedup.Busy {
			return c.settleHeld(ctx, d)
		}
	}
	return c.nack(ctx, d, event, err)
}

// quarantine stores the message as a dead letter without touching a claim, and acks it.
// Without a message, as in Do, the reason is the caller's error.
func (c *Consumer) quarantine(ctx context.Context, d *delivery, class dedup.Class, reason error) error {
	event := d.event(EventDead)
	event.Class = class
	if d.letter == nil {
		event.Kind = EventFailed
		c.tell(ctx, event)
		return reason
	}
	letter := *d.letter
	letter.Class, letter.Reason = class, reason.Error()
	recording, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if err := c.store.Quarantine(recording, letter); err != nil {
		event.Kind, event.Class = EventUnavailable, c.classOf(err)
		return c.nack(ctx, d, event, errors.Join(reason, err))
	}
	c.log(ctx, d, "message is quarantined", event)
	c.tell(ctx, event)
	return nil
}

// nack tells the outcome, keeps the message away, and returns the error that nacks it.
func (c *Consumer) nack(ctx context.Context, d *delivery, event Event, err error) error {
	c.tell(ctx, event)
	if d.letter != nil { // Do returns to its caller, who knows better when to come back
		delay := c.config.NackDelay
		if asked := dedup.DelayOf(err); asked > 0 {
			delay = asked
		}
		stayAway(ctx, d.broker, delay)
	}
	return fmt.Errorf("consumer %s: claim %s: %w", c.config.Name, d.claim.ID, err)
}

// interrupted ends a delivery whose context ended while it waited.
func (c *Consumer) interrupted(ctx context.Context, d *delivery, err error) error {
	event := d.event(EventFailed)
	event.Class = dedup.ClassCanceled
	return c.nack(ctx, d, event, err)
}

func (c *Consumer) log(ctx context.Context, d *delivery, text string, event Event) {
	c.config.Logger.WarnContext(ctx, text,
		"consumer", c.config.Name, "claim", d.claim.ID.String(), "class", event.Class, "attempts", event.Attempts)
}
