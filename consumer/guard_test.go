package consumer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
	"github.com/oncebox/oncebox/store/memory"
)

func TestGuard_RefusesASuccessThatIsNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler message.HandlerFunc
		refusal error
	}{
		"nacked by the handler": {func(msg *message.Message) ([]*message.Message, error) {
			msg.Nack()
			return bill(msg)
		}, consumer.ErrNackedEarly},
		"messages to publish": {func(msg *message.Message) ([]*message.Message, error) {
			_, err := bill(msg)
			return []*message.Message{message.NewMessage("produced", nil)}, err
		}, consumer.ErrNoTopic},
		"aborted transaction": {func(msg *message.Message) ([]*message.Message, error) {
			tx, err := memory.TxFrom(msg.Context())
			if err != nil {
				return nil, err
			}
			return nil, tx.Abort()
		}, store.ErrAborted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, nil)
			require.ErrorIs(t, b.nacked(order("1"), c.handler), c.refusal)
			b.effects()
			b.acked(order("1"), bill)
			b.effects("1")
		})
	}
}

// The broker won't bring back what was acked, so it is kept.
func TestGuard_EarlyAckIsRefusedAndTheMessageKept(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.acked(order("1"), func(msg *message.Message) ([]*message.Message, error) {
		msg.Ack()
		return bill(msg)
	})
	b.effects()
	require.Contains(t, b.dead(dedup.ClassPermanent).Reason, "acked before COMMIT")
}

func TestGuard_InstantAckOutsideIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	_, err := middleware.InstantAck(b.Middleware(bill))(order("1"))
	require.NoError(t, err)
	b.effects()
	b.dead(dedup.ClassPermanent)
}

func TestGuard_PoisonQueueInsideCommitsNoHalfEffect(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	poison, err := middleware.PoisonQueue(gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{}), "poison")
	require.NoError(t, err)
	require.ErrorIs(t, b.nacked(order("1"), poison(failing(errTax))), consumer.ErrSwallowed)
	b.effects()
}

// chained puts a middleware where Chain would not: between oncebox and the handler.
func chained(t *testing.T, b *bed, inside message.HandlerMiddleware, handler message.HandlerFunc) message.HandlerFunc {
	t.Helper()
	chain, err := consumer.Chain(b.Consumer, consumer.ChainConfig{})
	require.NoError(t, err)
	innermost := chain[len(chain)-1]
	return b.Middleware(inside(innermost(handler)))
}

func TestGuard_RetryInsideIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	runs := 0
	flaky := func(msg *message.Message) ([]*message.Message, error) {
		if runs++; runs == 1 {
			return nil, errTax
		}
		return bill(msg)
	}
	_, err := chained(t, b, middleware.Retry{MaxRetries: 3}.Middleware, flaky)(order("1"))
	require.ErrorIs(t, err, consumer.ErrRanTwice)
	b.effects()
}

func TestGuard_SwallowedErrorIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	ignore := middleware.NewIgnoreErrors([]error{errTax}).Middleware
	_, err := chained(t, b, ignore, failing(errTax))(order("1"))
	require.ErrorIs(t, err, consumer.ErrSwallowed)
	b.effects()
}

func TestChain_RetryHasATransactionForEachRun(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	chain, err := consumer.Chain(b.Consumer, consumer.ChainConfig{
		Retry: &middleware.Retry{MaxRetries: 3, InitialInterval: time.Millisecond}, CorrelationID: true, Timeout: time.Second,
	})
	require.NoError(t, err)
	runs := 0
	handler := func(msg *message.Message) ([]*message.Message, error) {
		if _, err := bill(msg); err != nil {
			return nil, err
		}
		switch runs++; runs {
		case 1:
			return nil, errTax
		case 2:
			panic("boom")
		}
		return nil, nil
	}
	for i := len(chain) - 1; i >= 0; i-- {
		handler = chain[i](handler)
	}
	_, err = handler(order("1"))
	require.NoError(t, err)
	require.Equal(t, 3, runs)
	b.effects("1")
	require.Empty(t, b.letters())
}

func TestChain_WrongConfigIsNamed(t *testing.T) {
	t.Parallel()
	_, err := consumer.Chain(nil, consumer.ChainConfig{})
	require.ErrorContains(t, err, "consumer: missing")
	b := setup(t, nil)
	_, err = consumer.Chain(b.Consumer, consumer.ChainConfig{Timeout: time.Hour})
	require.ErrorContains(t, err, "Timeout: 1h0m0s")
}

func TestTransaction_IsClosedWhenTheHandlerHasReturned(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	var kept *memory.Tx
	b.acked(order("1"), func(msg *message.Message) ([]*message.Message, error) {
		var err error
		kept, err = memory.TxFrom(msg.Context())
		return nil, errors.Join(err, kept.Put("1", ""))
	})
	require.ErrorIs(t, kept.Put("late", ""), store.ErrTxClosed)
}
