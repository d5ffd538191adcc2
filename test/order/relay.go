package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncebox/oncebox/outbox"
	sink "github.com/oncebox/oncebox/outbox/sink/jetstream"
	"github.com/oncebox/oncebox/store/postgres"
)

// relayVariable makes the program a relay process; it names the schema.
const relayVariable = "ONCEBOX_ORDER_RELAY"

// relayMain is a relay process. It ends by SIGTERM, if it is not killed first.
func relayMain(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	schema := os.Getenv(relayVariable)
	config, err := pgxpool.ParseConfig(os.Getenv("ONCEBOX_POSTGRES_DSN"))
	if err != nil {
		return err
	}
	config.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	st, err := postgres.New(pool, postgres.Config{Schema: schema})
	if err != nil {
		return err
	}
	nc, err := natsgo.Connect(os.Getenv("ONCEBOX_NATS_URL"), natsgo.ReconnectBufSize(-1))
	if err != nil {
		return err
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
	relay, err := outbox.NewRelay(st, to, outbox.RelayConfig{
		LeaseFor: time.Second, PageMessages: 50, PollMax: 50 * time.Millisecond,
		OnEvent: func(_ context.Context, e outbox.Event) {
			if e.Kind == outbox.EventParked || e.Kind == outbox.EventOutage || e.Kind == outbox.EventFailed && ctx.Err() == nil {
				fmt.Fprintf(os.Stderr, "relay: %s bucket %d: %v\n", e.Kind, e.Bucket, e.Err)
			}
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	return relay.Run(ctx)
}
