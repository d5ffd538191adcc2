// Package pgtest gives each test a schema of its own on a real Postgres.
//
// The server is the one that ONCEBOX_POSTGRES_DSN names, as under `make test`; without it
// one private server is started for the whole test binary. A machine without Postgres
// fails the test: nothing is skipped.
package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/internal/embedpg"
)

// poolSize suits tests that run in parallel against one server of 300 connections.
const poolSize = 16

// DB is one test's schema. It is dropped when the test ends.
type DB struct {
	// Pool has an empty search_path, so that an unqualified table name fails.
	Pool *pgxpool.Pool
	// Schema is the schema's name.
	Schema string
	// DSN is the server's address with the empty search_path, for other processes and
	// other drivers.
	DSN string
}

// Open makes the schema.
func Open(t testing.TB) *DB {
	t.Helper()
	schema := "test_" + randomName()
	dsn, err := address(server(t).DSN, schema)
	require.NoError(t, err)
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	config.MaxConns = poolSize
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() { // a failed test may still hold a connection, which Close waits for
			pool.Close()
		}
	})
	db := &DB{Pool: pool, Schema: schema, DSN: dsn}
	quoted := pgx.Identifier{db.Schema}.Sanitize()
	_, err = pool.Exec(t.Context(), `CREATE SCHEMA `+quoted)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		// A connection of its own: a test may have used the pool up.
		conn, err := pgx.Connect(ctx, dsn)
		require.NoError(t, err)
		defer conn.Close(ctx)
		if t.Failed() { // or leave a transaction open, which the DROP waits for
			_, err = conn.Exec(ctx, endOthers, schema)
			require.NoError(t, err)
		}
		_, err = conn.Exec(ctx, `DROP SCHEMA `+quoted+` CASCADE`)
		require.NoError(t, err)
	})
	return db
}

// Counts runs a query that gives names and counts. %s in it stands for the table.
func (db *DB) Counts(t testing.TB, query, table string) map[string]int {
	t.Helper()
	rows, err := db.Pool.Query(t.Context(), fmt.Sprintf(query, pgx.Identifier{db.Schema, table}.Sanitize()))
	require.NoError(t, err)
	counts := make(map[string]int)
	var name string
	var count int
	_, err = pgx.ForEachRow(rows, []any{&name, &count}, func() error {
		counts[name] = count
		return nil
	})
	require.NoError(t, err)
	return counts
}

// shared is the server of this test binary. Nobody stops it: it dies with the process.
var shared = sync.OnceValues(func() (*embedpg.Server, error) {
	return embedpg.Start(context.Background(), embedpg.Config{})
})

func server(t testing.TB) *embedpg.Server {
	t.Helper()
	started, err := shared()
	require.NoError(t, err, "tests need a real Postgres; `make test` finds or installs one")
	return started
}

// endOthers ends the connections of a test, which its schema names.
const endOthers = `
SELECT pg_terminate_backend(pid)
FROM pg_stat_activity
WHERE application_name = $1 AND pid <> pg_backend_pid()`

// address gives a server's address, in URL form or in key-value form, an empty search_path
// and the test's name.
func address(dsn, name string) (string, error) {
	if !strings.Contains(dsn, "://") {
		return dsn + ` search_path='' application_name=` + name, nil
	}
	parsed, err := url.Parse(dsn)
	if err != nil {
		return "", errors.New("address of the server: is not a URL") // the error would show it
	}
	query := parsed.Query()
	query.Set("search_path", `""`)
	query.Set("application_name", name)
	parsed.RawQuery = query.Encode()
	return parsed.String(), nil
}

func randomName() string {
	var bytes [8]byte
	_, _ = rand.Read(bytes[:]) // never fails
	return hex.EncodeToString(bytes[:])
}
