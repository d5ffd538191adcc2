package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// schema holds everything that a run makes.
const schema = "oncebox_peers"

// payload is what every message carries, a JSON text as Watermill's schema wants it.
var payload = []byte(`{"text":"` + strings.Repeat("x", 280) + `"}`)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("relay", flag.ContinueOnError)
	sizes := flags.String("sizes", "50000,500000,2000000", "comma-separated backlogs to drain")
	peer := flags.String("peer", "50000,400000", "comma-separated backlogs at which the forwarder is measured")
	rounds := flags.Int("rounds", 3, "how often each is measured; the median counts")
	forwarder := flags.Duration("forwarder", 8*time.Second, "how long the forwarder is measured at each backlog")
	hour := flags.Int("hour", 3_600_000, "messages of the hour for which no relay ran; 0 leaves it out")
	latencies := flags.Int("latencies", 200, "messages for the latency; 0 leaves it out")
	if err := flags.Parse(args); err != nil {
		return err
	}
	backlogs, err := numbers(*sizes)
	if err != nil {
		return fmt.Errorf("-sizes: %w", err)
	}
	peerBacklogs, err := numbers(*peer)
	if err != nil {
		return fmt.Errorf("-peer: %w", err)
	}
	b, err := openBed(ctx)
	if err != nil {
		return err
	}
	defer b.pool.Close()
	if err := b.compare(ctx, backlogs, peerBacklogs, *rounds, *forwarder, out); err != nil {
		return err
	}
	if *latencies > 0 {
		if err := b.latency(ctx, *latencies, out); err != nil {
			return err
		}
	}
	if *hour > 0 {
		if err := b.anHour(ctx, *hour, out); err != nil {
			return err
		}
	}
	return b.drop(ctx)
}

// bed is the database.
type bed struct {
	dsn  string
	pool *pgxpool.Pool
}

func openBed(ctx context.Context) (*bed, error) {
	b := &bed{dsn: os.Getenv("ONCEBOX_POSTGRES_DSN")}
	if b.dsn == "" {
		return nil, errors.New("ONCEBOX_POSTGRES_DSN is not set; run `make bench/outbox`, which starts a durable Postgres")
	}
	config, err := pgxpool.ParseConfig(b.dsn)
	if err != nil {
		return nil, errors.New("ONCEBOX_POSTGRES_DSN can't be parsed")
	}
	config.MaxConns = 16
	if b.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	return b, b.drop(ctx)
}

func (b *bed) drop(ctx context.Context) error {
	_, err := b.pool.Exec(ctx, `DROP SCHEMA IF EXISTS `+schema+` CASCADE`)
	return err
}

// kind is something that is measured again and again.
type kind struct {
	name  string
	once  func(context.Context) (float64, error)
	rates []float64
}

func (k kind) median() float64 {
	sorted := slices.Sorted(slices.Values(k.rates))
	return sorted[len(sorted)/2]
}

// compare measures everything in turns and prints messages a second.
func (b *bed) compare(ctx context.Context, backlogs, peers []int, rounds int, forwarding time.Duration, out io.Writer) error {
	var kinds []*kind
	for _, size := range backlogs {
		kinds = append(kinds, &kind{name: fmt.Sprintf("oncebox, backlog %d", size), once: func(ctx context.Context) (float64, error) {
			return b.drain(ctx, size, false)
		}})
	}
	held := backlogs[len(backlogs)/2]
	kinds = append(kinds, &kind{name: fmt.Sprintf("oncebox, backlog %d, an old snapshot is held", held), once: func(ctx context.Context) (float64, error) {
		return b.drain(ctx, held, true)
	}})
	ours := len(kinds)
	for _, size := range peers {
		kinds = append(kinds, &kind{name: fmt.Sprintf("Watermill forwarder, backlog %d", size), once: func(ctx context.Context) (float64, error) {
			return b.forward(ctx, size, forwarding)
		}})
	}
	for round := range rounds {
		for i, one := range kinds {
			if i >= ours && round > 0 && one.rates[0] < 2000 {
				continue // it takes long, and its figure does not hang on a percent
			}
			fmt.Fprintf(os.Stderr, "round %d of %d: %s …\n", round+1, rounds, one.name)
			rate, err := one.once(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			one.rates = append(one.rates, rate)
		}
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "to a sink that does nothing\tmessages a second\tover the forwarder's first\t")
	base := kinds[min(ours, len(kinds)-1)].median()
	for _, one := range kinds {
		fmt.Fprintf(table, "%s\t%.0f\t%.1f\t\n", one.name, one.median(), one.median()/base)
	}
	return table.Flush()
}

func numbers(list string) (all []int, err error) {
	for part := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a positive number", part)
		}
		all = append(all, n)
	}
	return all, nil
}

// holdSnapshot keeps a snapshot of before open until release.
func (b *bed) holdSnapshot(ctx context.Context) (release func(), err error) {
	conn, err := pgx.Connect(ctx, b.dsn)
	if err != nil {
		return nil, err
	}
	for _, sql := range []string{`BEGIN ISOLATION LEVEL REPEATABLE READ`, `SELECT count(*) FROM pg_class`} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return nil, err
		}
	}
	return func() { _ = conn.Close(context.WithoutCancel(ctx)) }, nil
}
