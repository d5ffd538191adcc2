package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// commandVariable makes the test binary the command itself.
const commandVariable = "ONCEBOX_ENV_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(commandVariable) == "" {
		os.Exit(m.Run())
	}
	main()
}

// env runs the command with a temporary folder of its own.
func env(t *testing.T, variables []string, args ...string) (status int, out, errOut, folder string) {
	t.Helper()
	folder = t.TempDir()
	require.NoError(t, os.Chmod(folder, 0o755)) // another user's server must get through
	require.NoError(t, os.Chmod(filepath.Dir(folder), 0o755))
	command := exec.CommandContext(t.Context(), os.Args[0], args...)
	command.Env = append(append(os.Environ(), commandVariable+"=1", "TMPDIR="+folder, "ONCEBOX_POSTGRES_DSN=", "ONCEBOX_NATS_URL="), variables...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if err != nil {
		require.IsType(t, &exec.ExitError{}, err)
	}
	return command.ProcessState.ExitCode(), stdout.String(), stderr.String(), folder
}

func TestEnv_CommandFindsItsServersAndNothingIsLeft(t *testing.T) {
	t.Parallel()
	status, out, errOut, folder := env(t, nil, "--", "sh", "-c", `echo "$ONCEBOX_POSTGRES_DSN $ONCEBOX_NATS_URL"; ls "$TMPDIR"`)
	require.Zero(t, status, errOut)
	require.Contains(t, out, "postgres://")
	require.Contains(t, out, "nats://127.0.0.1:")
	require.Contains(t, out, "oncebox-pg-", "the folder is there while the command runs")
	require.Contains(t, errOut, "env: Postgres from ")
	left, err := filepath.Glob(filepath.Join(folder, "oncebox-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestEnv_StatusIsTheCommands(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -9 $$": 128 + int(syscall.SIGKILL)} {
		status, _, errOut, _ := env(t, nil, "-nats", "--", "sh", "-c", script)
		require.Equal(t, want, status, errOut)
	}
}

func TestEnv_OnlyWhatIsAskedForIsStarted(t *testing.T) {
	t.Parallel()
	status, out, errOut, _ := env(t, nil, "-nats", "--", "sh", "-c", `echo "[$ONCEBOX_POSTGRES_DSN]"`)
	require.Zero(t, status, errOut)
	require.Equal(t, "[]", strings.TrimSpace(out))
}

func TestEnv_WrongUseIsExplained(t *testing.T) {
	t.Parallel()
	status, _, errOut, _ := env(t, nil)
	require.Equal(t, 2, status)
	require.Contains(t, errOut, "no command")
	status, _, errOut, _ = env(t, nil, "-nats", "--", "/no/such/command")
	require.Equal(t, 127, status)
	require.Contains(t, errOut, "run command")
}

func TestEnv_NamedServerThatDoesNotAnswerIsAnError(t *testing.T) {
	t.Parallel()
	status, _, errOut, _ := env(t, []string{"ONCEBOX_NATS_URL=nats://127.0.0.1:1"}, "-nats", "--", "true")
	require.Equal(t, 1, status)
	require.Contains(t, errOut, "ONCEBOX_NATS_URL names a server that does not answer")
	status, _, errOut, _ = env(t, []string{"ONCEBOX_POSTGRES_DSN=postgres://x@127.0.0.1:1/x"}, "-postgres", "--", "true")
	require.Equal(t, 1, status)
	require.Contains(t, errOut, "ONCEBOX_POSTGRES_DSN names a server that does not answer")
}
