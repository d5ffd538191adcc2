// Package jetstream publishes an outbox to NATS JetStream, so that each message is in its
// stream exactly once.
//
//	sink, err := jetstream.New(js, jetstream.Config{})
//	relay, err := outbox.NewRelay(st, sink, outbox.RelayConfig{})
//
// The topic is the subject. Headers that instruct the server (Nats-…) are left out. Each message carries its id as Nats-Msg-Id, by which the server
// drops what comes again inside the stream's duplicate window. A relay that takes a bucket
// over later than that first reads the tail of the streams, from the last sequence that the
// bucket's cursor was saved with, for what its former owner has published and not saved.
//
// Many messages are under way at once, but of each ordering key only one: the next is sent
// when the one before it is confirmed.
//
// Connect with nats.ReconnectBufSize(-1): what the client keeps while it is reconnecting would
// leave whenever that succeeds, perhaps after another relay has published it.
//
// # Not promised
//
//   - A process that is frozen in mid-page for longer than both its lease and the duplicate
//     window may, when it wakes, send the messages that it had under way once more.
//   - Two messages with one id in one stream: the server keeps the first. Append gives the
//     second an id of its own only inside one unit of work.
//   - What is deleted from the stream, by its limits or by hand, before the tail is read.
package jetstream
