package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/internal/pgtest"
)

func execute(t *testing.T, in string, args ...string) (status int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status = run(t.Context(), args, strings.NewReader(in), &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

func TestMigrate_StatusTellsWhatUpDoes(t *testing.T) {
	db := pgtest.Open(t)
	t.Setenv(dsnVariable, db.DSN)
	status, out, errOut := execute(t, "", "migrate", "status", "--schema", db.Schema)
	require.Equal(t, 3, status)
	require.Contains(t, out, "at 0 of 2")
	require.Contains(t, errOut, "oncebox migrate up")

	status, out, errOut = execute(t, "", "migrate", "up", "--schema", db.Schema)
	require.Zero(t, status, errOut)
	require.Contains(t, out, "from 0 to 2")

	status, out, errOut = execute(t, "", "migrate", "status", "--json", "--schema", db.Schema)
	require.Zero(t, status, errOut)
	require.JSONEq(t, `{"schema": "`+db.Schema+`", "current": 2, "latest": 2}`, out)
}

func TestMigrate_SaysWhichVariableIsMissing(t *testing.T) {
	t.Setenv(dsnVariable, "")
	status, _, errOut := execute(t, "", "migrate", "up")
	require.Equal(t, 1, status)
	require.Contains(t, errOut, dsnVariable+" is not set")
}

func TestMigrate_PrintNeedsNoDatabase(t *testing.T) {
	t.Setenv(dsnVariable, "")
	status, out, _ := execute(t, "", "migrate", "print", "--schema", "mine")
	require.Zero(t, status)
	require.Contains(t, out, `CREATE TABLE "mine".inbox`)
}

func TestKeysID_IsTheConsumersClaim(t *testing.T) {
	t.Parallel()
	want, err := dedup.NewClaimID("billing", dedup.Key{Scope: "tenant", ID: "order-1"})
	require.NoError(t, err)
	status, out, errOut := execute(t, "order-1\n", "keys", "id", "--consumer", "billing", "--scope", "tenant")
	require.Zero(t, status, errOut)
	require.Equal(t, want.String()+"\n", out)
}

func TestKeysID_WrongUseIsExplainedAndShowsNoKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in     string
		args   []string
		status int
		says   string
	}{
		"no key":        {"", []string{"--consumer", "billing"}, 1, "no key on standard input"},
		"no consumer":   {"secret-key", nil, 1, "Consumer: is empty"},
		"bad time":      {"secret-key", []string{"--consumer", "billing", "--at", "noon"}, 1, "--at"},
		"bad key":       {" secret-key", []string{"--consumer", "billing"}, 1, "ID: begins or ends with a space"},
		"key as a word": {"", []string{"--consumer", "billing", "secret-key"}, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, _, errOut := execute(t, c.in, append([]string{"keys", "id"}, c.args...)...)
			require.Equal(t, c.status, status, errOut)
			require.Contains(t, errOut, c.says)
			if c.in != "" {
				require.NotContains(t, errOut, "secret")
			}
		})
	}
}
