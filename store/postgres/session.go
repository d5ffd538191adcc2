package postgres

import (
	"context"
	"errors"

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
	// pipeline runs the calls in one transaction, and in one trip if the driver can. All are
	// sent before the first answer is read, so only the server can stop what comes after.
	pipeline(ctx context.Context, calls ...call) error
}

// call is one statement of a pipeline.
type call struct {
	sql  string
	args []any
	each func(scan func(into ...any) error) error // is told each row; nil without rows
}

// errEnough ends the rows of a call; the rest of them is dropped.
var errEnough = errors.New("enough rows")

// ledger is what [Store] and [SQLStore] share: everything but the unit of work.
type ledger struct {
	schema    string
	sql       statements
	source    source
	consumers *registry
	lookups   *[1 + ringDays]lookup // by table: beside the ring, then its days
	bell      *bell
	largest   int // bytes of a message
}

func newLedger(config Config, from source) ledger {
	return ledger{
		schema: config.Schema, sql: newStatements(config.Schema), source: from,
		consumers: newRegistry(), lookups: newLookups(), bell: newBell(), largest: config.MaxMessageBytes,
	}
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

func (s pgxSource) pipeline(ctx context.Context, calls ...call) error {
	return s.pool.AcquireFunc(ctx, func(pooled *pgxpool.Conn) error {
		var batch pgx.Batch
		batch.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		for _, one := range calls {
			queued := batch.Queue(one.sql, one.args...)
			if one.each != nil {
				queued.Query(func(rows pgx.Rows) error { return eachRow(rows, one.each) })
			}
		}
		batch.Queue(`COMMIT`)
		conn := pooled.Conn()
		results := conn.SendBatch(ctx, &batch)
		err := results.Close()
		if err != nil && !conn.IsClosed() {
			_, _ = conn.Exec(context.WithoutCancel(ctx), `ROLLBACK`) // the first error is the one to report
		}
		return err
	})
}

// eachRow hands out rows until there are no more, or enough.
func eachRow(rows pgx.Rows, each func(func(...any) error) error) error {
	defer rows.Close()
	for rows.Next() {
		switch err := each(rows.Scan); {
		case errors.Is(err, errEnough):
			rows.Close()
		case err != nil:
			return err
		}
	}
	return rows.Err()
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
	return eachRow(rows, each)
}
