package outbox

import (
	"context"
	"errors"
	"maps"

	"github.com/oncebox/oncebox/store"
)

// Message is a message that a transaction decides to send.
type Message = store.Message

// Append stores messages in a transaction, for code without Watermill. to is the store, and
// then the transaction is the one of the handler whose context ctx is; or it is
// store.Tx(tx), for a transaction of the program's own. Trace context that ctx carries is
// put into the headers, unless they have some.
//
// It fails with [store.ErrNoTx] outside a transaction and with [store.ErrTxClosed] after the
// handler has returned. An error about a message itself wraps [store.ErrMessage]; then
// nothing was stored.
func Append(ctx context.Context, to store.Appender, messages ...Message) error {
	if to == nil {
		return errors.New("append: store: missing")
	}
	ready := make([]Message, len(messages))
	for i, one := range messages {
		one.Headers = maps.Clone(one.Headers)
		carry(ctx, &one)
		ready[i] = one
	}
	return to.Append(ctx, ready...)
}
