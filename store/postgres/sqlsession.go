package postgres

import (
	"context"
	"database/sql"
	"errors"
)

type sqlSource struct{ db *sql.DB }

func (s sqlSource) query(_ context.Context, run func(session) error) error {
	return run(sqlSession{s.db})
}

func (s sqlSource) transaction(ctx context.Context, run func(session) error) (err error) {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // the first error is the one to report
		}
	}()
	if err := run(sqlSession{tx}); err != nil {
		return err
	}
	return tx.Commit()
}

func (s sqlSource) pipeline(ctx context.Context, calls ...call) error {
	return s.transaction(ctx, func(on session) error {
		for _, one := range calls {
			var err error
			if one.each != nil {
				err = on.rows(ctx, one.sql, one.args, one.each)
			} else {
				_, err = on.exec(ctx, one.sql, one.args)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// sqlSession is a session on a database or a transaction of database/sql.
type sqlSession struct{ on sqlQuerier }

type sqlQuerier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (s sqlSession) exec(ctx context.Context, query string, args []any) (int64, error) {
	result, err := s.on.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (s sqlSession) row(ctx context.Context, query string, args []any, into ...any) error {
	return s.on.QueryRowContext(ctx, query, args...).Scan(into...)
}

func (s sqlSession) rows(ctx context.Context, query string, args []any, each func(func(...any) error) error) error {
	rows, err := s.on.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		switch err := each(rows.Scan); {
		case errors.Is(err, errEnough):
			return rows.Close()
		case err != nil:
			return err
		}
	}
	return rows.Err()
}
