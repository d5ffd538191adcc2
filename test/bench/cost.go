package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/ThreeDotsLabs/watermill/message"
)

// cost is what one message of a variant costs when it runs alone.
type cost struct{ trips, walBytes float64 }

// measureCost handles count messages of v on one connection after another, with nothing
// else going on. A checkpoint before it and a warm-up keep full-page images out of it.
func measureCost(ctx context.Context, b *bed, v variant, count int) (cost, error) {
	if _, err := b.runAlone(ctx, v, count/5+1); err != nil {
		return cost{}, err
	}
	total, err := b.runAlone(ctx, v, count)
	return cost{trips: total.trips / float64(count), walBytes: total.walBytes / float64(count)}, err
}

// runAlone adds up what count messages cost. What comes between them is left out.
func (b *bed) runAlone(ctx context.Context, v variant, count int) (total cost, err error) {
	handle := func(msg *message.Message) {
		msg.SetContext(ctx)
		if _, failure := v.handle(msg); failure != nil {
			err = fmt.Errorf("%s: %w", v.name, failure)
		}
	}
	for range count {
		if v.between != nil {
			handle(v.between())
		}
		before, positionErr := b.walPosition(ctx)
		trips := b.trips.trips.Load()
		handle(v.next())
		total.trips += float64(b.trips.trips.Load() - trips)
		after, afterErr := b.walPosition(ctx)
		total.walBytes += after - before
		if err = errors.Join(err, positionErr, afterErr); err != nil {
			return total, err
		}
	}
	return total, nil
}

func (b *bed) walPosition(ctx context.Context) (position float64, err error) {
	err = b.pool.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::float8`).Scan(&position)
	return position, err
}

// reportCosts prints round trips and WAL of each variant.
func reportCosts(ctx context.Context, b *bed, count int, out io.Writer) error {
	if _, err := b.pool.Exec(ctx, `CHECKPOINT`); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\nvariant\tround trips\tWAL bytes\tover bare\t")
	var bareWAL float64
	for i, v := range b.variants {
		one, err := measureCost(ctx, b, v, count)
		if err != nil {
			return err
		}
		if i == bare {
			bareWAL = one.walBytes
		}
		fmt.Fprintf(table, "%s\t%.2f\t%.0f\t%+.0f\t\n", v.name, one.trips, one.walBytes, one.walBytes-bareWAL)
	}
	return table.Flush()
}
