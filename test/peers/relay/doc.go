// Command relay measures how fast messages leave an outbox: oncebox's relay beside
// Watermill's forwarder on watermill-sql, with the same messages, on the same Postgres, in
// turns, into a sink that does nothing.
//
//	main.go       flags, and the turns
//	ours.go       oncebox: fill the outbox, drain it
//	forwarder.go  the same with Watermill
//	latency.go    from COMMIT to the sink, while nothing else goes on
//	memory.go     what a relay needs
//
// Run it by `make bench/outbox`.
package main
