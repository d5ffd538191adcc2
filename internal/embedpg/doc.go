// Package embedpg finds a real Postgres, or starts a private one that goes away with the
// process, for tests, the demo and benchmarks.
//
// It tries, in this order: the server that ONCEBOX_POSTGRES_DSN names, which must answer;
// server binaries on this machine; the fallbacks that the caller brings. If none works,
// one error says what was tried, why it failed and what to do.
//
// A started server lives in a temporary folder, listens on a Unix socket in it and on a
// random loopback port, and dies with this process even when that is killed (Linux). It
// also works for root, which Postgres refuses: the server then runs as user postgres or
// nobody.
package embedpg
