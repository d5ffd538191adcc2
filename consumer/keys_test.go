package consumer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store/memory"
)

func withMetadata(payload string, pairs ...string) *message.Message {
	msg := message.NewMessage("uuid-1", message.Payload(payload))
	for i := 0; i < len(pairs); i += 2 {
		msg.Metadata.Set(pairs[i], pairs[i+1])
	}
	return msg
}

type body struct {
	Account int64  `json:"account"`
	Order   string `json:"order"`
}

type accountOrder struct {
	Account int64
	Order   string
}

func TestKeys_FindTheIntent(t *testing.T) {
	t.Parallel()
	noon := func(*message.Message) (time.Time, error) { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), nil }
	for name, c := range map[string]struct {
		key   consumer.Keyer
		msg   *message.Message
		scope string
		id    string
	}{
		"metadata":       {consumer.Metadata("event_id"), withMetadata("", "event_id", "e1"), "*", "e1"},
		"message UUID":   {consumer.MessageUUID(), withMetadata(""), "*", "uuid-1"},
		"a JSON field":   {consumer.JSONFields("order.id"), withMetadata(`{"order": {"id": "o1"}}`), "*", "o1"},
		"a big integer":  {consumer.JSONFields("id"), withMetadata(`{"id": 9007199254740993}`), "*", "9007199254740993"},
		"JSON fields":    {consumer.JSONFields("a", "b"), withMetadata(`{"a": "x", "b": 7}`), "*", "1:x,1:7"},
		"first of":       {consumer.FirstOf(consumer.Metadata("event_id"), consumer.MessageUUID()), withMetadata(""), "*", "uuid-1"},
		"joined":         {consumer.Join(consumer.Metadata("a"), consumer.Metadata("b")), withMetadata("", "a", "x", "b", "yz"), "*", "1:x,2:yz"},
		"in a scope":     {consumer.InScope(consumer.Metadata("tenant"), consumer.Metadata("id")), withMetadata("", "tenant", "t1", "id", "i1"), "t1", "i1"},
		"business key":   {consumer.BusinessKey(func(b body) string { return b.Order }), withMetadata(`{"order": "o1"}`), "*", "o1"},
		"business keys":  {consumer.BusinessKey(func(b body) accountOrder { return accountOrder(b) }), withMetadata(`{"account": 7, "order": "o1"}`), "*", "3:1:7,4:2:o1"},
		"binary event":   {consumer.CloudEvent(), withMetadata("", "ce-source", "/s", "ce-id", "1"), "*", "2:/s,1:1"},
		"Kafka event":    {consumer.CloudEvent(), withMetadata("", "ce_source", "/s", "ce_id", "1"), "*", "2:/s,1:1"},
		"AMQP event":     {consumer.CloudEvent(), withMetadata("", "cloudEvents:source", "/s", "cloudEvents:id", "1"), "*", "2:/s,1:1"},
		"JSON event":     {consumer.CloudEvent(), withMetadata(`{"source": "/s", "id": "1"}`, "Content-Type", "application/cloudevents+json; charset=utf-8"), "*", "2:/s,1:1"},
		"stable time":    {consumer.WithTime(consumer.Metadata("id"), noon), withMetadata("", "id", "i1"), "*", "i1"},
		"payload digest": {consumer.PayloadDigest("meter-7", time.Hour, noon), withMetadata("x"), "meter-7", "64:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881,6:493788"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := consumer.New(memory.New(), consumer.Config{Name: "billing", Key: c.key})
			require.NoError(t, err)
			key, err := c.key.Key(c.msg)
			require.NoError(t, err)
			require.Equal(t, c.scope, key.Scope)
			require.Equal(t, c.id, key.ID)
		})
	}
}

func TestKeys_WhatIsMissingIsAnErrorNotAKey(t *testing.T) {
	t.Parallel()
	bad := func(*message.Message) (time.Time, error) { return time.Time{}, errors.New("no stamp") }
	none := func(*message.Message) (time.Time, error) { return time.Time{}, nil }
	nameless := withMetadata("")
	nameless.UUID = ""
	for name, c := range map[string]struct {
		key     consumer.Keyer
		msg     *message.Message
		missing bool // FirstOf may ask the next
		says    string
	}{
		"metadata":             {consumer.Metadata("event_id"), withMetadata(""), true, `metadata "event_id"`},
		"message UUID":         {consumer.MessageUUID(), nameless, true, "message UUID"},
		"JSON field":           {consumer.JSONFields("id"), withMetadata(`{}`), true, `JSON field "id"`},
		"JSON null":            {consumer.JSONFields("id"), withMetadata(`{"id": null}`), false, "kind null"},
		"JSON empty":           {consumer.JSONFields("id"), withMetadata(`{"id": ""}`), false, "is empty"},
		"JSON fraction":        {consumer.JSONFields("id"), withMetadata(`{"id": 1.5}`), false, "kind decimal"},
		"JSON object":          {consumer.JSONFields("id"), withMetadata(`{"id": {"secret": 1}}`), false, "kind json"},
		"JSON duplicate":       {consumer.JSONFields("id"), withMetadata(`{"id": "secret", "id": 2}`), false, "duplicate member"},
		"not JSON":             {consumer.JSONFields("id"), withMetadata(`secret`), false, "malformed"},
		"all of FirstOf":       {consumer.FirstOf(consumer.Metadata("a"), consumer.Metadata("b")), withMetadata(""), true, "none of 2 keys"},
		"part of Join":         {consumer.Join(consumer.Metadata("a"), consumer.Metadata("b")), withMetadata("", "a", "secret"), true, `metadata "b"`},
		"empty part of Join":   {consumer.Join(consumer.Metadata("a"), consumer.Metadata("b")), withMetadata("", "a", "secret", "b", ""), false, "ID: is empty"},
		"scope":                {consumer.InScope(consumer.Metadata("tenant"), consumer.Metadata("id")), withMetadata("", "id", "secret"), true, "scope: "},
		"zero business key":    {consumer.BusinessKey(func(b body) string { return b.Order }), withMetadata(`{}`), true, "is zero"},
		"no fit for business":  {consumer.BusinessKey(func(b body) string { return b.Order }), withMetadata(`{"order": {"secret": 1}}`), false, "does not fit"},
		"event":                {consumer.CloudEvent(), withMetadata(`{"id": "secret"}`), true, "CloudEvent"},
		"event without source": {consumer.CloudEvent(), withMetadata("", "ce-id", "secret"), false, "source is missing"},
		"event without id":     {consumer.CloudEvent(), withMetadata("", "ce-source", "secret"), false, "id is missing"},
		"stable time":          {consumer.WithTime(consumer.Metadata("id"), bad), withMetadata("", "id", "secret"), false, "stable time: no stamp"},
		"zero stable time":     {consumer.WithTime(consumer.Metadata("id"), none), withMetadata("", "id", "secret"), false, "stable time: is missing"},
		"digest instant":       {consumer.PayloadDigest("meter", time.Hour, none), withMetadata("secret"), false, "instant is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := c.key.Key(c.msg)
			require.ErrorContains(t, err, c.says)
			require.Equal(t, c.missing, errors.Is(err, consumer.ErrNoKey))
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestKeys_InvalidKeyIsNotReplacedByTheNext(t *testing.T) {
	t.Parallel()
	b := setup(t, func(config *consumer.Config) {
		config.Key = consumer.FirstOf(consumer.Metadata("event_id"), consumer.MessageUUID())
	})
	b.acked(withMetadata("", "event_id", ""), bill)
	b.dead(dedup.ClassInvalidKey)
}

func TestNew_RefusesKeysThatCantBeRight(t *testing.T) {
	t.Parallel()
	noon := func(*message.Message) (time.Time, error) { return time.Now(), nil }
	for says, key := range map[string]consumer.Keyer{
		"Key: missing":               nil,
		"metadata name is empty":     consumer.Metadata(""),
		`"timestamp"`:                consumer.Metadata("sent-timestamp"),
		`"attempt"`:                  consumer.JSONFields("order.attempt"),
		"a JSON path is empty":       consumer.JSONFields("id", ""),
		"no JSON paths":              consumer.JSONFields(),
		"no keys are given":          consumer.FirstOf(),
		"one of the keys is nil":     consumer.Join(consumer.Metadata("a"), nil),
		`"nonce"`:                    consumer.FirstOf(consumer.Metadata("id"), consumer.Join(consumer.Metadata("nonce"))),
		"time function is nil":       consumer.WithTime(consumer.Metadata("id"), nil),
		"scope is empty":             consumer.PayloadDigest("", time.Hour, noon),
		"window 0s":                  consumer.PayloadDigest("meter", 0, noon),
		"instant function is nil":    consumer.PayloadDigest("meter", time.Hour, nil),
		"must not vary with time":    consumer.BusinessKey(func(body) time.Time { return time.Time{} }),
		"type float64: has no exact": consumer.BusinessKey(func(body) float64 { return 0 }),
		"pick function is nil":       consumer.BusinessKey[body, string](nil),
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			_, err := consumer.New(memory.New(), consumer.Config{Name: "billing", Key: key})
			require.ErrorContains(t, err, "Key: ")
			require.ErrorContains(t, err, says)
		})
	}
}

// limitedStore has eight connections.
type limitedStore struct{ *memory.Store }

func (limitedStore) MaxUnits() int { return 8 }

func (limitedStore) MaxTimedRetention() time.Duration { return 31 * 24 * time.Hour }

func TestNew_EachWrongFieldIsNamed(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*consumer.Config){
		"Name: is empty":               func(c *consumer.Config) { c.Name = "" },
		"Mode: ":                       func(c *consumer.Config) { c.Mode = "perhaps" },
		"Retention: -1s":               func(c *consumer.Config) { c.Retention = -time.Second },
		"Horizon: -1s":                 func(c *consumer.Config) { c.Horizon = -time.Second },
		"does not exceed Horizon 720h": func(c *consumer.Config) { c.Horizon = 30 * 24 * time.Hour },
		"HandlerTimeout: -1s":          func(c *consumer.Config) { c.HandlerTimeout = -time.Second },
		"MaxAttempts: -1":              func(c *consumer.Config) { c.MaxAttempts = -1 },
		"Concurrency: -1":              func(c *consumer.Config) { c.Concurrency = -1 },
		"Wait: -1s":                    func(c *consumer.Config) { c.Wait = -time.Second },
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			config := consumer.Config{Name: "billing", Key: consumer.Metadata("id")}
			change(&config)
			_, err := consumer.New(memory.New(), config)
			require.ErrorContains(t, err, says)
		})
	}
	small := limitedStore{memory.New()}
	_, err := consumer.New(small, consumer.Config{Name: "billing", Key: consumer.Metadata("id"), Concurrency: 9})
	require.ErrorContains(t, err, "Concurrency: 9 messages at once, and the store has 8 connections")
	_, err = consumer.New(small, consumer.Config{Name: "billing", Key: consumer.Metadata("id"), Concurrency: 8})
	require.NoError(t, err)
	_, err = consumer.New(nil, consumer.Config{})
	require.ErrorContains(t, err, "store: missing")
}

func TestNew_RetentionTooLongForAStableTimeIsRefused(t *testing.T) {
	t.Parallel()
	const month, longer = 31 * 24 * time.Hour, 32 * 24 * time.Hour
	id := consumer.Metadata("id")
	timed := consumer.WithTime(id, func(*message.Message) (time.Time, error) { return time.Now(), nil })
	for name, c := range map[string]struct {
		key       consumer.Keyer
		retention time.Duration
		refused   bool
	}{
		"no time":       {id, longer, false},
		"short":         {timed, month, false},
		"long":          {timed, longer, true},
		"one of two":    {consumer.FirstOf(id, timed), longer, true},
		"in a join":     {consumer.Join(id, timed), longer, true},
		"in a scope":    {consumer.InScope(id, timed), longer, true},
		"time of scope": {consumer.InScope(timed, id), longer, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := consumer.New(limitedStore{memory.New()}, consumer.Config{Name: "billing", Key: c.key, Retention: c.retention})
			if c.refused {
				require.ErrorContains(t, err, "Retention: 768h0m0s is longer than 744h0m0s")
				return
			}
			require.NoError(t, err)
		})
	}
}
