package e2e_test

import (
	"os"
	"testing"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	sink "github.com/oncebox/oncebox/outbox/sink/watermill"
)

// The adapters as they are without further configuration. A test fails here when an adapter
// changes so that it is no longer recognised.
func TestWatermillSink_RecognisesAdaptersThatDoNotWait(t *testing.T) {
	t.Parallel()
	for remedy, adapter := range map[string]message.Publisher{
		"ConfirmDelivery": new(amqp.Publisher),
		"WaitForAll":      new(kafka.Publisher),
	} {
		_, err := sink.New(adapter, sink.Config{})
		require.ErrorIs(t, err, sink.ErrUnconfirmed)
		require.ErrorContains(t, err, remedy)
	}
	require.Equal(t, sarama.WaitForLocal, kafka.DefaultSaramaSyncPublisherConfig().Producer.RequiredAcks,
		"the adapter's default has changed: look at the sink again")
	conn, err := natsgo.Connect(os.Getenv("ONCEBOX_NATS_URL"))
	require.NoError(t, err, "ONCEBOX_NATS_URL must name a NATS server; run `make test`")
	t.Cleanup(conn.Close)
	for _, disabled := range []bool{false, true} {
		publisher, err := nats.NewPublisherWithNatsConn(conn, nats.PublisherPublishConfig{
			Marshaler: &nats.NATSMarshaler{}, SubjectCalculator: nats.DefaultSubjectCalculator,
			JetStream: nats.JetStreamConfig{Disabled: disabled},
		}, nil)
		require.NoError(t, err)
		_, err = sink.New(publisher, sink.Config{})
		if disabled {
			require.ErrorIs(t, err, sink.ErrUnconfirmed)
		} else {
			require.NoError(t, err, "with JetStream, it waits")
		}
	}
}
