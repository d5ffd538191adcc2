package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// interleave runs all variants of the bed mixed, one worker a connection, for about the
// given time, and returns the latencies of each in the order of the variants. The first
// tenth of the time warms caches and is not counted.
func interleave(ctx context.Context, b *bed, duration time.Duration) ([][]time.Duration, error) {
	start := time.Now()
	warm, end := start.Add(duration/10), start.Add(duration)

	var (
		mu        sync.Mutex
		latencies = make([][]time.Duration, len(b.variants))
		failure   error
		workers   sync.WaitGroup
	)
	for range b.size {
		workers.Go(func() {
			mine := make([][]time.Duration, len(b.variants))
			err := work(ctx, b.variants, warm, end, mine)
			mu.Lock()
			defer mu.Unlock()
			failure = errors.Join(failure, err)
			for i := range mine {
				latencies[i] = append(latencies[i], mine[i]...)
			}
		})
	}
	workers.Wait()
	return latencies, failure
}

func work(ctx context.Context, variants []variant, warm, end time.Time, latencies [][]time.Duration) error {
	for {
		i := rand.IntN(len(variants))
		msg := variants[i].next()
		before := time.Now()
		if before.After(end) {
			return ctx.Err()
		}
		msg.SetContext(ctx)
		if _, err := variants[i].handle(msg); err != nil {
			return err
		}
		if before.After(warm) {
			latencies[i] = append(latencies[i], time.Since(before))
		}
	}
}

func mean(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	var sum time.Duration
	for _, one := range all {
		sum += one
	}
	return sum / time.Duration(len(all))
}

func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
