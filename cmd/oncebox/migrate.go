package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/oncebox/oncebox/migrations"
)

const dsnVariable = "ONCEBOX_POSTGRES_DSN"

func migrateCommand() *cobra.Command {
	var options migrations.Options
	migrate := &cobra.Command{Use: "migrate", Short: "Make the tables and bring them up to date"}
	migrate.PersistentFlags().StringVar(&options.Schema, "schema", migrations.DefaultSchema, "schema of the tables")
	migrate.AddCommand(upCommand(&options), statusCommand(&options), printCommand(&options))
	return migrate
}

func upCommand(options *migrations.Options) *cobra.Command {
	return &cobra.Command{
		Use: "up", Short: "Run the migrations that are missing", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return connected(command.Context(), func(conn *pgx.Conn) error {
				before, err := migrations.Status(command.Context(), conn, *options)
				if err != nil {
					return err
				}
				if err := migrations.Up(command.Context(), conn, *options); err != nil {
					return err
				}
				fmt.Fprintf(command.OutOrStdout(), "schema %s: from %d to %d\n", before.Schema, before.Current, before.Latest)
				return nil
			})
		},
	}
}

func statusCommand(options *migrations.Options) *cobra.Command {
	var asJSON bool
	status := &cobra.Command{
		Use: "status", Short: "Say which migrations are missing; exit status 3 when some are", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return connected(command.Context(), func(conn *pgx.Conn) error {
				state, err := migrations.Status(command.Context(), conn, *options)
				if err != nil {
					return err
				}
				if asJSON {
					err = json.NewEncoder(command.OutOrStdout()).Encode(state)
				} else {
					_, err = fmt.Fprintf(command.OutOrStdout(), "schema %s: at %d of %d\n", state.Schema, state.Current, state.Latest)
				}
				if err == nil && state.Pending() {
					return errPending
				}
				return err
			})
		},
	}
	status.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return status
}

func printCommand(options *migrations.Options) *cobra.Command {
	return &cobra.Command{
		Use: "print", Short: "Print the SQL of all migrations", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return migrations.Print(command.OutOrStdout(), *options)
		},
	}
}

func connected(ctx context.Context, use func(*pgx.Conn) error) error {
	dsn := os.Getenv(dsnVariable)
	if dsn == "" {
		return errors.New(dsnVariable + " is not set; it names the database, as in postgres://user@host/database")
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", dsnVariable, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return use(conn)
}
