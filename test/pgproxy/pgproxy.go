// Package pgproxy is a TCP proxy in front of a Postgres server that cuts a connection at
// COMMIT: before the request reaches the server, or after the server has answered and
// before the client hears it. To the client both look the same. It can also cut all
// connections and accept none for a while, as a server that fails over.
package pgproxy

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Cut is the moment at which a connection is cut.
type Cut int32

const (
	// Nowhere lets everything pass.
	Nowhere Cut = iota
	// Request cuts before COMMIT reaches the server: the transaction is rolled back.
	Request
	// Reply cuts after the server has committed, before its answer reaches the client.
	Reply
)

// Proxy forwards to one server. It is made by [Start].
type Proxy struct {
	listener net.Listener
	target   string
	next     atomic.Int32
	cuts     atomic.Int64
	away     atomic.Bool

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	group sync.WaitGroup
}

// Start listens on a random loopback port and forwards to the server that config names,
// which it then points at itself.
func Start(config *pgxpool.Config) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	conn := config.ConnConfig
	p := &Proxy{
		listener: listener,
		target:   net.JoinHostPort(conn.Host, strconv.Itoa(int(conn.Port))),
		conns:    make(map[net.Conn]struct{}),
	}
	address := listener.Addr().(*net.TCPAddr)
	conn.Host, conn.Port = address.IP.String(), uint16(address.Port)
	conn.Fallbacks = nil
	p.group.Go(p.accept)
	return p, nil
}

// CutNext cuts the next connection that sends COMMIT, once.
func (p *Proxy) CutNext(at Cut) { p.next.Store(int32(at)) }

// GoAway cuts all connections, and those that come until ComeBack.
func (p *Proxy) GoAway() {
	p.away.Store(true)
	p.closeAll()
}

// ComeBack lets connections pass again.
func (p *Proxy) ComeBack() { p.away.Store(false) }

// Cuts is how many connections were cut.
func (p *Proxy) Cuts() int64 { return p.cuts.Load() }

// Close stops the proxy and all of its connections, and waits for them.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.closeAll()
	p.group.Wait()
	return err
}

func (p *Proxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
	clear(p.conns)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.track(client, server)
		if p.away.Load() { // after tracking, so that GoAway misses none
			_, _ = client.Close(), server.Close()
			continue
		}
		link := &link{proxy: p, client: client, server: server}
		p.group.Go(link.upstream)
		p.group.Go(link.downstream)
	}
}

func (p *Proxy) track(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		p.conns[conn] = struct{}{}
	}
}

// link is one client's connection through the proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	dropReply      atomic.Bool
}

func (l *link) upstream() {
	defer l.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(buffer)
		if n > 0 && bytes.Contains(bytes.ToLower(buffer[:n]), []byte("commit\x00")) {
			switch Cut(l.proxy.next.Swap(int32(Nowhere))) {
			case Request:
				l.proxy.cuts.Add(1)
				return
			case Reply:
				l.dropReply.Store(true)
			}
		}
		if n > 0 {
			if _, err := l.server.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *link) downstream() {
	defer l.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buffer)
		if n > 0 && l.dropReply.Load() {
			l.proxy.cuts.Add(1)
			return
		}
		if n > 0 {
			if _, err := l.client.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}
