package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/internal/failpoint"
	"github.com/oncebox/oncebox/store"
)

// handle takes a delivery to its outcome: nil acks it, an error nacks it.
func (c *Consumer) handle(ctx context.Context, d *delivery) error {
	busy := busyWait{hold: c.config.BusyHold}
	retries := retries{left: c.config.StoreRetries}
	for {
		if err := c.pause.wait(ctx); err != nil {
			return c.interrupted(ctx, d, err)
		}
		err := c.attempt(ctx, d)
		switch {
		case err == nil && d.verdict == dedup.Busy:
			if busy.again(ctx) {
				continue
			}
			return c.nack(ctx, d, d.event(EventBusy), ErrBusy)
		case err == nil && d.verdict == dedup.Proceed:
			c.tell(ctx, d.event(EventClaimed))
			return nil
		case err == nil:
			return c.settleHeld(ctx, d)
		}
		class := c.classOf(err)
		if class == dedup.ClassInfrastructure && retries.again(ctx) {
			continue
		}
		return c.settleFailure(ctx, d, class, err)
	}
}

// attempt claims and, when the claim is taken, runs the handler and commits. The verdict
// is left in the delivery.
func (c *Consumer) attempt(ctx context.Context, d *delivery) error {
	d.verdict = ""
	unit, held, err := c.begin(ctx, d)
	if err != nil {
		return err
	}
	d.verdict = dedup.Proceed
	if held != nil {
		d.verdict = dedup.Decide(held.Record, d.claim.Fingerprint, held.Now)
		if c.identity.Shadow {
			c.tell(ctx, d.event(EventObserved))
			d.verdict = dedup.Proceed
		}
	}
	if unit == nil {
		return nil
	}
	failpoint.Hit(failpoint.Claimed)
	if err := c.runInUnit(ctx, d, unit); err != nil {
		return err
	}
	failpoint.Hit(failpoint.BeforeCommit)
	if err := unit.Commit(ctx); err != nil {
		return err
	}
	failpoint.Hit(failpoint.Committed)
	return nil
}

// begin claims within the time that a handler has, and tells the pause how the database is.
func (c *Consumer) begin(ctx context.Context, d *delivery) (store.Unit, *store.Held, error) {
	bounded, cancel := context.WithCancel(c.beginDeadline.Within(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	unit, held, err := c.store.Begin(bounded, d.claim)
	switch {
	case err == nil:
		c.pause.end()
	case errors.Is(err, store.ErrUnavailable) && !errors.Is(err, context.Canceled):
		c.pause.lengthen()
	}
	return unit, held, err
}

// runInUnit runs the handler and rolls back unless it succeeds, also when it panics.
func (c *Consumer) runInUnit(ctx context.Context, d *delivery, unit store.Unit) error {
	returned := false
	defer func() {
		if !returned { // a panic is on its way
			_ = unit.Rollback(ctx)
			c.tell(ctx, d.event(EventFailed))
		}
	}()
	handlerCtx, cancel := c.handlerContext(ctx)
	defer cancel(nil)
	err := d.run(unit.Context(handlerCtx))
	returned = true
	if err == nil {
		return nil
	}
	undone := unit.Rollback(ctx)
	return c.blame(handlerCtx, err, undone)
}

// Causes for which a handler's context ends.
var (
	errHandlerTimeout = errors.New("handler timeout is over")
	errBeginTimeout   = errors.New("time for the claim is over")
	errShutdown       = errors.New("shutdown grace is over")
)

// handlerContext outlives the delivery's context by the shutdown grace, and ends after the
// handler timeout. The handler's database work is thus not torn down in the moment in
// which the router closes.
func (c *Consumer) handlerContext(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	handlerCtx, cancel := context.WithCancelCause(c.handlerDeadline.Within(ctx))
	stop := context.AfterFunc(ctx, func() {
		if hold(handlerCtx, c.config.ShutdownGrace) == nil {
			cancel(errShutdown)
		}
	})
	return handlerCtx, func(cause error) {
		stop()
		cancel(cause)
	}
}

// blame finds out whose fault a handler's error is, when the error alone does not say.
func (c *Consumer) blame(handlerCtx context.Context, err, undone error) error {
	cause := context.Cause(handlerCtx)
	switch {
	case c.store.Classify(err) == dedup.ClassPermanent:
		return err
	case errors.Is(cause, errShutdown):
		return &classedError{dedup.ClassCanceled, err}
	case errors.Is(cause, errHandlerTimeout):
		return &classedError{dedup.ClassTransient, fmt.Errorf("%w after %v: %w", errHandlerTimeout, c.config.HandlerTimeout, err)}
	case errors.Is(undone, store.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled):
		return &classedError{dedup.ClassInfrastructure, errors.Join(err, undone)}
	}
	return err
}

// classedError carries a class that was found out from more than the error.
type classedError struct {
	class dedup.Class
	err   error
}

func (e *classedError) Error() string { return e.err.Error() }
func (e *classedError) Unwrap() error { return e.err }

func (c *Consumer) classOf(err error) dedup.Class {
	if classed, ok := errors.AsType[*classedError](err); ok {
		return classed.class
	}
	return c.store.Classify(err)
}

// retries paces fresh runs after a failure of the database.
type retries struct {
	left   int
	growth *backoff.ExponentialBackOff // nil until it is needed
}

// again waits before the next run. It reports false when none is left or ctx ended.
func (r *retries) again(ctx context.Context) bool {
	if r.left <= 0 {
		return false
	}
	r.left--
	if r.growth == nil {
		r.growth = backoff.NewExponentialBackOff()
		r.growth.InitialInterval, r.growth.MaxInterval = 20*time.Millisecond, time.Second
	}
	return hold(ctx, r.growth.NextBackOff()) == nil
}
