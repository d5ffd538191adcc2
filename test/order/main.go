package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncebox/oncebox/store"
)

// settings describe a run.
type settings struct {
	Messages int           // to be committed at least
	Writers  int           // goroutines that write
	Accounts int           // ordering keys
	Relays   int           // processes that publish
	Every    time.Duration // between two things that happen to a relay
	Seed     uint64
	Quick    bool // no waits in the writers
}

func main() {
	if os.Getenv(relayVariable) != "" {
		if err := relayMain(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "relay:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := mainRun(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "order:", err)
		os.Exit(1)
	}
}

func mainRun(ctx context.Context, args []string, out io.Writer) error {
	var s settings
	flags := flag.NewFlagSet("order", flag.ContinueOnError)
	flags.IntVar(&s.Messages, "messages", 100_000, "messages to commit")
	flags.IntVar(&s.Writers, "writers", 24, "concurrent writers")
	flags.IntVar(&s.Accounts, "accounts", 200, "ordering keys")
	flags.IntVar(&s.Relays, "relays", 4, "relay processes")
	flags.DurationVar(&s.Every, "every", 300*time.Millisecond, "time between two things that happen to a relay")
	flags.Uint64Var(&s.Seed, "seed", uint64(time.Now().UnixNano()), "of everything that is random")
	flags.BoolVar(&s.Quick, "quick", false, "let writers not wait")
	if err := flags.Parse(args); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "seed", s.Seed)
	result, err := run(ctx, s)
	if err != nil {
		return err
	}
	result.print(out)
	return result.verdict()
}

// run writes, publishes and counts.
func run(ctx context.Context, s settings) (result outcome, err error) {
	bed, err := openBed(ctx, s)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, bed.close()) }()

	began := time.Now()
	nuisance, err := beginNuisance(ctx, bed)
	if err != nil {
		return result, err
	}
	wrong := beginWrong(ctx, bed)
	crew := newCrew(bed)
	crewed := make(chan error, 1)
	working, stop := context.WithCancel(ctx)
	defer stop()
	go func() { crewed <- crew.run(working) }()

	if err := write(ctx, bed); err != nil {
		return result, err
	}
	result.Written, err = bed.versions(ctx)
	if err != nil {
		return result, err
	}
	// The wrong relays get the same time to catch up as anyone.
	result.Wrong = wrong.end(result.Written)
	crew.calm()
	published, err := awaitStream(ctx, bed)
	stop()
	err = errors.Join(err, <-crewed)
	result.Emptied, result.Nuisance = nuisance.end()
	if err != nil {
		return result, err
	}
	result.Ours = judge(result.Written, published)
	result.Kills, result.Frozen, result.Took = crew.kills, crew.frozen, time.Since(began)
	return result, bed.invariants(ctx)
}

// drainTime is how long relays may take for what is left, when nobody hurts them.
const drainTime = 10 * time.Minute

// awaitStream waits until the outbox holds nothing that is not published, and a second
// longer for what might come twice, and reads the stream.
func awaitStream(ctx context.Context, b *bed) ([]message, error) {
	stream, err := b.js.Stream(ctx, b.name)
	if err != nil {
		return nil, err
	}
	var left string
	for end, shown := time.Now().Add(drainTime), time.Now(); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		state, err := b.st.State(ctx)
		if err != nil {
			return nil, err
		}
		if left = unpublished(state); left == "" {
			break
		}
		if time.Since(shown) > 5*time.Second {
			shown = time.Now()
			fmt.Fprintln(os.Stderr, "not published yet:", left)
		}
	}
	if left != "" {
		fmt.Fprintln(os.Stderr, "gave up; not published:", left)
	}
	time.Sleep(time.Second)
	return readStream(ctx, stream)
}

// unpublished tells of buckets that are behind; empty when there are none.
func unpublished(state store.OutboxState) (left string) {
	if state.Parked+state.Dead > 0 {
		left = fmt.Sprintf("%d parked, %d dead; ", state.Parked, state.Dead)
	}
	for _, one := range state.Buckets {
		if one.Oldest > 0 {
			left += fmt.Sprintf("bucket %d (owned %v) by %v; ", one.Bucket, one.Owned, one.Oldest.Round(time.Second))
		}
	}
	return left
}

func readStream(ctx context.Context, stream jetstream.Stream) (all []message, err error) {
	reader, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	info, err := reader.Info(ctx)
	if err != nil {
		return nil, err
	}
	messages, err := reader.Messages()
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	for left := info.NumPending + info.Delivered.Consumer; left > 0; left-- {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, err
		}
		one, err := parseMessage(msg.Data())
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}
