package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// settings are the same for all columns.
type settings struct {
	Messages   int
	Duplicates float64
	Workers    int
	Relays     int
	KillEvery  time.Duration
	Seed       uint64
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case workerArgument:
			return work(ctx)
		case relayArgument:
			return relay(ctx)
		}
	}
	var s settings
	flags := flag.NewFlagSet("orders", flag.ContinueOnError)
	flags.IntVar(&s.Messages, "messages", 1000, "orders to publish")
	flags.Float64Var(&s.Duplicates, "duplicates", 0.2, "share of orders that the producer publishes twice, from 0 to 1")
	flags.IntVar(&s.Workers, "workers", 4, "worker processes")
	flags.IntVar(&s.Relays, "relays", 2, "relay processes, in the column of oncebox")
	flags.DurationVar(&s.KillEvery, "kill-every", 300*time.Millisecond, "time between two kills; 0 kills nobody")
	flags.Uint64Var(&s.Seed, "seed", 1, "decides which order suffers what")
	asJSON := flags.Bool("json", false, "print the books as JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := s.validate(); err != nil {
		return err
	}
	servers, err := serversFromEnvironment()
	if err != nil {
		return err
	}

	var all []books
	for _, column := range columns {
		result, err := runColumn(ctx, servers, s, column)
		if err != nil {
			return fmt.Errorf("column %s: %w", column, err)
		}
		all = append(all, result)
	}
	if err := report(os.Stdout, all, *asJSON); err != nil {
		return err
	}
	return all[len(all)-1].balance()
}

func (s settings) validate() error {
	switch {
	case s.Messages < 1:
		return fmt.Errorf("--messages: %d is less than 1", s.Messages)
	case s.Duplicates < 0 || s.Duplicates > 1:
		return fmt.Errorf("--duplicates: %v is not from 0 to 1", s.Duplicates)
	case s.Workers < 1:
		return fmt.Errorf("--workers: %d is less than 1", s.Workers)
	case s.Relays < 1:
		return fmt.Errorf("--relays: %d is less than 1", s.Relays)
	case s.KillEvery < 0:
		return fmt.Errorf("--kill-every: %v is negative", s.KillEvery)
	}
	return nil
}

// servers are the addresses of what is real here.
type servers struct{ Postgres, NATS string }

func serversFromEnvironment() (servers, error) {
	found := servers{Postgres: os.Getenv("ONCEBOX_POSTGRES_DSN"), NATS: os.Getenv("ONCEBOX_NATS_URL")}
	if found.Postgres == "" || found.NATS == "" {
		return found, errors.New("ONCEBOX_POSTGRES_DSN and ONCEBOX_NATS_URL are not both set; run `make demo`, which starts the servers")
	}
	return found, nil
}
