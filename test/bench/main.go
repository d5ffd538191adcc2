package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	connections := flags.String("connections", "1,16,64", "comma-separated numbers of connections to measure")
	duration := flags.Duration("duration", 15*time.Second, "how long each number of connections is measured")
	walMessages := flags.Int("wal-messages", 5000, "messages for the WAL figure")
	network := flags.Duration("network", 0, "time added to each round trip")
	volatile := flags.Bool("volatile", false, "allow a server without fsync; its ratios mean nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	sizes, err := parseSizes(*connections)
	if err != nil {
		return err
	}
	dsn := os.Getenv("ONCEBOX_POSTGRES_DSN")
	if dsn == "" {
		return errors.New("ONCEBOX_POSTGRES_DSN is not set; run `make bench`, which starts a durable Postgres")
	}
	if err := requireDurable(ctx, dsn, *volatile); err != nil {
		return err
	}

	fmt.Fprintln(out, "One message: claim, one INSERT of about 300 bytes, COMMIT. Ratios are over the bare handler.")
	for i, size := range sizes {
		bed, err := openBed(ctx, dsn, size, *network)
		if err != nil {
			return err
		}
		if i == 0 {
			if err := reportCosts(ctx, bed, *walMessages, out); err != nil {
				return errors.Join(err, bed.close())
			}
		}
		fmt.Fprintf(os.Stderr, "measuring %d connections for %v …\n", size, *duration)
		latencies, err := interleave(ctx, bed, *duration)
		if err == nil {
			err = reportLatencies(out, bed.variants, size, latencies)
		}
		if err == nil {
			var rates []float64
			if rates, err = measureRates(ctx, bed, *duration); err == nil {
				err = reportRates(out, bed, rates)
			}
		}
		if err := errors.Join(err, bed.close()); err != nil {
			return err
		}
	}
	return nil
}

func parseSizes(list string) ([]int, error) {
	var sizes []int
	for part := range strings.SplitSeq(list, ",") {
		size, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || size < 1 {
			return nil, fmt.Errorf("-connections: %q is not a positive number", part)
		}
		sizes = append(sizes, size)
	}
	return sizes, nil
}

func requireDurable(ctx context.Context, dsn string, volatile bool) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connect to ONCEBOX_POSTGRES_DSN: %w", err)
	}
	defer conn.Close(ctx)
	var fsync, synchronous string
	if err := conn.QueryRow(ctx, `SELECT current_setting('fsync'), current_setting('synchronous_commit')`).Scan(&fsync, &synchronous); err != nil {
		return fmt.Errorf("read server settings: %w", err)
	}
	if (fsync != "on" || synchronous != "on") && !volatile {
		return fmt.Errorf("the server runs with fsync=%s synchronous_commit=%s; use a durable one (`make bench`)", fsync, synchronous)
	}
	return nil
}
