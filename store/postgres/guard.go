package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrPoolInHandler says that a handler asked the pool for a connection instead of using its
// transaction: the write would not be part of the claim, and with all connections held by
// handlers it would wait for ever.
var ErrPoolInHandler = errors.New("pool is used inside a handler: use the transaction of postgres.TxFrom")

// GuardPool makes a pool of this configuration refuse the context of a handler that is
// running, with [ErrPoolInHandler]. It is for tests and development; it also refuses a
// consumer.Do inside a handler, which needs a second connection. Hooks that the
// configuration has are kept.
func GuardPool(config *pgxpool.Config) {
	before := config.PrepareConn
	config.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		if tx, ok := ctx.Value(txKey{}).(*managedTx); ok && !tx.isClosed() {
			return true, fmt.Errorf("acquire connection: %w", ErrPoolInHandler)
		}
		if before != nil {
			return before(ctx, conn)
		}
		return true, nil
	}
}
