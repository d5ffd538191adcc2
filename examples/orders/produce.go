package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What chaos does to orders, besides the kills.
const (
	failShare = 0.2  // fail when they are delivered first
	slowShare = 0.01 // take longer than the broker waits
	slowness  = ackWait + ackWait/2
)

// accounts share the orders, so that balances are contended for.
const accounts = 50

// order is one order and its fate, which only the seed and its number decide.
type order struct {
	ID         string
	Account    int
	Cents      int64
	Twice      bool // published twice
	FailsFirst bool
	Takes      time.Duration
}

func makeOrder(s settings, number int) order {
	random := rand.New(rand.NewPCG(s.Seed, uint64(number)))
	o := order{
		ID:         fmt.Sprintf("order-%d", number),
		Account:    random.IntN(accounts),
		Cents:      1 + random.Int64N(100_00),
		Twice:      random.Float64() < s.Duplicates,
		FailsFirst: random.Float64() < failShare,
		Takes:      time.Duration(random.IntN(30)) * time.Millisecond,
	}
	if random.Float64() < slowShare {
		o.Takes = slowness
	}
	return o
}

// The metadata that an order travels with.
const (
	headerOrder  = "order_id"
	headerNumber = "number"
)

// publish sends all orders. Whoever is published twice gets two messages, as from a
// producer that retries after a lost answer.
func publish(ctx context.Context, js jetstream.JetStream, subject string, s settings) error {
	for number := range s.Messages {
		o := makeOrder(s, number)
		copies := 1
		if o.Twice {
			copies = 2
		}
		for range copies {
			msg := natsgo.NewMsg(subject)
			msg.Header.Set(headerOrder, o.ID)
			msg.Header.Set(headerNumber, strconv.Itoa(number))
			if _, err := js.PublishMsg(ctx, msg); err != nil {
				return fmt.Errorf("publish: %w", err)
			}
		}
	}
	return nil
}
