package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncebox/oncebox/outbox"
	"github.com/oncebox/oncebox/store"
	"github.com/oncebox/oncebox/store/memory"
)

// unit opens a unit of work on a new store and returns its context, and what it has sent once
// it is committed.
func unit(t *testing.T) (ctx context.Context, st *memory.Store, sent func() []store.Outgoing) {
	t.Helper()
	st = memory.New()
	opened, _, err := st.Begin(t.Context(), store.Claim{ID: [16]byte{1}, Consumer: store.Consumer{Name: "c", Retention: time.Hour}})
	require.NoError(t, err)
	return opened.Context(t.Context()), st, func() (all []store.Outgoing) {
		require.NoError(t, opened.Commit(t.Context()))
		opening, err := st.Open(t.Context(), nil)
		require.NoError(t, err)
		for bucket := range store.Buckets {
			pages, err := st.Read(t.Context(), []store.Cursor{{Bucket: bucket, Prev: "0", Cur: opening.Cur, High: opening.High}}, store.Limit{Messages: 100, Bytes: 1 << 20})
			require.NoError(t, err)
			all = append(all, pages[0].Messages...)
		}
		return all
	}
}

func TestPublisher_StoresWhatAWatermillMessageSays(t *testing.T) {
	t.Parallel()
	ctx, st, sent := unit(t)
	msg := message.NewMessage("uuid", []byte("payload"))
	msg.Metadata.Set(outbox.MetadataKey, "key")
	msg.Metadata.Set("mine", "1")
	msg.SetContext(ctx)
	require.NoError(t, outbox.NewPublisher(st).Publish("topic", msg))
	require.Equal(t, "key", msg.Metadata.Get(outbox.MetadataKey), "the caller's message is left alone")
	got := sent()[0].Message
	require.Equal(t, store.Message{ID: "uuid", Topic: "topic", Key: "key", Headers: map[string]string{"mine": "1"}, Payload: []byte("payload")}, got)
}

func TestPublisher_KeyMayComeFromAFunction(t *testing.T) {
	t.Parallel()
	ctx, st, sent := unit(t)
	msg := message.NewMessage("uuid", nil)
	msg.SetContext(ctx)
	publisher := outbox.NewPublisherWith(st, outbox.Config{
		Key: func(topic string, msg *message.Message) string { return topic + "/" + msg.UUID }, LockKeys: true,
	})
	require.NoError(t, publisher.Publish("topic", msg))
	require.Equal(t, "topic/uuid", sent()[0].Key)
}

func TestPublisher_OutsideATransactionAndAfterIt(t *testing.T) {
	t.Parallel()
	ctx, st, sent := unit(t)
	publisher := outbox.NewPublisher(st)
	msg := message.NewMessage("uuid", nil)
	require.ErrorIs(t, publisher.Publish("topic", msg), store.ErrNoTx)
	sent()
	msg.SetContext(ctx)
	require.ErrorIs(t, publisher.Publish("topic", msg), store.ErrTxClosed)
	require.NoError(t, publisher.Close())
	require.Error(t, outbox.NewPublisher(nil).Publish("topic", msg))
}

func TestPublisher_ADelayThatIsNoneIsRefusedAndNotShown(t *testing.T) {
	t.Parallel()
	ctx, st, _ := unit(t)
	msg := message.NewMessage("uuid", nil)
	msg.Metadata.Set(outbox.MetadataDelay, "secret")
	msg.SetContext(ctx)
	err := outbox.NewPublisher(st).Publish("topic", msg)
	require.ErrorContains(t, err, outbox.MetadataDelay)
	require.NotContains(t, err.Error(), "secret")
}

func TestAppend_CarriesTheTrace(t *testing.T) {
	t.Parallel()
	const incoming = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	in := message.NewMessage("in", nil)
	in.Metadata.Set("traceparent", incoming)
	in.Metadata.Set("tracestate", "vendor=1")
	in.Metadata.Set("correlation_id", "c")
	in.Metadata.Set("other", "stays")
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	own := "00-01000000000000000000000000000000-0200000000000000-00"
	for name, c := range map[string]struct {
		ctx  func(context.Context) context.Context
		has  map[string]string
		want map[string]string
	}{
		"of the message that is handled": {
			func(ctx context.Context) context.Context { return outbox.WithIncoming(ctx, in) }, nil,
			map[string]string{"traceparent": incoming, "tracestate": "vendor=1", "correlation_id": "c"},
		},
		"of a span": {
			func(ctx context.Context) context.Context { return trace.ContextWithSpanContext(ctx, span) }, nil,
			map[string]string{"traceparent": own},
		},
		"of a span, before that of the message": {
			func(ctx context.Context) context.Context {
				return trace.ContextWithSpanContext(outbox.WithIncoming(ctx, in), span)
			}, nil,
			map[string]string{"traceparent": own, "correlation_id": "c"},
		},
		"unless it has its own": {
			func(ctx context.Context) context.Context { return outbox.WithIncoming(ctx, in) },
			map[string]string{"traceparent": own, "correlation_id": "mine"},
			map[string]string{"traceparent": own, "correlation_id": "mine"},
		},
		"none": {func(ctx context.Context) context.Context { return ctx }, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, st, sent := unit(t)
			require.NoError(t, outbox.Append(c.ctx(ctx), st, outbox.Message{Topic: "t", Headers: c.has}))
			require.Equal(t, c.want, sent()[0].Headers)
		})
	}
}

func TestPublishChains_StopsAKeyAtItsFirstFailure(t *testing.T) {
	t.Parallel()
	errBad := errors.New("bad")
	var messages []store.Outgoing
	for i, key := range []string{"a", "b", "a", "", "a", ""} {
		messages = append(messages, store.Outgoing{Message: store.Message{Key: key}, Number: int64(i)})
	}
	results := outbox.PublishChains(messages, 2, func(one store.Outgoing) error {
		if one.Number == 2 || one.Number == 3 {
			return errBad
		}
		return nil
	})
	require.Equal(t, []error{nil, nil, errBad, errBad, outbox.ErrNotTried, nil}, results)
}
