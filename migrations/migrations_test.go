package migrations_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/oncebox/oncebox/internal/pgtest"
	"github.com/oncebox/oncebox/migrations"
)

func connect(t *testing.T, db *pgtest.DB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.DSN)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

func TestUp_TenProcessesAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	options := migrations.Options{Schema: db.Schema + "_new"}
	var starters errgroup.Group
	for range 10 {
		conn := connect(t, db)
		starters.Go(func() error { return migrations.Up(t.Context(), conn, options) })
	}
	require.NoError(t, starters.Wait())

	conn := connect(t, db)
	status, err := migrations.Status(t.Context(), conn, options)
	require.NoError(t, err)
	require.Equal(t, status.Latest, status.Current)
	require.False(t, status.Pending())
	_, err = conn.Exec(t.Context(), `DROP SCHEMA `+pgx.Identifier{options.Schema}.Sanitize()+` CASCADE`)
	require.NoError(t, err)
}

func TestStatus_ChangesNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	conn := connect(t, db)
	status, err := migrations.Status(t.Context(), conn, migrations.Options{Schema: db.Schema})
	require.NoError(t, err)
	require.Zero(t, status.Current)
	require.True(t, status.Pending())
	var tables int
	require.NoError(t, conn.QueryRow(t.Context(),
		`SELECT count(*) FROM pg_class WHERE relnamespace = $1::regnamespace`, db.Schema).Scan(&tables))
	require.Zero(t, tables)
}

func TestPrint_RunsByItself(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	var sql bytes.Buffer
	require.NoError(t, migrations.Print(&sql, migrations.Options{Schema: db.Schema}))
	require.NotContains(t, sql.String(), "{{")
	_, err := connect(t, db).Exec(t.Context(), sql.String())
	require.NoError(t, err)
}

func TestUp_SchemaNameIsQuoted(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	conn := connect(t, db)
	options := migrations.Options{Schema: db.Schema + `; DROP $Me`}
	require.NoError(t, migrations.Up(t.Context(), conn, options))
	_, err := conn.Exec(t.Context(), `DROP SCHEMA `+pgx.Identifier{options.Schema}.Sanitize()+` CASCADE`)
	require.NoError(t, err)
}

func TestUp_BadSchemaNamesAreRefused(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"too long": strings.Repeat("x", 64),
		"quote":    `a"b`,
		"reserved": "pg_mine",
		"NUL":      "a\x00b",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, migrations.Up(t.Context(), nil, migrations.Options{Schema: schema}), "Schema: ")
		})
	}
}

func TestUp_NewerDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	conn := connect(t, db)
	options := migrations.Options{Schema: db.Schema}
	require.NoError(t, migrations.Up(t.Context(), conn, options))
	_, err := conn.Exec(t.Context(), `UPDATE `+pgx.Identifier{db.Schema, "schema_version"}.Sanitize()+` SET version = 1000`)
	require.NoError(t, err)
	require.Error(t, migrations.Up(t.Context(), conn, options))
}
