// Package crash kills worker processes where it hurts and then does the books.
//
// The test binary re-executes itself as a worker: a Watermill router on NATS with the
// oncebox middleware in front of a handler that writes one row. ONCEBOX_FAILPOINT names the
// point at which the worker dies by SIGKILL. Run it by `make crash`; the build tag
// "failpoint" compiles the points in.
package crash
