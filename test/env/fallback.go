package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
	"github.com/testcontainers/testcontainers-go/modules/postgres"

	"github.com/oncebox/oncebox/internal/embedpg"
)

// dockerTimeout bounds an engine that is there and can't pull.
const dockerTimeout = 2 * time.Minute

// docker runs Postgres in a container.
var docker = embedpg.Fallback{Name: "Docker", Find: func(ctx context.Context) (_ embedpg.Found, err error) {
	defer func() {
		if fault := recover(); fault != nil { // how the library says that there is no engine
			err = fmt.Errorf("no engine: %v", fault)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, dockerTimeout)
	defer cancel()
	container, err := postgres.Run(ctx, "postgres:17-alpine", postgres.BasicWaitStrategies(),
		postgres.WithUsername("postgres"), postgres.WithDatabase("postgres"))
	if err != nil {
		return embedpg.Found{}, err
	}
	stop := func() { _ = container.Terminate(context.WithoutCancel(ctx)) }
	dsn, err := container.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		stop()
		return embedpg.Found{}, err
	}
	return embedpg.Found{DSN: dsn, Stop: stop}, nil
}}

// download fetches server binaries, once for each user of the machine. Only the fetching
// and unpacking of the library is used: it can't start a server for root.
var download = embedpg.Fallback{Name: "download", Find: func(context.Context) (embedpg.Found, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	if os.Geteuid() == 0 {
		cache = "/var/cache" // the server runs as another user, who can't enter root's home
	}
	home := filepath.Join(cache, "oncebox", "postgres-"+string(embeddedpostgres.V17))
	binaries := filepath.Join(home, "bin")
	if _, err := os.Stat(filepath.Join(binaries, "postgres")); err == nil {
		return embedpg.Found{Binaries: binaries}, nil
	}
	fmt.Fprintln(os.Stderr, "env: fetching Postgres, about 30 MB …")
	server := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(embeddedpostgres.V17).BinariesPath(home).CachePath(home).
		RuntimePath(filepath.Join(home, "try")).Logger(nil))
	started := server.Start()
	if started == nil {
		_ = server.Stop()
	}
	if _, err := os.Stat(filepath.Join(binaries, "postgres")); err != nil {
		return embedpg.Found{}, errors.Join(errors.New("no binaries were unpacked"), started)
	}
	return embedpg.Found{Binaries: binaries}, nil
}}
