// Package nats reads NATS JetStream for package consumer: a Watermill Subscriber that
// neither loses nor replays messages by its settings, keeps the identity that the broker
// gave them, and turns that identity into idempotency keys.
//
// Start with [NewSubscriber]. It finds or makes a durable pull consumer; every process that
// names the same durable shares its messages:
//
//	sub, err := nats.NewSubscriber(nats.Config{
//		URL: "nats://localhost:4222", Stream: "ORDERS", Durable: "billing",
//	})
//	router.AddConsumerHandler("billing", "ORDERS", sub, handle)
//
// # Guarantees
//
//   - A message is acked at the server only after its handler acked it. Neither Close, nor
//     the end of a context, nor a message that can't be read acks anything.
//   - The durable is never deleted, so a restart goes on where the last run stopped. One
//     whose settings would lose, replay or parallelize messages is refused by name.
//   - A nacked message stays away for as long as the consumer asks, as by
//     dedup.RetryAfter, else for NackDelay. Its worker is free meanwhile.
//   - A worker asks for one message, when it is idle: no message uses up its AckWait while
//     it waits for its turn, and a killed process holds no more than it had in work.
//   - Close waits for running handlers and for their acks to arrive. What no handler has
//     seen is handed back at once.
//   - The UUID of a message is never empty, whoever produced it, and no header passes for
//     the server's coordinates. See [Unmarshal].
//   - A Conn that the caller passed stays open.
//
// # Not promised
//
// Delivery is at least once. When AckWait runs out, the server gives the message to a
// second worker while the first is at it; an ack that is lost on the way brings the message
// back. Both are duplicates, which the claim makes harmless. AckWait must exceed the
// handler's timeout, which NewSubscriber checks, but nothing here stops a handler.
//
// The durable's place in the stream lives on the server. Deleting the durable, or naming
// another one, delivers the whole stream again; retention of claims must cover that.
//
// The stream is not made here: its retention, its storage and its duplicate window are the
// owner's to choose.
//
// # Why not Watermill's own adapters
//
// Messages of Watermill's NATS publishers are read, with their UUID and metadata; its
// subscribers, at v2.1.3, are not used, because no settings give the guarantees above.
// test/e2e shows each of these:
//
//   - pkg/nats acks what is in work at Close unless ManualAck is set, and with it doesn't
//     hear the acks of handlers that finish after Close. It deletes the durable that it
//     made. It can only use push consumers: up to MaxAckPending messages lie in the queue
//     of one process, where they use up their AckWait and are then delivered twice. Its
//     Close drains the caller's connection, and closes a channel that it may be sending to.
//   - pkg/jetstream buffers 500 messages in the same way, crashes the process on a header
//     with two values, and crashes it when the context of a subscription ends while
//     messages come in.
package nats
