package main

import (
	"encoding/json"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncebox/oncebox/outbox"
)

// invoice is what invoices.issued tells: the account's invoices are numbered from 1.
type invoice struct {
	Order   string `json:"order_id"`
	Account int    `json:"account"`
	Number  int64  `json:"number"`
	Cents   int64  `json:"cents"`
}

// event is the message that tells of the invoice. Those of one account are to come in order.
func (i invoice) event() (*message.Message, error) {
	payload, err := json.Marshal(i)
	if err != nil {
		return nil, err
	}
	event := message.NewMessage(watermill.NewUUID(), payload)
	event.Metadata.Set(outbox.MetadataKey, fmt.Sprint("account-", i.Account))
	return event, nil
}

// directPublisher publishes to JetStream at once, and waits for the confirmation.
type directPublisher struct{ js jetstream.JetStream }

func (p directPublisher) Publish(topic string, events ...*message.Message) error {
	for _, one := range events {
		msg := natsgo.NewMsg(topic)
		msg.Data = one.Payload
		if _, err := p.js.PublishMsg(one.Context(), msg); err != nil {
			return err
		}
	}
	return nil
}

func (directPublisher) Close() error { return nil }
