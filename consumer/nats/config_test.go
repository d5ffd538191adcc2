package nats_test

import (
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer/nats"
)

func TestNewSubscriber_NamesTheWrongField(t *testing.T) {
	t.Parallel()
	for fact, row := range map[string]struct {
		change func(*nats.Config)
		want   string
	}{
		"no connection": {
			func(c *nats.Config) { c.Conn = nil }, "Conn, URL: one is required"},
		"two connections": {
			func(c *nats.Config) { c.URL = "nats://localhost" }, "Conn, URL: both are set"},
		"no stream": {
			func(c *nats.Config) { c.Stream = "" }, "Stream: required"},
		"stream named like a subject": {
			func(c *nats.Config) { c.Stream = "orders.new" }, "Stream: holds a space, a dot"},
		"no durable": {
			func(c *nats.Config) { c.Durable = "" }, "Durable: required"},
		"durable with a space": {
			func(c *nats.Config) { c.Durable = "my billing" }, "Durable: holds a space"},
		"filter with an empty part": {
			func(c *nats.Config) { c.FilterSubject = "orders..new" }, "FilterSubject: has an empty part"},
		"filter with an early wildcard": {
			func(c *nats.Config) { c.FilterSubject = "orders.>.new" }, "FilterSubject: has the wildcard"},
		"filter with a space": {
			func(c *nats.Config) { c.FilterSubject = "orders new" }, "FilterSubject: holds a space"},
		"negative AckWait": {
			func(c *nats.Config) { c.AckWait = -1 }, "AckWait: -1ns is negative"},
		"negative HandlerTimeout": {
			func(c *nats.Config) { c.HandlerTimeout = -1 }, "HandlerTimeout: -1ns is negative"},
		"handler as slow as AckWait": {
			func(c *nats.Config) { c.HandlerTimeout = time.Minute }, "HandlerTimeout: 1m0s is not below AckWait 1m0s"},
		"negative NackDelay": {
			func(c *nats.Config) { c.NackDelay = -1 }, "NackDelay: -1ns is negative"},
		"negative Concurrency": {
			func(c *nats.Config) { c.Concurrency = -1 }, "Concurrency: -1 is negative"},
		"fewer pending than workers": {
			func(c *nats.Config) { c.Concurrency, c.MaxAckPending = 8, 7 }, "MaxAckPending: 7 is below Concurrency 8"},
		"impossible MaxDeliver": {
			func(c *nats.Config) { c.MaxDeliver = -2 }, "MaxDeliver: -2 is neither positive nor Unlimited"},
		"negative CloseTimeout": {
			func(c *nats.Config) { c.CloseTimeout = -1 }, "CloseTimeout: -1ns is negative"},
	} {
		t.Run(fact, func(t *testing.T) {
			t.Parallel()
			config := nats.Config{Conn: new(natsgo.Conn), Stream: "ORDERS", Durable: "billing"}
			row.change(&config)
			_, err := nats.NewSubscriber(config)
			require.ErrorContains(t, err, "configure subscriber: "+row.want)
		})
	}
	t.Run("all of them at once", func(t *testing.T) {
		t.Parallel()
		_, err := nats.NewSubscriber(nats.Config{})
		require.ErrorContains(t, err, "Conn, URL: ")
		require.ErrorContains(t, err, "Stream: ")
		require.ErrorContains(t, err, "Durable: ")
	})
}

func TestNewSubscriber_SaysThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	_, err := nats.NewSubscriber(nats.Config{URL: "nats://127.0.0.1:1", Stream: "ORDERS", Durable: "billing"})
	require.ErrorContains(t, err, "connect: ")
}
