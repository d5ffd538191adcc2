package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// openDurable finds the durable or makes it, and refuses one whose settings would lose
// messages, replay them, or give them to two workers.
func openDurable(ctx context.Context, js jetstream.JetStream, config Config) (jetstream.Consumer, error) {
	stream, err := js.Stream(ctx, config.Stream)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", config.Stream, err)
	}
	durable, err := stream.Consumer(ctx, config.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		durable, err = stream.CreateConsumer(ctx, config.durable())
		if errors.Is(err, jetstream.ErrConsumerExists) { // another process was faster
			durable, err = stream.Consumer(ctx, config.Durable)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open durable %s: %w", config.Durable, err)
	}
	if err := config.accept(durable.CachedInfo().Config); err != nil {
		return nil, fmt.Errorf("check durable %s: %w", config.Durable, err)
	}
	return durable, nil
}

// durable is the configuration that a missing durable is made with.
func (c Config) durable() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       c.Durable,
		FilterSubject: c.FilterSubject,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       c.AckWait,
		MaxDeliver:    c.MaxDeliver,
		MaxAckPending: c.MaxAckPending,
	}
}

// accept names every setting of an existing durable that is dangerous. A longer AckWait
// and another MaxAckPending are not.
func (c Config) accept(held jetstream.ConsumerConfig) error {
	var wrong []error
	refuse := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }

	if held.AckPolicy != jetstream.AckExplicitPolicy {
		refuse("AckPolicy: it has %v, not explicit: messages would be lost", held.AckPolicy)
	}
	if held.AckWait < c.AckWait {
		refuse("AckWait: it has %v, shorter than %v: a message would go to a second worker too early",
			held.AckWait, c.AckWait)
	}
	if len(held.BackOff) > 0 && slices.Min(held.BackOff) < c.AckWait {
		refuse("BackOff: it has %v, shorter than AckWait %v and in its place",
			slices.Min(held.BackOff), c.AckWait)
	}
	if held.MaxDeliver > 0 && (c.MaxDeliver == Unlimited || held.MaxDeliver < c.MaxDeliver) {
		refuse("MaxDeliver: it has %d, below %s: messages would be lost after that many deliveries",
			held.MaxDeliver, deliveries(c.MaxDeliver))
	}
	if filters := filtersOf(held); !slices.Equal(filters, filtersOf(c.durable())) {
		refuse("FilterSubject: it has %q, not %q", filters, c.FilterSubject)
	}
	if held.InactiveThreshold > 0 {
		refuse("InactiveThreshold: it has %v: the server would delete it and replay the stream",
			held.InactiveThreshold)
	}
	if held.MemoryStorage {
		refuse("MemoryStorage: a restart of the server would forget it and replay the stream")
	}
	if held.HeadersOnly {
		refuse("HeadersOnly: messages would come without payload")
	}
	return errors.Join(wrong...)
}

func filtersOf(config jetstream.ConsumerConfig) []string {
	if config.FilterSubject != "" {
		return []string{config.FilterSubject}
	}
	return config.FilterSubjects
}

func deliveries(limit int) string {
	if limit == Unlimited {
		return "unlimited"
	}
	return fmt.Sprint(limit)
}
