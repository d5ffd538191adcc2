package outbox

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/store"
)

// bounded gives each call to the store that work under a lease waits for the time of a
// lease: one that takes longer ends this life of the relay, and with it a connection that
// has gone silent.
type bounded struct {
	store.Outbox
	limit time.Duration
}

func (b bounded) Lease(ctx context.Context, request store.LeaseRequest) (store.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.Outbox.Lease(ctx, request)
}

func (b bounded) Release(ctx context.Context, cursor store.Cursor) error {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.Outbox.Release(ctx, cursor)
}

func (b bounded) Open(ctx context.Context, beginnings []string) (store.Opening, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.Outbox.Open(ctx, beginnings)
}

func (b bounded) Read(ctx context.Context, cursors []store.Cursor, limit store.Limit) ([]store.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.Outbox.Read(ctx, cursors, limit)
}

func (b bounded) Save(ctx context.Context, cursor store.Cursor) error {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.Outbox.Save(ctx, cursor)
}

func (b bounded) SaveAndRead(ctx context.Context, cursor store.Cursor, limit store.Limit) (store.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.Outbox.SaveAndRead(ctx, cursor, limit)
}

func (b bounded) Park(ctx context.Context, cursor store.Cursor, parked []store.Parked) error {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.Outbox.Park(ctx, cursor, parked)
}

func (b bounded) Parked(ctx context.Context, bucket, limit int) (store.Holdup, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.Outbox.Parked(ctx, bucket, limit)
}

func (b bounded) Settle(ctx context.Context, cursor store.Cursor, outcomes []store.Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.Outbox.Settle(ctx, cursor, outcomes)
}
