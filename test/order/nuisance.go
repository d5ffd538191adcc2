package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// turnEvery is how often the ring goes on to its next slot, which otherwise takes a million
// messages.
const turnEvery = 150 * time.Millisecond

func sprint(sql, schema string) string { return fmt.Sprintf(sql, schema) }

// nuisance is what else goes on: a transaction that has written in another database, an old
// snapshot in this one, and a ring that turns.
type nuisance struct {
	bed     *bed
	other   *pgx.Conn
	old     *pgx.Conn
	stop    context.CancelFunc
	running sync.WaitGroup
	turns   int
}

func beginNuisance(ctx context.Context, b *bed) (*nuisance, error) {
	n := &nuisance{bed: b}
	if _, err := b.pool.Exec(ctx, `CREATE DATABASE `+b.name+`_other`); err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(b.dsn)
	if err != nil {
		return nil, err
	}
	elsewhere := config.Copy()
	elsewhere.Database = b.name + "_other"
	if n.other, err = pgx.ConnectConfig(ctx, elsewhere); err != nil {
		return nil, err
	}
	if n.old, err = pgx.ConnectConfig(ctx, config); err != nil {
		return nil, err
	}
	for conn, statements := range map[*pgx.Conn][]string{
		n.other: {`CREATE TABLE bulk (id int)`, `BEGIN`, bulkLoad},
		n.old:   {`BEGIN ISOLATION LEVEL REPEATABLE READ`, `SELECT count(*) FROM ` + b.name + `.account`},
	} {
		for _, sql := range statements {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return nil, err
			}
		}
	}
	ctx, n.stop = context.WithCancel(ctx)
	n.running.Go(func() { n.turn(ctx) })
	n.running.Go(func() { n.load(ctx) })
	return n, nil
}

const (
	bulkLoad = `INSERT INTO bulk SELECT generate_series(1, 1000)`
	// loadFor is how long a load takes: it is long for a relay that waits for it.
	loadFor = 2 * time.Second
)

// load ends a load in the other database and begins the next one.
func (n *nuisance) load(ctx context.Context) {
	for ctx.Err() == nil {
		sleep(ctx, loadFor)
		for _, sql := range []string{`COMMIT`, `BEGIN`, bulkLoad} {
			if _, err := n.other.Exec(context.WithoutCancel(ctx), sql); err != nil {
				return
			}
		}
	}
}

// turn moves the ring on by a slot again and again.
func (n *nuisance) turn(ctx context.Context) {
	tick := time.NewTicker(turnEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_, err := n.bed.pool.Exec(ctx, sprint(`SELECT setval('%[1]s.outbox_id', last_value + (1 << 20)) FROM %[1]s.outbox_id`, n.bed.name))
		if err == nil {
			n.turns++
		}
	}
}

// end stops it, and says how often slots were emptied: once for each turn, less those that
// are left.
func (n *nuisance) end() (emptied int, what string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n.stop()
	n.running.Wait()
	var full int
	_ = n.bed.pool.QueryRow(ctx, sprint(`SELECT count(*) FROM pg_inherits WHERE inhparent = '%s.outbox'::regclass AND pg_relation_size(inhrelid) > 0`, n.bed.name)).Scan(&full)
	_, _ = n.other.Exec(ctx, `COMMIT`)
	_ = n.other.Close(ctx)
	_, _ = n.old.Exec(ctx, `COMMIT`)
	_ = n.old.Close(ctx)
	_, _ = n.bed.pool.Exec(ctx, `DROP DATABASE `+n.bed.name+`_other`)
	return n.turns + 1 - full, "with a transaction open in another database and an old snapshot held"
}
