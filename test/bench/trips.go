package main

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
)

// tripCounter counts round trips on the sockets that it dialled: a trip begins with the
// first byte written after an answer was read.
type tripCounter struct{ trips atomic.Int64 }

func (c *tripCounter) dial(next pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &countedConn{Conn: conn, counter: c}, nil
	}
}

type countedConn struct {
	net.Conn
	counter *tripCounter
	asked   atomic.Bool
}

func (c *countedConn) Write(b []byte) (int, error) {
	if !c.asked.Swap(true) {
		c.counter.trips.Add(1)
	}
	return c.Conn.Write(b)
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.asked.Store(false)
	}
	return n, err
}
