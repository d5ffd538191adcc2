// Package natsd runs a real NATS server with JetStream inside the process.
package natsd

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// readyTimeout is far above the tenth of a second that it takes.
const readyTimeout = 30 * time.Second

// Config says where a server keeps its data and listens.
type Config struct {
	// StoreDir is the folder for streams; a server that is started again there has them
	// again. Required.
	StoreDir string
	// Port is the loopback port. Defaults to a random one.
	Port int
}

// Server is a running server.
type Server struct{ running *server.Server }

// Start starts a server and waits until it answers.
func Start(config Config) (*Server, error) {
	if config.StoreDir == "" {
		return nil, errors.New("start NATS: StoreDir: missing")
	}
	if config.Port == 0 {
		config.Port = server.RANDOM_PORT
	}
	running, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: config.Port, JetStream: true, StoreDir: config.StoreDir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	running.Start()
	if !running.ReadyForConnections(readyTimeout) {
		running.Shutdown()
		return nil, fmt.Errorf("start NATS: not ready after %v", readyTimeout)
	}
	return &Server{running}, nil
}

// URL is the server's address.
func (s *Server) URL() string { return s.running.ClientURL() }

// Port is the server's loopback port.
func (s *Server) Port() int { return s.running.Addr().(*net.TCPAddr).Port }

// Stop stops the server and waits for its end.
func (s *Server) Stop() {
	s.running.Shutdown()
	s.running.WaitForShutdown()
}
