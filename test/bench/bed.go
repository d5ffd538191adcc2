package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncebox/oncebox/migrations"
	"github.com/oncebox/oncebox/store/postgres"
)

// schema holds everything a run makes; it is dropped at the end.
const schema = "oncebox_bench"

// bed is a fresh schema, a pool of one size and the variants that run on it.
type bed struct {
	pool     *pgxpool.Pool
	trips    *tripCounter
	size     int
	variants []variant
}

func openBed(ctx context.Context, dsn string, size int, network time.Duration) (*bed, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("parse ONCEBOX_POSTGRES_DSN: %w", err)
	}
	trips := &tripCounter{network: network}
	config.ConnConfig.DialFunc = trips.dial(config.ConnConfig.DialFunc)
	config.MaxConns, config.MinConns = int32(size), int32(size)
	config.MaxConnIdleTime, config.MaxConnLifetime = time.Hour, time.Hour
	// As docs/development advises; a claim need not set it then.
	config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "45s"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open pool: %w", err)
	}
	b := &bed{pool: pool, trips: trips, size: size}
	if err := b.prepare(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return b, nil
}

func (b *bed) prepare(ctx context.Context) error {
	for _, statement := range []string{
		`DROP SCHEMA IF EXISTS ` + schema + ` CASCADE`,
		`CREATE SCHEMA ` + schema,
		`CREATE TABLE ` + schema + `.invoice (
			id        uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
			account   bigint      NOT NULL,
			issued_at timestamptz NOT NULL DEFAULT now(),
			body      text        NOT NULL)`,
		`CREATE INDEX ON ` + schema + `.invoice (account, issued_at)`,
		`CREATE INDEX ON ` + schema + `.invoice (issued_at)`,
	} {
		if _, err := b.pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("prepare schema: %w", err)
		}
	}
	err := b.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return migrations.Up(ctx, conn.Conn(), migrations.Options{Schema: schema})
	})
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	st, err := postgres.New(b.pool, postgres.Config{Schema: schema})
	if err != nil {
		return err
	}
	b.variants, err = newVariants(ctx, b.pool, st)
	return err
}

func (b *bed) close() error {
	defer b.pool.Close()
	_, err := b.pool.Exec(context.Background(), `DROP SCHEMA `+schema+` CASCADE`)
	return err
}

// insertInvoice is the business write: one row of about 300 bytes.
const insertInvoice = `INSERT INTO ` + schema + `.invoice (account, body) VALUES ($1, $2)`
