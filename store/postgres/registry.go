package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oncebox/oncebox/store"
)

// registry remembers the consumers that this process has registered.
type registry struct {
	mu    sync.RWMutex
	known map[store.Consumer]*registered
}

// registered is a consumer with its small number.
type registered struct {
	id         int16
	duplicates share
}

func newRegistry() *registry { return &registry{known: make(map[store.Consumer]*registered)} }

// get returns nil for a consumer that is not registered.
func (r *registry) get(consumer store.Consumer) *registered {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.known[consumer]
}

func (r *registry) put(consumer store.Consumer, id int16) *registered {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[consumer] == nil {
		r.known[consumer] = &registered{id: id}
	}
	return r.known[consumer]
}

// findConsumer comes first: an INSERT that conflicts would use up a number each time a
// process starts, and they are small.
const findConsumer = `
SELECT id
FROM oncebox.consumer
WHERE name = $1 AND shadow = $2 AND retention >= make_interval(secs => $3)`

const registerConsumer = `
INSERT INTO oncebox.consumer (name, shadow, retention)
VALUES ($1, $2, make_interval(secs => $3))
ON CONFLICT ON CONSTRAINT consumer_once
DO UPDATE SET retention = greatest(consumer.retention, excluded.retention)
RETURNING id`

// register returns the consumer with its number, which it gets when it is new. The registered
// retention is the longest that any process has asked for. It costs a trip or two the first
// time, in its own transaction.
func (l *ledger) register(ctx context.Context, consumer store.Consumer) (*registered, error) {
	if found := l.consumers.get(consumer); found != nil {
		return found, nil
	}
	if consumer.Name == "" || len(consumer.Name) > 128 {
		return nil, fmt.Errorf("register consumer: Name: %d bytes, want 1 to 128", len(consumer.Name))
	}
	if consumer.Retention <= 0 {
		return nil, fmt.Errorf("register consumer: Retention: %v is not positive", consumer.Retention)
	}
	args := []any{consumer.Name, consumer.Shadow, consumer.Retention.Round(time.Microsecond).Seconds()}
	var id int16
	err := l.source.query(ctx, func(s session) error {
		err := s.row(ctx, l.sql.findConsumer, args, &id)
		if errors.Is(err, errNoRows) {
			err = s.row(ctx, l.sql.registerConsumer, args, &id)
		}
		return err
	})
	if err != nil {
		return nil, unavailable("register consumer", err)
	}
	return l.consumers.put(consumer, id), nil
}
