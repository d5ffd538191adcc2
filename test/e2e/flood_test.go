package e2e_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
)

func TestOnce_FloodOfCopiesLeavesOtherKeysAlone(t *testing.T) {
	t.Parallel()
	const (
		copies   = 10_000
		others   = 200
		workers  = 32
		poolSize = 8
	)
	bed := setup(t)
	billing := bed.consumer(bed.pool(poolSize, nil), nil)

	// The hot message stays in work until every other key is through, so its copies can
	// make no room by finishing.
	var othersLeft atomic.Int64
	othersLeft.Store(others)
	othersDone := make(chan struct{})
	handle := billing.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		if msg.Metadata.Get("order_id") == "hot" {
			select {
			case <-othersDone:
			case <-msg.Context().Done():
				return nil, msg.Context().Err()
			}
		}
		return bed.write(msg)
	})

	queue := make(chan *message.Message, copies+others)
	orders := []string{"hot"}
	for range copies {
		queue <- order("hot")
	}
	for i := range others {
		orders = append(orders, fmt.Sprint(i))
	}
	for i := range copies + others { // mix: take one, put it behind, with another key now and then
		if i < others {
			queue <- order(orders[i+1])
			continue
		}
		if i%2 == 0 {
			queue <- <-queue
		}
	}

	var settled atomic.Int64
	var team sync.WaitGroup
	for range workers {
		team.Go(func() {
			for msg := range queue {
				if _, err := handle(msg); err != nil {
					queue <- order(msg.Metadata.Get("order_id")) // nacked: delivered again
					continue
				}
				if msg.Metadata.Get("order_id") != "hot" && othersLeft.Add(-1) == 0 {
					close(othersDone)
				}
				if settled.Add(1) == copies+others {
					close(queue)
				}
			}
		})
	}
	team.Wait()
	require.EqualValues(t, copies+others, settled.Load())
	bed.onceEach(orders...)
	require.Empty(t, bed.letters())
	require.Empty(t, bed.attempts(), "busy is not a failure")
}
