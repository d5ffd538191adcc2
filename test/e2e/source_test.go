package e2e_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
)

// source is a subscriber whose messages come from the test.
type source struct {
	messages chan *message.Message
	once     sync.Once
}

func newSource() *source { return &source{messages: make(chan *message.Message)} }

func (s *source) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	return s.messages, nil
}

func (s *source) Close() error {
	s.once.Do(func() { close(s.messages) })
	return nil
}

// deliver hands a message to the router and waits until it is acked.
func (s *source) deliver(t *testing.T, msg *message.Message) {
	t.Helper()
	s.messages <- msg
	select {
	case <-msg.Acked():
	case <-msg.Nacked():
		require.Fail(t, "the message was nacked")
	case <-t.Context().Done():
	}
}

// running runs the router until the test ends.
func running(t *testing.T, router *message.Router) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- router.Run(context.WithoutCancel(t.Context())) }()
	<-router.Running()
	t.Cleanup(func() {
		require.NoError(t, router.Close())
		require.NoError(t, <-done)
	})
}

// discard is a publisher that only counts.
type discard struct{ count atomic.Int64 }

func (d *discard) Publish(_ string, msgs ...*message.Message) error {
	d.count.Add(int64(len(msgs)))
	return nil
}

func (d *discard) Close() error { return nil }

func key(id string) dedup.Key { return dedup.Key{Scope: dedup.Global, ID: id} }
