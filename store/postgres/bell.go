package postgres

import "sync"

// bell wakes the relays of this process when messages were committed in it.
type bell struct {
	mu      sync.Mutex
	hearing map[chan struct{}]bool
}

func newBell() *bell { return &bell{hearing: make(map[chan struct{}]bool)} }

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for one := range b.hearing {
		select {
		case one <- struct{}{}:
		default: // it has not heard the last one yet
		}
	}
}

// Appended is rung after commits of this process; see [store.Outbox].
func (l *ledger) Appended() (rung <-chan struct{}, stop func()) {
	one := make(chan struct{}, 1)
	l.bell.mu.Lock()
	defer l.bell.mu.Unlock()
	l.bell.hearing[one] = true
	return one, func() {
		l.bell.mu.Lock()
		defer l.bell.mu.Unlock()
		delete(l.bell.hearing, one)
	}
}
