package consumer_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

// until is a handler that works until done is closed or its context ends.
func until(started chan<- struct{}, done <-chan struct{}) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		close(started)
		select {
		case <-done:
			return bill(msg)
		case <-msg.Context().Done():
			return nil, msg.Context().Err()
		}
	}
}

func TestBusy_IsHeldAndAckedWhenTheOwnerFinishes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(config *consumer.Config) { config.BusyHold = 5 * time.Second })
		started, done := make(chan struct{}), make(chan struct{})
		owner := make(chan error)
		go func() { owner <- b.handle(order("1"), until(started, done)) }()
		<-started
		time.AfterFunc(2*time.Second, func() { close(done) })
		b.acked(order("1"), bill)
		require.NoError(t, <-owner)
		b.effects("1")
	})
}

func TestBusy_IsNackedAfterTheHoldAndNotCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(config *consumer.Config) { config.BusyHold = 5 * time.Second; config.MaxAttempts = 1 })
		started, done := make(chan struct{}), make(chan struct{})
		owner := make(chan error)
		go func() { owner <- b.handle(order("1"), until(started, done)) }()
		<-started
		began := time.Now()
		require.ErrorIs(t, b.nacked(order("1"), bill), consumer.ErrBusy)
		require.GreaterOrEqual(t, time.Since(began), 5*time.Second)
		require.Less(t, b.faulty.begun, 40, "it looks now and then, not all the time")
		close(done)
		require.NoError(t, <-owner)
		require.Empty(t, b.letters())
	})
}

func TestBusy_ShutdownEndsTheHoldAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(config *consumer.Config) { config.BusyHold = time.Hour })
		started, done := make(chan struct{}), make(chan struct{})
		owner := make(chan error)
		go func() { owner <- b.handle(order("1"), until(started, done)) }()
		<-started
		ctx, cancel := context.WithCancel(t.Context())
		msg := order("1")
		msg.SetContext(ctx)
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		b.nacked(msg, bill)
		require.Equal(t, time.Second, time.Since(began))
		close(done)
		<-owner
	})
}

func TestHandler_TimeoutIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(config *consumer.Config) { config.HandlerTimeout = 16 * time.Second; config.MaxAttempts = 2 })
		began := time.Now()
		b.nacked(order("1"), until(make(chan struct{}), nil))
		require.InDelta(t, 16.5, time.Since(began).Seconds(), 1)
		b.acked(order("1"), until(make(chan struct{}), nil))
		require.Contains(t, b.dead(dedup.ClassExhausted).Reason, "handler timeout is over after 16s")
	})
}

func TestShutdown_HandlerHasItsGrace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes time.Duration
		acked bool
	}{
		"ends within":    {9 * time.Second, true},
		"is interrupted": {11 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, func(config *consumer.Config) { config.ShutdownGrace = 10 * time.Second; config.MaxAttempts = 1 })
				ctx, cancel := context.WithCancel(t.Context())
				msg := order("1")
				msg.SetContext(ctx)
				started, done := make(chan struct{}), make(chan struct{})
				go func() {
					<-started
					cancel()
					time.AfterFunc(c.takes, func() { close(done) })
				}()
				err := b.handle(msg, until(started, done))
				require.Equal(t, c.acked, err == nil, "%v", err)
				require.Empty(t, b.letters(), "a shutdown is no failure")
				time.Sleep(time.Minute)
			})
		})
	}
}

func TestPause_NobodyHammersADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(config *consumer.Config) { config.StoreRetries = -1; config.NackDelay = -1 })
		for range 10_000 {
			b.faulty.begins = append(b.faulty.begins, store.ErrUnavailable)
		}
		stop := make(chan struct{})
		time.AfterFunc(time.Minute, func() { close(stop) })
		workers := make(chan struct{})
		for range 8 {
			go func() {
				defer func() { workers <- struct{}{} }()
				for {
					select {
					case <-stop:
						return
					default:
						_ = b.handle(order("1"), bill)
					}
				}
			}()
		}
		for range 8 {
			<-workers
		}
		require.Less(t, b.faulty.begun, 200, "in a minute, by eight workers")
		b.faulty.begins = nil
		b.acked(order("1"), bill)
		b.acked(order("2"), bill)
		b.effects("1", "2")
	})
}

func TestRetryAfter_IsLeftToABrokerThatCan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const brokers = time.Minute
		for name, c := range map[string]struct {
			configured time.Duration
			err        error
			want       time.Duration
		}{
			"asked for":              {2 * time.Second, dedup.RetryAfter(errTax, time.Hour), time.Hour},
			"configured":             {2 * time.Second, errTax, 2 * time.Second},
			"left to the broker":     {0, errTax, brokers},
			"none at all":            {-1, errTax, 0},
			"asked for, none is set": {0, dedup.RetryAfter(errTax, time.Hour), time.Hour},
		} {
			b := setup(t, func(config *consumer.Config) { config.NackDelay = c.configured })
			msg := order(name)
			delay := consumer.WithNackDelay(msg)
			began := time.Now()
			b.nacked(msg, failing(c.err))
			require.Zero(t, time.Since(began), "it is not held")
			require.Equal(t, c.want, delay.Or(brokers), name)
		}
	})
}

func TestRetryAfter_DelayIsNotThatOfAMessageWithTheSameContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		outer, produced := order("1"), order("2")
		delay := consumer.WithNackDelay(outer)
		produced.SetContext(outer.Context())
		began := time.Now()
		b.nacked(produced, failing(dedup.RetryAfter(errTax, 7*time.Second)))
		require.Equal(t, 7*time.Second, time.Since(began), "it is held")
		require.Equal(t, time.Minute, delay.Or(time.Minute), "nobody asked for the outer one")
	})
}

func TestRetryAfter_IsNotRetriedInTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		chain, err := consumer.Chain(b.Consumer, consumer.ChainConfig{Retry: &middleware.Retry{MaxRetries: 9, InitialInterval: time.Millisecond}})
		require.NoError(t, err)
		runs := 0
		handle := message.HandlerFunc(func(*message.Message) ([]*message.Message, error) {
			runs++
			return nil, dedup.RetryAfter(errTax, time.Hour)
		})
		for _, one := range slices.Backward(chain) {
			handle = one(handle)
		}
		msg := order("1")
		delay := consumer.WithNackDelay(msg)
		_, err = handle(msg)
		require.ErrorIs(t, err, errTax)
		require.Equal(t, 1, runs)
		require.Equal(t, time.Hour, delay.Or(0))
	})
}

func TestRetryAfter_HoldsThatLongAndNotForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		began := time.Now()
		b.nacked(order("1"), failing(dedup.RetryAfter(errTax, 7*time.Second)))
		require.Equal(t, 7*time.Second, time.Since(began))
		began = time.Now()
		b.nacked(order("1"), failing(dedup.RetryAfter(errTax, time.Hour)))
		require.Equal(t, consumer.MaxNackHold, time.Since(began))
	})
}
