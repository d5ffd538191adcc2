package nats

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncebox/oncebox/consumer"
)

// ackTimeout bounds the wait for the server's word that an ack has arrived. An ack that
// got lost costs a redelivery, which is then a duplicate.
const ackTimeout = 5 * time.Second

// deliver hands one message over and tells the server what became of it.
func (s *subscription) deliver(ctx, stopping, patience context.Context, delivery jetstream.Msg) {
	made, err := Unmarshal(delivery)
	if err != nil {
		s.logger.Error("Message can't be read; nacked", err, nil)
		s.report("nack", delivery.NakWithDelay(s.config.NackDelay), nil)
		return
	}
	fields := watermill.LogFields{"sequence": made.Metadata.Get(MetadataSequence)}
	work, done := context.WithCancel(ctx)
	defer done()
	made.SetContext(work)
	delay := consumer.WithNackDelay(made)

	if stopping.Err() != nil || !s.hand(stopping, made) {
		// No handler has seen it: another worker can have it at once.
		s.report("hand back", delivery.Nak(), fields)
		return
	}
	select {
	case <-made.Acked():
		confirm, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackTimeout)
		defer cancel()
		s.report("ack", delivery.DoubleAck(confirm), fields)
	case <-made.Nacked():
		s.report("nack", delivery.NakWithDelay(delay.Or(s.config.NackDelay)), fields)
	case <-patience.Done():
		s.abandoned.Add(1)
		s.logger.Info("Handler still at work when the subscriber stopped; the message comes back", fields)
	}
}

// hand gives the message to whoever reads the output, unless the subscription stops first.
func (s *subscription) hand(stopping context.Context, made *message.Message) bool {
	select {
	case s.output <- made:
		return true
	case <-stopping.Done():
		return false
	}
}

func (s *subscription) report(action string, err error, fields watermill.LogFields) {
	if err != nil {
		s.logger.Error("Can't "+action+"; the message comes back", err, fields)
	}
}
