package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// session runs statements, on a pool or inside one transaction. It is what the parts of
// the store need that are the same on pgx and on database/sql.
type session interface {
	exec(ctx context.Context, sql string, args []any) (affected int64, err error)
	row(ctx context.Context, sql string, args []any, into ...any) error
	rows(ctx context.Context, sql string, args []any, each func(scan func(into ...any) error) error) error
}

// source hands out sessions: one for a single query, or one that is a transaction.
type source interface {
	query(ctx context.Context, run func(session) error) error
	transaction(ctx context.Context, run func(session) error) error
}

// ledger is what [Store] and [SQLStore] share: everything but the unit of work.
type ledger struct {
	schema    string
	sql       statements
	source    source
	consumers *registry
	lookups   *[1 + ringDays]lookup // by table: beside the ring, then its days
}

func newLedger(schema string, from source) ledger {
	sql := newStatements(schema)
	return ledger{schema: schema, sql: sql, source: from, consumers: newRegistry(), lookups: newLookups()}
}

type pgxSource struct{ pool *pgxpool.Pool }

func (s pgxSource) query(_ context.Context, run func(session) error) error {
	return run(pgxSession{s.pool})
}

func (s pgxSource) transaction(ctx context.Context, run func(session) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		return run(pgxSession{tx})
	})
}

// pgxSession is a session on a pool or a transaction of pgx.
type pgxSession struct{ on pgxQuerier }

type pgxQuerier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func (s pgxSession) exec(ctx context.Context, sql string, args []any) (int64, error) {
	tag, err := s.on.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}

func (s pgxSession) row(ctx context.Context, sql string, args []any, into ...any) error {
	return s.on.QueryRow(ctx, sql, args...).Scan(into...)
}

func (s pgxSession) rows(ctx context.Context, sql string, args []any, each func(func(...any) error) error) error {
	rows, err := s.on.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
