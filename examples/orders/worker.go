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
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncebox/oncebox/consumer/nats"
)

const (
	workerArgument = "worker"
	relayArgument  = "relay"
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
	Events   string // the topic of the events
	Servers  servers
	Settings settings
}

// post is what a process works with.
type post struct {
	assignment
	pool *pgxpool.Pool
	nc   *natsgo.Conn
	js   jetstream.JetStream
}

// takeUp reads the assignment and opens what it takes.
func takeUp(ctx context.Context) (p post, err error) {
	if err := json.Unmarshal([]byte(os.Getenv(workerVariable)), &p.assignment); err != nil {
		return p, fmt.Errorf("read assignment: %w", err)
	}
	if p.pool, err = pgxpool.New(ctx, p.Servers.Postgres); err != nil {
		return p, fmt.Errorf("open pool: %w", err)
	}
	if p.nc, err = natsgo.Connect(p.Servers.NATS, natsgo.ReconnectBufSize(-1)); err != nil {
		return p, fmt.Errorf("connect to NATS: %w", err)
	}
	p.js, err = jetstream.New(p.nc)
	return p, err
}

func (p post) close() {
	p.nc.Close()
	p.pool.Close()
}

// work consumes orders until the process ends, which is mostly by SIGKILL.
func work(ctx context.Context) error {
	told, err := takeUp(ctx)
	if err != nil {
		return err
	}
	defer told.close()
	column, err := protect(told.Column, told.pool, biller{settings: told.Settings, schema: told.Schema}, directPublisher{told.js})
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
	router.AddHandler("billing", told.Stream, sub, told.Events, column.publisher, markRun(column.handle)).
		AddMiddleware(tally(say), column.around)
	return router.Run(ctx)
}
