// Package outbox sends messages if and only if the transaction that decided to send them
// commits, and in the order of commits for each ordering key.
//
//	handler ── Append / Publisher ──► unit of work ── COMMIT ──► outbox ◄── Relay ──► Sink ──► broker
//
// # Writing
//
// A handler of package consumer returns its messages, or publishes them through a
// [Publisher], which finds the handler's transaction in each message's context; buses of
// Watermill's cqrs become transactional with it unchanged. Code without Watermill, or
// without claims, calls [Append] with a transaction of its own. On pgx, what a handler sends
// travels with COMMIT and costs no trip.
//
// # Publishing
//
// A [Relay] publishes what is committed. Any number of relays, in any number of processes,
// share the outbox's buckets, each of which is leased to one of them:
//
//	free ──take──► owned ──► window ──► page ──► sink ──► confirmed ──► cursor saved
//	  ▲              │          ▲                  │                        │
//	  │              │          └── next page ◄─────────────────────────────┤
//	  └──hand over───┴── lease lost: nothing more is written ◄── fenced ────┘
//
// A window holds what was committed between two snapshots of the database, and is published
// by message number. So nothing that commits late is passed over, nothing waits for
// transactions that have nothing to do with it, and a message comes after all that its
// transaction could see of its key.
//
// # Guarantees
//
//   - Nothing is lost: a message is passed only when the sink has confirmed it, or when it
//     lies parked in the database.
//   - For one ordering key, messages leave in the order of commits, if the transactions that
//     send under the key lock the same row before they do, or set LockKey. A message that
//     can't be published holds its key up, and no other.
//   - Twice at most what a crash left unsaved: a page for each bucket. Sinks that deduplicate,
//     as package jetstream, remove that too.
//   - An outage of the broker gives up no message, and counts no attempt.
//   - The database is left alone while the broker is talked to: no transaction is open.
//
// # Not promised
//
//   - Order between keys, and of messages without a key.
//   - Order of a message that an operator skipped and then retried.
//   - The same id appended by two transactions is two messages here.
//
// Operators list, retry, skip, drop and edit what is parked through [store.Operator], which
// the stores implement; all of it is recorded.
package outbox
