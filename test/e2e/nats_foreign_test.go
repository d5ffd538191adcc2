package e2e_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer/nats"
)

func TestNATS_MessagesOfAnyProducerComeWithTheirIdentity(t *testing.T) {
	t.Parallel()
	conn := startNATS(t).connect(t)
	orders := makeOrders(t, conn)
	for _, header := range []natsgo.Header{
		nil,
		{"Nats-Msg-Id": {"order-17"}},
		{"colour": {"red", "blue"}},
		{"traceparent": {"00-1"}, "X-Odd~name!": {""}, "nats_stream": {"OTHER"}, "nats_msg_id": {"forged"}},
	} {
		_, err := orders.js.PublishMsg(t.Context(), &natsgo.Msg{Subject: "orders.new", Header: header})
		require.NoError(t, err)
	}
	publisher, err := wmnats.NewPublisherWithNatsConn(conn, wmnats.PublisherPublishConfig{
		Marshaler: &wmnats.NATSMarshaler{}, SubjectCalculator: wmnats.DefaultSubjectCalculator,
	}, watermill.NopLogger{})
	require.NoError(t, err)
	sent := message.NewMessage("uuid-5", nil)
	sent.Metadata.Set("tenant", "acme")
	require.NoError(t, publisher.Publish("orders.new", sent))

	messages := subscribe(t, openNATS(t, billing(conn)))
	for i, want := range []struct {
		uuid, name, value string
	}{
		{"ORDERS:1", nats.MetadataSubject, "orders.new"},
		{"order-17", nats.MetadataMsgID, "order-17"},
		{"ORDERS:3", "colour", `["red","blue"]`},
		{"ORDERS:4", nats.MetadataMsgID, ""},
		{"uuid-5", "tenant", "acme"},
	} {
		msg := next(t, messages)
		require.Equal(t, want.uuid, msg.UUID, "message %d", i+1)
		require.Equal(t, want.value, msg.Metadata.Get(want.name), "message %d", i+1)
		require.Equal(t, "ORDERS", msg.Metadata.Get(nats.MetadataStream), "message %d", i+1)
		msg.Ack()
	}
}
