package main

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/outbox"
	sink "github.com/oncebox/oncebox/outbox/sink/jetstream"
	"github.com/oncebox/oncebox/store/postgres"
)

// relay publishes what the workers have stored, until the process ends, which is mostly by
// SIGKILL.
func relay(ctx context.Context) error {
	told, err := takeUp(ctx)
	if err != nil {
		return err
	}
	defer told.close()
	st, err := postgres.New(told.pool, postgres.Config{Schema: told.Schema})
	if err != nil {
		return err
	}
	to, err := sink.New(told.js, sink.Config{})
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
