package consumer

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/outbox"
)

// Errors of the guards that look at a message before COMMIT. Each means that the handler
// or the order of the middleware is wrong, and that nothing was committed.
var (
	// ErrAckedEarly says that the message was acked before COMMIT. The broker won't bring it
	// back, so it is stored as a dead letter.
	ErrAckedEarly = errors.New("message was acked before COMMIT: leave Ack to the router, and InstantAck out of the chain")
	// ErrNackedEarly says that the handler nacked the message and reported success.
	ErrNackedEarly = errors.New("message was nacked by the handler: return an error instead")
	// ErrSwallowed says that a middleware between oncebox and the handler took the handler's
	// error, so that half an effect would have been committed.
	ErrSwallowed = errors.New("handler failed, and a middleware inside oncebox hid it: put PoisonQueue and the like outside (see consumer.Chain)")
	// ErrRanTwice says that a middleware between oncebox and the handler ran it again in the
	// same transaction.
	ErrRanTwice = errors.New("handler ran more than once in one transaction: put Retry and the like outside (see consumer.Chain)")
)

// witness sees what the handler itself did. [Chain] puts it next to the handler.
type witness struct {
	runs int
	err  error
}

type witnessKey struct{}

// watch is the innermost middleware of [Chain].
func watch(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		produced, err := next(msg)
		if seen, ok := msg.Context().Value(witnessKey{}).(*witness); ok {
			seen.runs++
			seen.err = err
		}
		return produced, err
	}
}

// runGuarded runs the handler and refuses a success that is none.
func (c *Consumer) runGuarded(ctx context.Context, msg *message.Message, handler message.HandlerFunc) ([]*message.Message, error) {
	var seen witness
	poisoned := msg.Metadata.Get(middleware.ReasonForPoisonedKey)
	ctx = outbox.WithIncoming(context.WithValue(ctx, witnessKey{}, &seen), msg)
	msg.SetContext(ctx)
	produced, err := handler(msg)
	switch {
	case err != nil:
		return produced, err
	case c.identity.Shadow && !publishesToOutbox(ctx):
		return produced, nil
	case c.identity.Shadow:
		return nil, c.send(ctx, produced)
	case closed(msg.Acked()):
		return nil, dedup.Permanent(ErrAckedEarly)
	case closed(msg.Nacked()):
		return nil, ErrNackedEarly
	case seen.runs > 1:
		return nil, ErrRanTwice
	case seen.err != nil, msg.Metadata.Get(middleware.ReasonForPoisonedKey) != poisoned:
		return nil, ErrSwallowed
	}
	return nil, c.send(ctx, produced)
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
