package embedpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/jackc/pgx/v5"
)

// DSNVariable names the environment variable with the address of a server to use.
const DSNVariable = "ONCEBOX_POSTGRES_DSN"

// Config says what kind of server is wanted. The zero Config is a fast server that
// forgets everything in a power cut.
type Config struct {
	// Durable keeps fsync, synchronous_commit and full_page_writes on, as in production.
	Durable bool
	// Settings are further server settings, by name.
	Settings map[string]string
	// Fallbacks are tried in order when this machine has no server binaries.
	Fallbacks []Fallback
}

// Fallback is another way to come by a server.
type Fallback struct {
	// Name says what is tried, as in "Docker".
	Name string
	// Find returns what it found. It must respect ctx.
	Find func(ctx context.Context) (Found, error)
}

// Found is what a [Fallback] came up with: either a running server or binaries.
type Found struct {
	// DSN is the address of a running server, and Stop ends it.
	DSN  string
	Stop func()
	// Binaries is a folder with initdb and postgres.
	Binaries string
}

// Server is a Postgres to work with.
type Server struct {
	// DSN is its address as a URL or key-value string. The user is a superuser, except
	// perhaps on a server that was named by the environment.
	DSN string
	// Source says where the server came from, for people.
	Source string

	once sync.Once
	stop func()
}

// Stop ends a server that Start started, and removes its folder. It leaves a server that
// the environment named alone. Further calls do nothing.
func (s *Server) Stop() {
	s.once.Do(func() {
		if s.stop != nil {
			s.stop()
		}
	})
}

// Start finds or starts a server. ctx bounds the start only.
func Start(ctx context.Context, config Config) (*Server, error) {
	if dsn := os.Getenv(DSNVariable); dsn != "" {
		if err := answers(ctx, dsn); err != nil {
			return nil, fmt.Errorf("%s names a server that does not answer: %w; mend it or unset the variable", DSNVariable, err)
		}
		return &Server{DSN: dsn, Source: DSNVariable}, nil
	}
	tried := []error{fmt.Errorf("%s: not set", DSNVariable)}
	bin, err := findBinaries()
	if err == nil {
		return startLocal(ctx, bin, config)
	}
	tried = append(tried, fmt.Errorf("local binaries: %w", err))
	for _, fallback := range config.Fallbacks {
		server, err := startFallback(ctx, fallback, config)
		if err == nil {
			return server, nil
		}
		tried = append(tried, fmt.Errorf("%s: %w", fallback.Name, err))
	}
	return nil, fmt.Errorf("no Postgres could be had. Install one (Debian: apt-get install postgresql), "+
		"or set %s to the address of a server. What was tried:\n%w", DSNVariable, errors.Join(tried...))
}

func startFallback(ctx context.Context, fallback Fallback, config Config) (*Server, error) {
	found, err := fallback.Find(ctx)
	if err != nil {
		return nil, err
	}
	if found.Binaries != "" {
		return startLocal(ctx, found.Binaries, config)
	}
	return &Server{DSN: found.DSN, Source: fallback.Name, stop: found.Stop}, nil
}

func answers(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}
