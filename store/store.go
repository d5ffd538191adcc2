package store

import (
	"errors"
	"time"
)

// Consumer is a registered logical handler as a store knows it.
type Consumer struct {
	// Name is the consumer's stable name, at most 128 bytes.
	Name string
	// Retention is how long its claims are kept at least.
	Retention time.Duration
	// Shadow marks a consumer that only observes: its claims are apart from real ones.
	Shadow bool
}

// Errors that every backend uses.
var (
	// ErrNoTx says that the context carries no transaction of this store: the code does
	// not run inside a handler, or its message came from another store.
	ErrNoTx = errors.New("no transaction in this context: call this inside a handler, with the message's context")
	// ErrTxClosed says that the handler's transaction was used after the handler returned.
	ErrTxClosed = errors.New("transaction is closed: it ends when the handler returns")
	// ErrManagedTx says that a handler tried to end the transaction that its claim is in.
	ErrManagedTx = errors.New("transaction is managed: it is committed or rolled back when the handler returns")
	// ErrAborted says that a statement inside the transaction failed, so that it could not
	// be committed although the handler reported success.
	ErrAborted = errors.New("transaction is aborted: a statement failed and its error was not returned")
	// ErrUnknownOutcome says that the answer to COMMIT was lost.
	ErrUnknownOutcome = errors.New("commit outcome is unknown: the connection was lost before the answer")
	// ErrUnavailable says that the store can't be reached or is shutting down.
	ErrUnavailable = errors.New("store is unavailable")
	// ErrFutureTime says that a key's stable time is more than a day ahead of the store's
	// clock.
	ErrFutureTime = errors.New("stable time is more than a day in the future: the sender's clock is wrong")
)
