package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncebox/oncebox/store"
)

// readDefaults asks for what a transaction on this connection has unless it says otherwise.
const readDefaults = `
SELECT current_setting('default_transaction_isolation') = 'read committed',
       (1000 * extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval))::bigint`

// defaults are what a transaction on a connection need not ask for. They are read before
// the connection's first claim, in a trip of their own, and kept with the connection: each
// setting in a claim's transaction would cost it one or two hundredths of its time.
//
// They may change: a SET of a handler is seen and makes them be read again, and what is not
// seen, as a reload of the server, after a minute. Until then a handler may run with the
// changed setting; no claim is wrong because of it.
type defaults struct {
	readCommitted bool
	idleMillis    int64 // 0: no limit
	readAt        time.Time
}

const (
	defaultsKey = "oncebox.defaults"
	defaultsAge = time.Minute
)

func defaultsOf(ctx context.Context, conn *pgx.Conn) (defaults, error) {
	kept := conn.PgConn().CustomData()
	if found, known := kept[defaultsKey].(defaults); known && time.Since(found.readAt) < defaultsAge {
		return found, nil
	}
	read := defaults{readAt: time.Now()}
	err := conn.QueryRow(ctx, readDefaults).Scan(&read.readCommitted, &read.idleMillis)
	if err == nil {
		kept[defaultsKey] = read
	}
	return read, err
}

// forgetDefaults makes the next claim on conn read them again, when a statement with this
// tag may have changed them.
func forgetDefaults(conn *pgx.Conn, tag pgconn.CommandTag) {
	switch tag.String() {
	case "SET", "RESET", "DISCARD ALL":
		delete(conn.PgConn().CustomData(), defaultsKey)
	}
}

// suits reports whether the claim can be taken as the session is: in READ COMMITTED, with a
// limit that leaves the handler its time and frees the key not much later than asked.
func (d defaults) suits(claim store.Claim) bool {
	idle := time.Duration(d.idleMillis) * time.Millisecond
	return d.readCommitted && claim.IdleTimeout > 0 && claim.IdleTimeout <= idle && idle <= 2*claim.IdleTimeout
}

// begin are the options of BEGIN for the claim.
func (d defaults) begin(claim store.Claim) pgx.TxOptions {
	if d.suits(claim) {
		return pgx.TxOptions{}
	}
	return pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
}
