// Package migrations holds the tables of oncebox as numbered SQL and brings a database up
// to date. Everything lives in a schema of its own, "oncebox" unless another is named.
//
// [Up] is safe when many processes start at once: they take turns, and all but the first
// find nothing to do. A migration that has been released is never edited.
//
// Up holds a session's advisory lock while it runs, so it needs a direct connection, not
// one through PgBouncer in transaction mode.
package migrations
