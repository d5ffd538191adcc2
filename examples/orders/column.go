package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncebox/oncebox/migrations"
)

// patience is how long a column may take before something must be wrong.
const patience = 3 * time.Minute

// runColumn publishes the orders, lets the workers loose on them, and does the books when
// every message is acked. It leaves nothing behind.
func runColumn(ctx context.Context, at servers, s settings, column string) (_ books, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	name := fmt.Sprintf("orders_%s_%d", column, time.Now().UnixNano())
	conn, err := pgx.Connect(ctx, at.Postgres)
	if err != nil {
		return books{}, fmt.Errorf("connect to Postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := prepare(ctx, conn, name); err != nil {
		return books{}, err
	}
	defer func() {
		_, dropErr := conn.Exec(context.WithoutCancel(ctx), `DROP SCHEMA `+name+` CASCADE`)
		err = errors.Join(err, dropErr)
	}()

	nc, err := natsgo.Connect(at.NATS)
	if err != nil {
		return books{}, fmt.Errorf("connect to NATS: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return books{}, err
	}
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name}, Storage: jetstream.MemoryStorage})
	if err != nil {
		return books{}, fmt.Errorf("create stream: %w", err)
	}
	defer func() { err = errors.Join(err, js.DeleteStream(context.WithoutCancel(ctx), name)) }()
	if err := publish(ctx, js, name, s); err != nil {
		return books{}, err
	}

	topic := name + ".invoices.issued"
	events, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name + "_events", Subjects: []string{topic}, Storage: jetstream.MemoryStorage})
	if err != nil {
		return books{}, fmt.Errorf("create stream: %w", err)
	}
	defer func() { err = errors.Join(err, js.DeleteStream(context.WithoutCancel(ctx), name+"_events")) }()

	crew := &crew{assignment: assignment{Column: column, Schema: name, Stream: name, Events: topic, Servers: at, Settings: s}}
	var deliveries uint64
	err = crew.whileRunning(ctx, func(ctx context.Context) (err error) {
		if deliveries, err = watch(ctx, stream, newProgress(column)); err != nil {
			return err
		}
		if column != columnOncebox {
			return nil // they publish before they ack
		}
		return awaitEvents(ctx, conn, events, name)
	})
	if err != nil {
		return books{}, err
	}
	b, err := doBooks(ctx, conn, crew, deliveries)
	if err == nil {
		b.Published, err = readBack(ctx, conn, events, name)
	}
	return b, err
}

// prepare makes the column's tables, and oncebox's beside them.
func prepare(ctx context.Context, conn *pgx.Conn, name string) error {
	if _, err := conn.Exec(ctx, fmt.Sprintf(schemaSQL, name, accounts-1)); err != nil {
		return fmt.Errorf("make tables: %w", err)
	}
	return migrations.Up(ctx, conn, migrations.Options{Schema: name})
}

// whileRunning keeps the crew going until wait returns.
func (c *crew) whileRunning(ctx context.Context, wait func(context.Context) error) error {
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.run(working) }()
	err := wait(ctx)
	stop()
	return errors.Join(err, <-ended)
}

// watch waits until the durable has seen every message acked.
func watch(ctx context.Context, stream jetstream.Stream, bar progress) (deliveries uint64, err error) {
	defer bar.end()
	total := stream.CachedInfo().State.LastSeq
	if info, err := stream.Info(ctx); err == nil {
		total = info.State.LastSeq
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	state := "the durable does not exist"
	for {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("gave up: %w; last state: %s", ctx.Err(), state)
		case <-tick.C:
		}
		consumer, err := stream.Consumer(ctx, durable)
		if err != nil {
			continue // the first worker makes it
		}
		info := consumer.CachedInfo()
		state = fmt.Sprintf("%d of %d acked in order, %d pending, %d without ack", info.AckFloor.Stream, total, info.NumPending, info.NumAckPending)
		bar.set(total-info.NumPending-uint64(info.NumAckPending), total)
		if info.AckFloor.Stream >= total && info.NumAckPending == 0 {
			return info.Delivered.Consumer, nil
		}
	}
}
