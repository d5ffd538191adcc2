package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncebox/oncebox/consumer/nats"
)

const (
	workerArgument = "worker"
	workerVariable = "ONCEBOX_DEMO_WORKER"
	durable        = "billing"

	// ackWait is far too short for a real system: a killed worker's orders come back soon,
	// and slow handlers are overtaken by their own redelivery.
	ackWait = time.Second

	// concurrency is how many orders a worker has in hand.
	concurrency = 4

	saidBlocked = "blocked"
)

// assignment is what a worker process is told.
type assignment struct {
	Column   string
	Schema   string
	Stream   string
	Servers  servers
	Settings settings
}

// work consumes orders until the process ends, which is mostly by SIGKILL.
func work(ctx context.Context) error {
	var told assignment
	if err := json.Unmarshal([]byte(os.Getenv(workerVariable)), &told); err != nil {
		return fmt.Errorf("read assignment: %w", err)
	}
	pool, err := pgxpool.New(ctx, told.Servers.Postgres)
	if err != nil {
		return fmt.Errorf("open pool: %w", err)
	}
	defer pool.Close()
	handle, protection, err := protect(told.Column, pool, biller{settings: told.Settings, schema: told.Schema})
	if err != nil {
		return err
	}
	sub, err := nats.NewSubscriber(nats.Config{
		URL: told.Servers.NATS, Stream: told.Stream, Durable: durable,
		AckWait: ackWait, Concurrency: concurrency, NackDelay: 50 * time.Millisecond,
		// Not true of the slow ones, and that is the point: the helper would refuse it.
		HandlerTimeout: ackWait / 2,
	})
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	defer sub.Close()
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: ackWait}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	say := func(what string) { fmt.Println(what) }
	router.AddConsumerHandler("billing", told.Stream, sub, markRun(handle)).AddMiddleware(tally(say), protection)
	return router.Run(ctx)
}
