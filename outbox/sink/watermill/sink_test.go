package watermill_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/outbox"
	sink "github.com/oncebox/oncebox/outbox/sink/watermill"
	"github.com/oncebox/oncebox/store"
)

// publisher is a Publisher that does what publish does.
type publisher struct {
	publish func(topic string, msg *message.Message) error
}

func (p publisher) Publish(topic string, messages ...*message.Message) error {
	if len(messages) != 1 {
		return fmt.Errorf("%d messages in a call", len(messages))
	}
	return p.publish(topic, messages[0])
}

func (publisher) Close() error { return nil }

func open(t *testing.T, publish func(string, *message.Message) error, config sink.Config) *sink.Sink {
	t.Helper()
	to, err := sink.New(publisher{publish}, config)
	require.NoError(t, err)
	return to
}

func page(messages ...store.Message) outbox.Page {
	var all []store.Outgoing
	for i, one := range messages {
		all = append(all, store.Outgoing{Message: one, Number: int64(i)})
	}
	return outbox.Page{Messages: all}
}

func TestSink_PublishesOneMessageACallWithAllItHas(t *testing.T) {
	t.Parallel()
	var got *message.Message
	to := open(t, func(topic string, msg *message.Message) error {
		require.Equal(t, "topic", topic)
		got = msg
		return nil
	}, sink.Config{})
	results := to.Publish(t.Context(), page(store.Message{
		ID: "id", Topic: "topic", Key: "key", Headers: map[string]string{"h": "1"}, Payload: []byte("p"),
	}))
	require.Equal(t, []error{nil}, results)
	require.Equal(t, "id", got.UUID)
	require.Equal(t, "p", string(got.Payload))
	require.Equal(t, message.Metadata{"h": "1", sink.MetadataKey: "key"}, got.Metadata)
}

func TestSink_AKeyStopsAtItsFirstFailureAndOthersGoOn(t *testing.T) {
	t.Parallel()
	errBad := errors.New("bad")
	var mu sync.Mutex
	var order []string
	to := open(t, func(_ string, msg *message.Message) error {
		mu.Lock()
		defer mu.Unlock()
		if string(msg.Payload) == "bad" {
			return errBad
		}
		order = append(order, string(msg.Payload))
		return nil
	}, sink.Config{})
	message := func(key, payload string) store.Message {
		return store.Message{Topic: "t", Key: key, Payload: []byte(payload)}
	}
	results := to.Publish(t.Context(), page(
		message("a", "a1"), message("a", "bad"), message("b", "b1"), message("a", "a3"), message("", "none"), message("b", "b2")))
	require.ErrorIs(t, results[1], errBad)
	require.ErrorIs(t, results[3], outbox.ErrNotTried)
	for _, i := range []int{0, 2, 4, 5} {
		require.NoError(t, results[i])
	}
	require.ElementsMatch(t, []string{"a1", "b1", "b2", "none"}, order)
}

func TestSink_KnowsAnOutageFromAMessageThatIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		outage bool
	}{
		"refused connection": {fmt.Errorf("dial: %w", syscall.ECONNREFUSED), true},
		"network error":      {&net.OpError{Op: "dial", Err: errors.New("no route")}, true},
		"deadline":           {context.DeadlineExceeded, true},
		"anything else":      {errors.New("message is too large"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := open(t, func(string, *message.Message) error { return c.err }, sink.Config{})
			err := to.Publish(t.Context(), page(store.Message{Topic: "t"}))[0]
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.outage, errors.Is(err, outbox.ErrOutage))
		})
	}
}

func TestSink_ACallThatHangsIsAnOutage(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	to := open(t, func(string, *message.Message) error { <-release; return nil }, sink.Config{PublishTimeout: 20 * time.Millisecond})
	require.ErrorIs(t, to.Publish(t.Context(), page(store.Message{Topic: "t"}))[0], outbox.ErrOutage)
}

func TestSink_APanicIsAFailure(t *testing.T) {
	t.Parallel()
	to := open(t, func(string, *message.Message) error { panic("secret") }, sink.Config{})
	err := to.Publish(t.Context(), page(store.Message{Topic: "t"}))[0]
	require.ErrorContains(t, err, "panicked")
	require.NotContains(t, err.Error(), "secret")
}

func TestSink_KeepsToItsConcurrency(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	to := open(t, func(string, *message.Message) error {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(time.Millisecond)
		now.Add(-1)
		return nil
	}, sink.Config{InFlight: 1})
	var messages []store.Message
	for i := range 20 {
		messages = append(messages, store.Message{Topic: "t", Key: fmt.Sprint(i)})
	}
	to.Publish(t.Context(), page(messages...))
	require.EqualValues(t, 1, most.Load())
}

func TestNew_RefusesAGoChannelThatLosesMessages(t *testing.T) {
	t.Parallel()
	channel := func(config gochannel.Config) message.Publisher {
		return gochannel.NewGoChannel(config, watermill.NopLogger{})
	}
	_, err := sink.New(channel(gochannel.Config{}), sink.Config{})
	require.ErrorIs(t, err, sink.ErrUnconfirmed)
	require.ErrorContains(t, err, "Persistent")
	for _, good := range []gochannel.Config{{Persistent: true}, {BlockPublishUntilSubscriberAck: true}} {
		_, err := sink.New(channel(good), sink.Config{})
		require.NoError(t, err)
	}
	_, err = sink.New(channel(gochannel.Config{}), sink.Config{AllowUnconfirmed: true})
	require.NoError(t, err)
	_, err = sink.New(nil, sink.Config{})
	require.ErrorContains(t, err, "publisher: missing")
	_, err = sink.New(publisher{}, sink.Config{InFlight: -1})
	require.ErrorContains(t, err, "InFlight")
}
