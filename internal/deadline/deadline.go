// Package deadline bounds many short operations with few timers.
//
// A context with a timeout of its own costs a timer, and setting one that is earlier than
// all others wakes a thread: a tenth of the processor time of a message that is handled in
// a fraction of a millisecond. Operations that begin within one sixteenth of the timeout
// share a context here, so they end up to that much later than asked.
package deadline

import (
	"context"
	"sync"
	"time"
)

// grains is how many contexts live at once.
const grains = 16

// Shared hands out contexts that end after one timeout.
type Shared struct {
	timeout time.Duration
	cause   error

	mu      sync.Mutex
	current context.Context
	renewAt time.Time
}

// New returns contexts that end with cause after timeout, and up to a sixteenth later.
func New(timeout time.Duration, cause error) *Shared {
	return &Shared{timeout: timeout, cause: cause}
}

// Within returns a context with the values of parent, but not its end, that ends after the
// timeout.
func (s *Shared) Within(parent context.Context) context.Context {
	return bounded{s.shared(time.Now()), parent}
}

func (s *Shared) shared(now time.Time) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !now.Before(s.renewAt) {
		grain := s.timeout / grains
		s.renewAt = now.Add(grain)
		var release context.CancelFunc
		s.current, release = context.WithTimeoutCause(context.Background(), s.timeout+grain, s.cause)
		context.AfterFunc(s.current, release) // nobody ends it before its time
	}
	return s.current
}

// bounded ends with one context and has the values of another.
type bounded struct {
	context.Context
	values context.Context
}

// Value asks the ending context first, which has no values but that by which package
// context knows its own.
func (b bounded) Value(key any) any {
	if value := b.Context.Value(key); value != nil {
		return value
	}
	return b.values.Value(key)
}
