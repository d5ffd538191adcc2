package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"
)

// DefaultSchema is where the tables live unless another schema is named.
const DefaultSchema = "oncebox"

// versionTable keeps the number of the last migration, inside the schema.
const versionTable = "schema_version"

//go:embed *.sql
var files embed.FS

// FS holds the SQL files, as templates in which {{.schema}} stands for the quoted schema.
func FS() fs.FS { return files }

// Options says where the tables live.
type Options struct {
	// Schema is the schema's name, of 1 to 63 bytes. It is made when it is missing.
	// Defaults to [DefaultSchema].
	Schema string
}

// State says how far a database is.
type State struct {
	// Schema is the schema that was looked at.
	Schema string `json:"schema"`
	// Current is the number of the last migration that was run; 0 when there is none.
	Current int `json:"current"`
	// Latest is the number of the last migration that this release knows.
	Latest int `json:"latest"`
}

// Pending reports whether [Up] has something to do.
func (s State) Pending() bool { return s.Current < s.Latest }

// Up runs the migrations that are missing, each in a transaction of its own. A database
// that is newer than this release is refused.
func Up(ctx context.Context, conn *pgx.Conn, options Options) error {
	schema, err := options.schema()
	if err != nil {
		return err
	}
	if err := createSchema(ctx, conn, schema); err != nil {
		return fmt.Errorf("create schema: %w", err)
	}
	migrator, err := migrate.NewMigrator(ctx, conn, qualified(schema, versionTable))
	if err != nil {
		return fmt.Errorf("open version table: %w", err)
	}
	if err := load(migrator, schema); err != nil {
		return err
	}
	if err := migrator.Migrate(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// Status says how far the database is, and changes nothing.
func Status(ctx context.Context, conn *pgx.Conn, options Options) (State, error) {
	schema, err := options.schema()
	if err != nil {
		return State{}, err
	}
	names, err := migrate.FindMigrations(files)
	if err != nil {
		return State{}, fmt.Errorf("list migrations: %w", err)
	}
	state := State{Schema: schema, Latest: len(names)}
	table := qualified(schema, versionTable)
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, table).Scan(&exists); err != nil {
		return State{}, fmt.Errorf("look for version table: %w", err)
	}
	if !exists {
		return state, nil
	}
	if err := conn.QueryRow(ctx, `SELECT version FROM `+table).Scan(&state.Current); err != nil {
		return State{}, fmt.Errorf("read version: %w", err)
	}
	return state, nil
}

// Print writes the SQL of all migrations, for those who run it by other means.
func Print(out io.Writer, options Options) error {
	schema, err := options.schema()
	if err != nil {
		return err
	}
	migrator, err := migrate.NewMigrator(context.Background(), nil, "")
	if err != nil {
		return err
	}
	if err := load(migrator, schema); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "CREATE SCHEMA IF NOT EXISTS %s;\n", pgx.Identifier{schema}.Sanitize()); err != nil {
		return err
	}
	for _, migration := range migrator.Migrations {
		if _, err := fmt.Fprintf(out, "\n-- %s\n\n%s\n", migration.Name, migration.UpSQL); err != nil {
			return err
		}
	}
	return nil
}

func load(migrator *migrate.Migrator, schema string) error {
	migrator.Data["schema"] = pgx.Identifier{schema}.Sanitize()
	if err := migrator.LoadMigrations(files); err != nil {
		return fmt.Errorf("load migrations: %w", err)
	}
	return nil
}

// schemaLock keeps processes that start at once from creating the schema twice, which
// IF NOT EXISTS alone does not.
const schemaLock = 0x6f6e6365626f78 // "oncebox"

func createSchema(ctx context.Context, conn *pgx.Conn, schema string) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(schemaLock)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS `+pgx.Identifier{schema}.Sanitize())
		return err
	})
}

func qualified(schema, table string) string { return pgx.Identifier{schema, table}.Sanitize() }

func (o Options) schema() (string, error) {
	switch {
	case o.Schema == "":
		return DefaultSchema, nil
	case len(o.Schema) > 63:
		return "", fmt.Errorf("Schema: %d bytes, more than the 63 of a Postgres name", len(o.Schema))
	case strings.ContainsAny(o.Schema, "\x00\"'\n\r"):
		return "", errors.New("Schema: holds a quote or a control character")
	case strings.HasPrefix(o.Schema, "pg_"):
		return "", errors.New("Schema: begins with pg_, which Postgres keeps for itself")
	}
	return o.Schema, nil
}
