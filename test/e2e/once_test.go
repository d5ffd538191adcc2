package e2e_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/dedup"
)

// publishOrder stores a message about an order, as a producer without Watermill does.
// Publishing an order twice makes two messages. An empty id sets no order_id at all.
func (o ordersStream) publishOrder(t *testing.T, id string) {
	t.Helper()
	msg := natsgo.NewMsg("orders.new")
	if id != "" {
		msg.Header.Set("order_id", id)
	}
	msg.Data = []byte("{}")
	_, err := o.js.PublishMsg(t.Context(), msg)
	require.NoError(t, err)
}

// publishOrders publishes count orders, each times, and returns their ids.
func (o ordersStream) publishOrders(t *testing.T, count, times int) (ids []string) {
	t.Helper()
	for i := range count {
		ids = append(ids, fmt.Sprint(i))
		for range times {
			o.publishOrder(t, ids[i])
		}
	}
	return ids
}

func TestOnce_ProducerPublishesTwice(t *testing.T) {
	t.Parallel()
	bed := setup(t)
	conn := startNATS(t).connect(t)
	stream := makeOrders(t, conn)
	orders := stream.publishOrders(t, 50, 2)
	stop := route(t, conn, bed.consumer(bed.db.Pool, nil), bed.write)
	stream.settled(t)
	stop()
	bed.onceEach(orders...)
}

func TestOnce_StreamReplayedFromTheStart(t *testing.T) {
	t.Parallel()
	bed := setup(t)
	conn := startNATS(t).connect(t)
	stream := makeOrders(t, conn)
	orders := stream.publishOrders(t, 50, 1)
	for range 2 {
		stop := route(t, conn, bed.consumer(bed.db.Pool, nil), bed.write)
		stream.settled(t)
		stop()
		require.NoError(t, stream.DeleteConsumer(t.Context(), "billing"))
	}
	bed.onceEach(orders...)
	require.Empty(t, bed.letters())
}

func TestOnce_FailingMessages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failure error
		class   string
	}{
		"a permanent failure is buried at once":           {dedup.Permanent(errors.New("no such account")), "permanent"},
		"a transient failure is buried after MaxAttempts": {errors.New("try again"), "exhausted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bed := setup(t)
			conn := startNATS(t).connect(t)
			stream := makeOrders(t, conn)
			stream.publishOrder(t, "bad")
			stream.publishOrder(t, "good")
			box := bed.consumer(bed.db.Pool, func(config *consumer.Config) { config.MaxAttempts = 3 })
			stop := route(t, conn, box, func(msg *message.Message) ([]*message.Message, error) {
				if _, err := bed.write(msg); err != nil {
					return nil, err
				}
				if msg.Metadata.Get("order_id") == "bad" {
					return nil, c.failure
				}
				return nil, nil
			})
			stream.settled(t)
			stop()
			bed.onceEach("good")
			require.Equal(t, map[string]int{c.class: 1}, bed.letters())
		})
	}
}

func TestOnce_MessageWithoutKeyIsKeptNotRun(t *testing.T) {
	t.Parallel()
	bed := setup(t)
	conn := startNATS(t).connect(t)
	stream := makeOrders(t, conn)
	stream.publishOrder(t, "")
	stream.publishOrder(t, "")
	stream.publishOrder(t, "1")
	stop := route(t, conn, bed.consumer(bed.db.Pool, nil), bed.write)
	stream.settled(t)
	stop()
	bed.onceEach("1")
	require.Equal(t, map[string]int{string(dedup.ClassInvalidKey): 2}, bed.letters())
	require.Equal(t, 1, bed.claims())
}
