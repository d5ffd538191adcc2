package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"
)

// anHour drains what comes together while no relay runs for an hour, and prints how much
// memory that needs at most.
func (b *bed) anHour(ctx context.Context, messages int, out io.Writer) error {
	st, err := b.migrate(ctx)
	if err != nil {
		return err
	}
	if err := b.fill(ctx, messages); err != nil {
		return err
	}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var most atomic.Uint64
	watching, stop := context.WithCancel(ctx)
	go func() {
		for watching.Err() == nil {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			if now.HeapInuse > most.Load() {
				most.Store(now.HeapInuse)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	began := time.Now()
	drained, stopRelay, err := start(ctx, st, &nowhere{}, messages)
	if err != nil {
		stop()
		return err
	}
	err = drained()
	took := time.Since(began)
	stopRelay()
	stop()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nan hour of %d messages (%.1f GB) drained in %v, %.0f a second, with %d MB of heap at most (%d MB before)\n",
		messages, float64(messages)*float64(len(payload))/1e9, took.Round(100*time.Millisecond), float64(messages)/took.Seconds(),
		most.Load()>>20, before.HeapInuse>>20)
	return nil
}
