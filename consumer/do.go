package consumer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/oncebox/oncebox/dedup"
)

// Do runs fn once for key, without a message: for code that does not use Watermill. fn
// finds the claim's transaction in its context, and its writes commit with the claim.
//
// The verdict says what happened: Proceed, fn ran and is committed; Replay, it had been
// before. Any other comes with an error: [ErrBusy] after Config.BusyHold, [ErrFailedBefore],
// or fn's own, after which nothing is committed and nothing is counted. Failures of the
// database are retried as for messages.
func (c *Consumer) Do(ctx context.Context, key dedup.Key, fn func(ctx context.Context) error) (dedup.Verdict, error) {
	d := c.newDelivery(fn)
	if err := c.identify(d, key); err != nil {
		return "", fmt.Errorf("consumer %s: key: %w", c.config.Name, err)
	}
	err := c.handle(ctx, d)
	return d.verdict, err
}

// RunOnce runs fn once in each window of time, however many processes ask: for jobs that
// cron starts on several machines. Windows are counted from the Unix epoch by the
// database's clock, so a day's window begins at midnight UTC. A run that fails leaves the
// window free for the next that asks.
func (c *Consumer) RunOnce(ctx context.Context, job string, window time.Duration, fn func(ctx context.Context) error) (dedup.Verdict, error) {
	if window < time.Second {
		return "", fmt.Errorf("consumer %s: run once: window: %v is shorter than a second", c.config.Name, window)
	}
	if strings.TrimSpace(job) == "" {
		return "", fmt.Errorf("consumer %s: run once: job: is empty", c.config.Name)
	}
	now, err := c.store.Now(ctx)
	if err != nil {
		return "", fmt.Errorf("consumer %s: run once: %w", c.config.Name, err)
	}
	number := now.UnixNano() / int64(window)
	return c.Do(ctx, dedup.Key{Scope: dedup.Global, ID: dedup.JoinParts(job, window.String(), fmt.Sprint(number))}, fn)
}
