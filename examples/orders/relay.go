package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncebox/oncebox/outbox"
	sink "github.com/oncebox/oncebox/outbox/sink/jetstream"
	"github.com/oncebox/oncebox/store/postgres"
)

// relay publishes what the workers have stored, until the process ends, which is mostly by
// SIGKILL.
func relay(ctx context.Context) error {
	told, err := readAssignment()
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, told.Servers.Postgres)
	if err != nil {
		return fmt.Errorf("open pool: %w", err)
	}
	defer pool.Close()
	st, err := postgres.New(pool, postgres.Config{Schema: told.Schema})
	if err != nil {
		return err
	}
	nc, err := natsgo.Connect(told.Servers.NATS)
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	to, err := sink.New(js, sink.Config{})
	if err != nil {
		return err
	}
	// A lease of a second is too short for a real system; here relays die all the time.
	relay, err := outbox.NewRelay(st, to, outbox.RelayConfig{LeaseFor: time.Second, PollMax: 50 * time.Millisecond})
	if err != nil {
		return err
	}
	return relay.Run(ctx)
}
