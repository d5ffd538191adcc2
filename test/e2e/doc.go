// Package e2e shows the guarantees from outside: real Postgres, real NATS, Watermill's own
// router, several processes. docs/guarantees.md names the test of each promise.
package e2e
