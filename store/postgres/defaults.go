package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncebox/oncebox/store"
)

// readDefaults asks for what a transaction on this connection has unless it says otherwise.
const readDefaults = `
SELECT current_setting('default_transaction_isolation') = 'read committed',
       (1000 * extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval))::bigint`

// defaults are what a transaction on a connection need not ask for. They are read before
// the connection's first claim, in a trip of their own, and kept with the connection: each
// setting in a claim's transaction would cost it one or two hundredths of its time.
type defaults struct {
	readCommitted bool
	idleMillis    int64 // 0: no limit
}

const defaultsKey = "oncebox.defaults"

func defaultsOf(ctx context.Context, conn *pgx.Conn) (defaults, error) {
	kept := conn.PgConn().CustomData()
	if found, known := kept[defaultsKey].(defaults); known {
		return found, nil
	}
	var read defaults
	err := conn.QueryRow(ctx, readDefaults).Scan(&read.readCommitted, &read.idleMillis)
	if err == nil {
		kept[defaultsKey] = read
	}
	return read, err
}

// options are those of BEGIN for a claim.
func (d defaults) options() pgx.TxOptions {
	if d.readCommitted {
		return pgx.TxOptions{}
	}
	return pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
}

// spare is the claim without the idle limit, if the session's own is as short.
func (d defaults) spare(claim store.Claim) store.Claim {
	if d.idleMillis > 0 && time.Duration(d.idleMillis)*time.Millisecond <= claim.IdleTimeout {
		claim.IdleTimeout = 0
	}
	return claim
}
