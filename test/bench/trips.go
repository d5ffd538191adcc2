package main

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// tripCounter counts round trips on the sockets that it dialled, and can make each longer,
// as a network would: a trip begins with the first byte written after an answer was read.
type tripCounter struct {
	trips   atomic.Int64
	network time.Duration // added to each trip
}

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
		time.Sleep(c.counter.network)
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
