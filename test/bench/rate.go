package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

// slice is short against the swings of a noisy machine.
const slice = 250 * time.Millisecond

// measureRates runs each variant alone in turns of a slice, one worker a connection, and
// returns messages a second in the order of the variants.
func measureRates(ctx context.Context, b *bed, duration time.Duration) ([]float64, error) {
	counts := make([]int64, len(b.variants))
	turns := max(1, int(duration/slice)/len(b.variants))
	for range turns {
		for i, v := range b.variants {
			if v.between != nil {
				continue // it is not that kind when it is alone
			}
			count, err := b.runFor(ctx, v, slice)
			if err != nil {
				return nil, err
			}
			counts[i] += count
		}
	}
	rates := make([]float64, len(counts))
	for i, count := range counts {
		rates[i] = float64(count) / (float64(turns) * slice.Seconds())
	}
	return rates, nil
}

func (b *bed) runFor(ctx context.Context, v variant, d time.Duration) (int64, error) {
	var (
		mu      sync.Mutex
		failure error
		count   atomic.Int64
		workers sync.WaitGroup
	)
	end := time.Now().Add(d)
	for range b.size {
		workers.Go(func() {
			for time.Now().Before(end) {
				msg := v.next()
				msg.SetContext(ctx)
				if _, err := v.handle(msg); err != nil {
					mu.Lock()
					failure = errors.Join(failure, err)
					mu.Unlock()
					return
				}
				count.Add(1)
			}
		})
	}
	workers.Wait()
	return count.Load(), failure
}

// reportRates prints how many messages of each kind go through when there is nothing else.
func reportRates(out io.Writer, b *bed, rates []float64) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\n%d connections, one kind at a time\tmessages a second\tover random keys\t\n", b.size)
	for i, rate := range rates {
		if b.variants[i].between != nil {
			continue
		}
		fmt.Fprintf(table, "%s\t%.0f\t%.2f\t\n", b.variants[i].name, rate, rate/rates[random])
	}
	return table.Flush()
}
