// Package consumer wraps Watermill handlers so that each message takes effect once.
//
//	billing, err := consumer.New(st, consumer.Config{
//		Name: "billing",
//		Key:  consumer.Metadata("order_id"),
//	})
//	router.AddConsumerHandler("billing", "orders", sub, handle).AddMiddleware(billing.Middleware)
//
// # What happens to a message
//
//	message ─► key ─► claim ──taken──► handler ─► guards ─► COMMIT ─► ack
//	            │       │                 │          │         │
//	            │       │               error     refused   unknown
//	          none      │                 ▼          ▼         ▼
//	            ▼       │             rolled back, counted   nack, not counted
//	       dead letter  │                 │
//	                    │                 └─ last attempt or Permanent: dead letter, ack
//	                    └─held─► completed: ack · in flight: hold, then nack
//	                             other fingerprint, failed before: dead letter, ack
//
// # Guarantees
//
//   - The claim, and everything that the handler writes in the transaction of its context,
//     commit together or not at all. A redelivery after COMMIT does not run the handler.
//   - A message is acked only after COMMIT, or after it was stored as a dead letter, or when
//     its intent has taken effect before.
//   - Messages that the handler returns, or publishes through package outbox, are stored in
//     the transaction; they leave if and only if it commits.
//   - A failed database, a shutdown, a lost COMMIT or a delivery that is busy elsewhere is
//     never counted against a message and never dead-letters it.
//   - While a message waits, it holds no database connection.
//   - No key, payload or fingerprint is logged or passed to [Config.OnEvent].
//
// # Not promised
//
//   - Effects outside the database (a payment, a mail) are repeated when the process dies
//     between them and COMMIT.
//   - Order: a message that is held or nacked comes after its successors, as the broker has it.
package consumer
