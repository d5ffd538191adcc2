// Command bench measures what oncebox costs: the same message handled bare and through
// the middleware, on one durable Postgres, in one interleaved run.
//
// Machines are noisy, so every figure is a ratio. Each worker draws the variant anew for
// every operation; a slow second then slows all variants alike, and the ratio of their
// mean latencies stays. Round trips are counted on the socket, WAL by the server's own
// insert position while one variant runs alone.
//
// Run it by
//
//	make bench
//
// which starts a Postgres with fsync on. A server without it is refused: it would hide
// what COMMIT costs.
package main
