package consumer

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

// delivery is one arrival of a message, or one call of Do, on its way through the engine.
// Nothing in it knows Watermill.
type delivery struct {
	claim store.Claim
	// run calls the handler in the unit whose transaction ctx carries, and the guards.
	run func(ctx context.Context) error
	// letter is the message as a dead letter; nil when there is none, as in Do.
	letter *store.DeadLetter
	// broker keeps the message away after a nack; nil when it can't.
	broker *NackDelay
	// began is when the delivery arrived.
	began time.Time
	// verdict is what the claim met last.
	verdict dedup.Verdict
}

func (c *Consumer) newDelivery(run func(ctx context.Context) error) *delivery {
	return &delivery{
		claim: store.Claim{
			Consumer: c.identity, Wait: c.config.Wait,
			// The handler's own deadline comes first; this frees the key if it ignores that.
			IdleTimeout: c.config.HandlerTimeout + c.config.HandlerTimeout/4,
		},
		run: run, began: time.Now(),
	}
}

// identify sets the claim's identity from a key.
func (c *Consumer) identify(d *delivery, key dedup.Key) (err error) {
	name := dedup.NewClaimID
	if c.identity.Shadow {
		name = dedup.NewShadowClaimID
	}
	if key, err = key.Canonical(); err != nil {
		return err
	}
	d.claim.ID, err = name(c.config.Name, key)
	if !c.identity.Shadow { // a time that is refused would block a message
		d.claim.At = key.At
	}
	return err
}

// event is the outcome of the delivery so far.
func (d *delivery) event(kind EventKind) Event {
	return Event{Kind: kind, ClaimID: d.claim.ID, Verdict: d.verdict, Elapsed: time.Since(d.began)}
}
