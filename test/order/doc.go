// Command order tries to make an outbox lose, double or reorder messages, and counts.
//
// Writers claim first, then lock an account, then append messages that carry the account's
// version, wait at random places and sometimes roll back. Relay processes publish to
// JetStream; they are killed at failpoints, frozen and stopped. Meanwhile a transaction that
// writes stays open in another database, an old snapshot is held, and the ring of slots
// turns so fast that it is emptied all the time. At the end the stream is read back: the
// versions of each account must be there, once, in order.
//
// The same writers are also read by two relays as they are often written, one that remembers
// the last id and one that goes by transaction numbers below the oldest running one. They
// must be caught.
//
//	main.go      flags, and a run from its beginning to its end
//	writer.go    what is written
//	crew.go      the relay processes, and what happens to them
//	relay.go     a relay process
//	nuisance.go  what else goes on in the database
//	wrong.go     the two relays that are wrong
//	history.go   what was lost, doubled or reordered
//
// Run it by `make order`.
package main
