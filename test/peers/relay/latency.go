package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncebox/oncebox/outbox"
	"github.com/oncebox/oncebox/store/postgres"
)

// latency measures the time from COMMIT to the sink while nothing else goes on: for a relay
// that is in the process that commits, and for one that is not.
func (b *bed) latency(ctx context.Context, messages int, out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\nidle, from COMMIT to the sink\tp50\tp99\t")
	for _, same := range []bool{true, false} {
		all, err := b.latencies(ctx, messages, same)
		if err != nil {
			return err
		}
		slices.Sort(all)
		name := "relay in the same process"
		if !same {
			name = "relay elsewhere, PollMax 1s"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t\n", name, all[len(all)/2].Round(10*time.Microsecond), all[len(all)*99/100].Round(10*time.Microsecond))
	}
	return table.Flush()
}

func (b *bed) latencies(ctx context.Context, messages int, same bool) (all []time.Duration, err error) {
	st, err := b.migrate(ctx)
	if err != nil {
		return nil, err
	}
	writing := st
	if !same { // another store does not ring for this relay
		if writing, err = postgres.New(b.pool, postgres.Config{Schema: schema}); err != nil {
			return nil, err
		}
		messages = min(messages, 60)
	}
	arrived := make(chan time.Time, 1)
	relay, err := outbox.NewRelay(st, &nowhere{on: func(outbox.Page) { arrived <- time.Now() }}, outbox.RelayConfig{})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	for i := range messages + 1 {
		// Long enough for the relay to look as seldom as it does, and not in step with it.
		wait := 40*time.Millisecond + time.Duration(i%7)*time.Millisecond
		if !same {
			wait = 1500*time.Millisecond + time.Duration(i*137%1000)*time.Millisecond
		}
		time.Sleep(wait)
		err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
			return outbox.Append(ctx, writing.Tx(tx), outbox.Message{Topic: "t", Payload: payload})
		})
		if err != nil {
			stop()
			return nil, err
		}
		committed := time.Now()
		writing.Wake()
		at := <-arrived
		if i > 0 { // the first one warms up
			all = append(all, at.Sub(committed))
		}
	}
	stop()
	return all, <-ended
}
