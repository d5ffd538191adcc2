package nats_test

import (
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer/nats"
)

// delivery is message 7 of the stream ORDERS, delivered for the second time.
type delivery struct {
	jetstream.Msg
	headers natsgo.Header
	broken  bool
}

func (d delivery) Metadata() (*jetstream.MsgMetadata, error) {
	if d.broken {
		return nil, jetstream.ErrNotJSMessage
	}
	return &jetstream.MsgMetadata{
		Sequence:     jetstream.SequencePair{Consumer: 9, Stream: 7},
		NumDelivered: 2,
		Timestamp:    time.Date(2026, 2, 3, 4, 5, 6, 7, time.FixedZone("", 3600)),
		Stream:       "ORDERS",
		Consumer:     "billing",
	}, nil
}

func (d delivery) Headers() natsgo.Header { return d.headers }
func (d delivery) Subject() string        { return "orders.new" }
func (d delivery) Data() []byte           { return []byte("payload") }

func TestUnmarshal_KeepsTheCoordinates(t *testing.T) {
	t.Parallel()
	msg, err := nats.Unmarshal(delivery{})
	require.NoError(t, err)
	require.Equal(t, "payload", string(msg.Payload))
	require.Equal(t, map[string]string{
		"nats_stream":    "ORDERS",
		"nats_sequence":  "7",
		"nats_delivered": "2",
		"nats_timestamp": "2026-02-03T03:05:06.000000007Z",
		"nats_subject":   "orders.new",
	}, map[string]string(msg.Metadata))
}

func TestUnmarshal_UUIDIsNeverEmpty(t *testing.T) {
	t.Parallel()
	for fact, row := range map[string]struct {
		headers natsgo.Header
		want    string
	}{
		"no header at all":             {nil, "ORDERS:7"},
		"message id wins":              {natsgo.Header{"Nats-Msg-Id": {"a"}, "_watermill_message_uuid": {"b"}}, "a"},
		"Watermill's UUID is next":     {natsgo.Header{"_watermill_message_uuid": {"b"}}, "b"},
		"empty ids count as none":      {natsgo.Header{"Nats-Msg-Id": {""}, "_watermill_message_uuid": {""}}, "ORDERS:7"},
		"first of two ids counts":      {natsgo.Header{"Nats-Msg-Id": {"a", "c"}}, "a"},
		"header without any value":     {natsgo.Header{"Nats-Msg-Id": {}}, "ORDERS:7"},
		"id in other case is no id":    {natsgo.Header{"nats-msg-id": {"a"}}, "ORDERS:7"},
		"coordinates can't be spoofed": {natsgo.Header{"nats_stream": {"X"}, "nats_sequence": {"1"}}, "ORDERS:7"},
	} {
		t.Run(fact, func(t *testing.T) {
			t.Parallel()
			msg, err := nats.Unmarshal(delivery{headers: row.headers})
			require.NoError(t, err)
			require.Equal(t, row.want, msg.UUID)
		})
	}
}

func TestUnmarshal_HeadersBecomeMetadata(t *testing.T) {
	t.Parallel()
	msg, err := nats.Unmarshal(delivery{headers: natsgo.Header{
		"tenant":                      {"acme"},
		"colour":                      {"red", "blue"},
		"none":                        {},
		"":                            {"no name"},
		"Odd name\x01":                {"\xff"},
		"Nats-Msg-Id":                 {"order-17"},
		"Nats-Expected-Last-Sequence": {"6"},
		"nats-rollup":                 {"all"},
		"_watermill_message_uuid":     {"b"},
		nats.MetadataMsgID:            {"forged"},
		nats.MetadataDelivered:        {"1"},
		nats.MetadataTimestamp:        {"2001-01-01T00:00:00Z"},
		nats.MetadataSubject:          {"forged"},
		"traceparent":                 {""},
	}})
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"tenant":               "acme",
		"colour":               `["red","blue"]`,
		"":                     "no name",
		"Odd name\x01":         "\xff",
		"traceparent":          "",
		nats.MetadataMsgID:     "order-17",
		nats.MetadataStream:    "ORDERS",
		nats.MetadataSequence:  "7",
		nats.MetadataDelivered: "2",
		nats.MetadataTimestamp: "2026-02-03T03:05:06.000000007Z",
		nats.MetadataSubject:   "orders.new",
	}, map[string]string(msg.Metadata))
}

func TestUnmarshal_ForgedMessageIDIsDroppedWhereThereIsNone(t *testing.T) {
	t.Parallel()
	msg, err := nats.Unmarshal(delivery{headers: natsgo.Header{nats.MetadataMsgID: {"forged"}}})
	require.NoError(t, err)
	require.NotContains(t, msg.Metadata, nats.MetadataMsgID)
}

func TestUnmarshal_RefusesWhatJetStreamDidNotDeliver(t *testing.T) {
	t.Parallel()
	_, err := nats.Unmarshal(delivery{broken: true})
	require.ErrorIs(t, err, jetstream.ErrNotJSMessage)
}
