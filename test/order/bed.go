package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncebox/oncebox/migrations"
	"github.com/oncebox/oncebox/store/postgres"
)

// duplicateWindow is short, so that relays often take over later than that.
const duplicateWindow = 3 * time.Second

// bed is a schema and a stream of a run's own.
type bed struct {
	settings settings
	name     string
	dsn      string
	pool     *pgxpool.Pool
	st       *postgres.Store
	nc       *natsgo.Conn
	js       jetstream.JetStream
}

func openBed(ctx context.Context, s settings) (*bed, error) {
	b := &bed{settings: s, name: fmt.Sprintf("order_%d", time.Now().UnixNano()), dsn: os.Getenv("ONCEBOX_POSTGRES_DSN")}
	if b.dsn == "" || os.Getenv("ONCEBOX_NATS_URL") == "" {
		return nil, errors.New("ONCEBOX_POSTGRES_DSN and ONCEBOX_NATS_URL are not both set; run `make order`, which starts the servers")
	}
	config, err := pgxpool.ParseConfig(b.dsn)
	if err != nil {
		return nil, errors.New("ONCEBOX_POSTGRES_DSN can't be parsed")
	}
	config.MaxConns = int32(s.Writers + 8)
	if b.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	for _, sql := range []string{
		`CREATE SCHEMA %[1]s`,
		`CREATE TABLE %[1]s.account (id int PRIMARY KEY, version bigint NOT NULL DEFAULT 0)`,
		`INSERT INTO %[1]s.account (id) SELECT generate_series(0, %[2]d)`,
	} {
		if _, err := b.pool.Exec(ctx, fmt.Sprintf(sql+` -- %[1]s %[2]d`, b.name, s.Accounts-1)); err != nil {
			return nil, err
		}
	}
	err = b.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return migrations.Up(ctx, conn.Conn(), migrations.Options{Schema: b.name})
	})
	if err != nil {
		return nil, err
	}
	if _, err := b.pool.Exec(ctx, sprint(keptTable, b.name)); err != nil {
		return nil, err
	}
	if b.st, err = postgres.New(b.pool, postgres.Config{Schema: b.name}); err != nil {
		return nil, err
	}
	if b.nc, err = natsgo.Connect(os.Getenv("ONCEBOX_NATS_URL")); err != nil {
		return nil, err
	}
	if b.js, err = jetstream.New(b.nc); err != nil {
		return nil, err
	}
	_, err = b.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: b.name, Subjects: []string{b.name}, Storage: jetstream.MemoryStorage, Duplicates: duplicateWindow,
	})
	return b, err
}

func (b *bed) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := b.js.DeleteStream(ctx, b.name)
	b.nc.Close()
	_, dropErr := b.pool.Exec(ctx, `DROP SCHEMA `+b.name+` CASCADE`)
	b.pool.Close()
	return errors.Join(err, dropErr)
}

// versions are how many messages each account has committed.
func (b *bed) versions(ctx context.Context) ([]int64, error) {
	versions := make([]int64, b.settings.Accounts)
	rows, err := b.pool.Query(ctx, `SELECT id, version FROM `+b.name+`.account`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int
		var version int64
		if err := rows.Scan(&id, &version); err != nil {
			return nil, err
		}
		versions[id] = version
	}
	return versions, rows.Err()
}

// invariants are what relays rely on in the tables.
func (b *bed) invariants(ctx context.Context) error {
	var early int
	err := b.pool.QueryRow(ctx, `SELECT count(*) FROM `+b.name+`.outbox AS message JOIN `+b.name+
		`.outbox_tick AS tick ON message.xid >= tick.xid AND message.id <= tick.last_id`).Scan(&early)
	if err == nil && early > 0 {
		return fmt.Errorf("%d ids were drawn before their transaction had its number", early)
	}
	return err
}

func sum(versions []int64) (total int) {
	for _, one := range versions {
		total += int(one)
	}
	return total
}
