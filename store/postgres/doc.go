// Package postgres keeps claims in Postgres, in the same transaction as the handler's
// writes. It is the store that oncebox is made for.
//
// # One message
//
//	trip 1   BEGIN · settings · claim          Begin
//	         the handler's statements          TxFrom(ctx)
//	trip n   COMMIT, its tag checked           Unit.Commit
//
// The claim is one INSERT … ON CONFLICT DO NOTHING, pipelined with BEGIN: an ordinary
// handler costs no trip more than without protection. A duplicate costs two trips, writes
// nothing and takes no transaction id. A run of them, as after an offset reset, is looked
// up many at a time instead.
//
// A claim that another transaction holds is in flight. By default nobody waits for it: the
// statement tries an advisory lock on the claim id first. Safety rests on the
// primary key and not on that lock; only for intents with a stable time that are about to
// grow too old for the ring does it rest on both.
//
// # What a handler gets
//
// [TxFrom] returns the claim's transaction. It can't be committed or rolled back, Begin
// makes a savepoint, and it is closed when the handler returns. Code that works on
// database/sql (GORM, sqlc, ent) uses [NewSQL] and [SQLTxFrom]: the same statements and
// guarantees, one trip more, since database/sql can't pipeline.
//
// # Clocks
//
// Only the database's clock decides, through the function clock() of the schema. READ
// COMMITTED is required, and asked for unless the session has it by default: under a
// stricter level a duplicate would be a serialization failure.
//
// # Behind PgBouncer
//
// Everything is local to the transaction: advisory locks, settings, savepoints. What a
// connection's session has by default is read once a minute, so all server connections
// behind one address must agree in it: set default_transaction_isolation and
// idle_in_transaction_session_timeout for the role, not in the connection string. In
// transaction mode set pgx to QueryExecModeExec or CacheDescribe, unless PgBouncer is 1.21
// or newer with prepared statements on.
package postgres
