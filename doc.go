// Package oncebox makes message consumers take effect once per intent.
//
// Brokers deliver at least once. oncebox claims each message in the same Postgres
// transaction as the handler's writes, so that a redelivery, a duplicate from the producer
// or a crash at any point never makes a second effect, and never loses the first.
//
// Where to go:
//
//   - [github.com/oncebox/oncebox/consumer]: the Watermill middleware; start here
//   - [github.com/oncebox/oncebox/outbox]: messages that leave if and only if their transaction
//     commits, and the relay that publishes them; its sinks are below it
//   - [github.com/oncebox/oncebox/consumer/nats]: NATS JetStream with safe settings
//   - [github.com/oncebox/oncebox/store/postgres]: the store, and the handler's transaction
//   - [github.com/oncebox/oncebox/migrations]: its tables
//   - [github.com/oncebox/oncebox/store]: what a store must do
//   - [github.com/oncebox/oncebox/dedup]: the rules: keys, fingerprints, verdicts
//
// Data flows one way: broker, consumer, store, outbox, sink. The rules are in the middle and
// know neither side.
package oncebox
