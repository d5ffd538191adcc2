package postgres_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/internal/pgtest"
)

// openCounting opens a database whose committed transactions are counted if they have got a
// number.
func openCounting(t *testing.T, db *pgtest.DB) (*sql.DB, *atomic.Int64) {
	t.Helper()
	config, err := pgx.ParseConfig(db.DSN)
	require.NoError(t, err)
	counter := countingConnector{stdlib.GetConnector(*config), new(atomic.Int64)}
	pool := sql.OpenDB(counter)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	return pool, counter.assigned
}

type countingConnector struct {
	driver.Connector
	assigned *atomic.Int64
}

func (c countingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return countingConn{conn.(*stdlib.Conn), c.assigned}, nil
}

type countingConn struct {
	*stdlib.Conn
	assigned *atomic.Int64
}

func (c countingConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.BeginTx(ctx, options)
	return countingTx{tx, c}, err
}

type countingTx struct {
	driver.Tx
	conn countingConn
}

func (t countingTx) Commit() error {
	rows, err := t.conn.QueryContext(context.Background(), `SELECT 1 WHERE pg_current_xact_id_if_assigned() IS NOT NULL`, nil)
	if err != nil {
		return err
	}
	row := make([]driver.Value, 1)
	if err := rows.Next(row); err == nil {
		t.conn.assigned.Add(1)
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	if err := rows.Close(); err != nil {
		return err
	}
	return t.Tx.Commit()
}
