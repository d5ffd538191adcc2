// Package watermill publishes an outbox through any Publisher of Watermill, at least once:
// a message may come again after a crash, under the id that it had.
//
//	sink, err := watermill.New(publisher, watermill.Config{})
//	relay, err := outbox.NewRelay(st, sink, outbox.RelayConfig{})
//
// Each message is published by a call of its own, so that it is known which one has failed;
// messages of different ordering keys are under way at once.
//
// A publisher that returns before the broker has confirmed would lose messages. Those that
// are known to, and can be recognised, are refused by [New]; a decorated one can't be
// recognised.
package watermill
