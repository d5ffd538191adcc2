// Command orders is the demo: the same orders, the same chaos, three consumers.
//
// Orders are published to NATS JetStream, some of them twice. Worker processes bill them
// into Postgres while a chaos loop kills them with SIGKILL, some handlers take longer than
// the broker waits, and some fail at first. Each invoice is told by an event; with oncebox it
// goes through the outbox, and relay processes are killed as well. Then the books are done: a
// plain handler doubles, Watermill's Deduplicator loses, oncebox does neither, and its events
// are there once and in order.
//
//	main.go      flags, and the three columns one after another
//	column.go    one column: its tables and stream, its workers, its end
//	produce.go   the orders, and what is done to them
//	worker.go    a worker process
//	protect.go   what makes the three columns differ: start here
//	bill.go      the handler
//	event.go     what the handler tells of an invoice, and the direct way to publish it
//	relay.go     a relay process, which publishes what the outbox holds
//	chaos.go     the processes: start, kill, count
//	books.go     what came of it
//	published.go what came of the events, read back from their stream
//
// Run it by `make demo`.
package main
