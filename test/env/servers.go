package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/oncebox/oncebox/internal/embedpg"
	"github.com/oncebox/oncebox/test/env/natsd"
)

// natsVariable names the environment variable with the address of a NATS server.
const natsVariable = "ONCEBOX_NATS_URL"

// servers are what was started, with the variables that tell of it.
type servers struct {
	variables []string
	stops     []func()
}

func (s *servers) stop() {
	for _, stop := range slices.Backward(s.stops) {
		stop()
	}
}

func (s *servers) postgres(ctx context.Context, durable bool) error {
	began := time.Now()
	server, err := embedpg.Start(ctx, embedpg.Config{
		Durable: durable, Fallbacks: []embedpg.Fallback{docker, download},
	})
	if err != nil {
		return err
	}
	s.stops = append(s.stops, server.Stop)
	s.variables = append(s.variables, embedpg.DSNVariable+"="+server.DSN)
	say("Postgres", server.Source, began)
	return nil
}

func (s *servers) nats() error {
	began := time.Now()
	if url := os.Getenv(natsVariable); url != "" {
		conn, err := natsgo.Connect(url)
		if err != nil {
			return fmt.Errorf("%s names a server that does not answer: %w; mend it or unset the variable", natsVariable, err)
		}
		conn.Close()
		say("NATS", natsVariable, began)
		return nil
	}
	dir, err := os.MkdirTemp("", "oncebox-nats-")
	if err != nil {
		return fmt.Errorf("start NATS: %w", err)
	}
	s.stops = append(s.stops, func() { _ = os.RemoveAll(dir) })
	server, err := natsd.Start(natsd.Config{StoreDir: dir})
	if err != nil {
		return err
	}
	s.stops = append(s.stops, server.Stop)
	s.variables = append(s.variables, natsVariable+"="+server.URL())
	say("NATS", "in process", began)
	return nil
}

func say(server, source string, began time.Time) {
	fmt.Fprintf(os.Stderr, "env: %s from %s, ready in %v\n", server, source, time.Since(began).Round(time.Millisecond))
}
