package nats_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer/nats"
	"github.com/oncebox/oncebox/dedup"
)

func TestMsgID_IsTheProducersIDInTheScopeOfTheStream(t *testing.T) {
	t.Parallel()
	msg, err := nats.Unmarshal(delivery{headers: natsgo.Header{"Nats-Msg-Id": {"order-17"}}})
	require.NoError(t, err)
	key, err := nats.MsgID().Key(msg)
	require.NoError(t, err)
	require.Equal(t, dedup.Key{Scope: "ORDERS", ID: "order-17"}, key)
}

func TestCoordinates_NameTheStoredMessage(t *testing.T) {
	t.Parallel()
	msg, err := nats.Unmarshal(delivery{headers: natsgo.Header{"nats_sequence": {"1"}}})
	require.NoError(t, err)
	key, err := nats.Coordinates().Key(msg)
	require.NoError(t, err)
	require.Equal(t, dedup.Key{Scope: "ORDERS", ID: "7@2026-02-03T03:05:06.000000007Z"}, key)
}

func TestKeys_MissingIdentityIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	foreign := message.NewMessage("", nil)
	_, err := nats.Coordinates().Key(foreign)
	require.ErrorIs(t, err, nats.ErrNoIdentity)
	require.ErrorContains(t, err, nats.MetadataStream)

	anonymous, err := nats.Unmarshal(delivery{})
	require.NoError(t, err)
	_, err = nats.MsgID().Key(anonymous)
	require.ErrorIs(t, err, nats.ErrNoIdentity)
	require.ErrorContains(t, err, nats.MetadataMsgID)
}
