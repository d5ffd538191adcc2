package outbox

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"go.opentelemetry.io/otel/propagation"
)

// carried are the headers that a handler's messages take over from the message that it
// handles.
var carried = []string{middleware.CorrelationIDMetadataKey, "traceparent", "tracestate", "baggage"}

type carriedKey struct{}

// WithIncoming returns ctx with what messages sent in it take over from the message that is
// handled: its correlation id and its trace context. Package consumer does this for
// handlers.
func WithIncoming(ctx context.Context, incoming *message.Message) context.Context {
	var kept map[string]string
	for _, name := range carried {
		if value := incoming.Metadata.Get(name); value != "" {
			if kept == nil {
				kept = make(map[string]string)
			}
			kept[name] = value
		}
	}
	if kept == nil {
		return ctx
	}
	return context.WithValue(ctx, carriedKey{}, kept)
}

// carry gives the message trace context and correlation id, unless it has its own. A span
// of the program's own comes before the trace of the message that is handled; the state of
// one never goes with the parent of the other.
func carry(ctx context.Context, to *Message) {
	found := propagation.MapCarrier{}
	_, traced := to.Headers["traceparent"]
	if !traced {
		propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}).Inject(ctx, found)
		_, traced = found["traceparent"]
	}
	incoming, _ := ctx.Value(carriedKey{}).(map[string]string)
	for name, value := range incoming {
		if traced && (name == "traceparent" || name == "tracestate") {
			continue
		}
		if _, has := found[name]; !has {
			found[name] = value
		}
	}
	for name, value := range found {
		if to.Headers == nil {
			to.Headers = make(map[string]string)
		}
		if _, has := to.Headers[name]; !has {
			to.Headers[name] = value
		}
	}
}
