package embedpg_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/internal/embedpg"
)

// parentVariable makes the test binary a parent that starts a server and is killed.
const parentVariable = "ONCEBOX_EMBEDPG_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) == "" {
		os.Exit(m.Run())
	}
	server, err := embedpg.Start(context.Background(), embedpg.Config{})
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(server.DSN + "\n")
	select {}
}

func TestStart_DurableKeepsFsync(t *testing.T) {
	t.Setenv(embedpg.DSNVariable, "")
	for durable, fsync := range map[bool]string{true: "on", false: "off"} {
		server, err := embedpg.Start(t.Context(), embedpg.Config{Durable: durable, Settings: map[string]string{"work_mem": "5MB"}})
		require.NoError(t, err)
		conn, err := pgx.Connect(t.Context(), server.DSN)
		require.NoError(t, err)
		var got, workMem string
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT current_setting('fsync'), current_setting('work_mem')`).Scan(&got, &workMem))
		require.Equal(t, fsync, got)
		require.Equal(t, "5MB", workMem)
		server.Stop()
		server.Stop() // further calls do nothing
		require.Error(t, conn.Ping(t.Context()), "the server is gone after Stop")
	}
}

func TestStart_NamedServerMustAnswer(t *testing.T) {
	t.Setenv(embedpg.DSNVariable, "postgres://postgres@127.0.0.1:1/postgres?connect_timeout=1")
	_, err := embedpg.Start(t.Context(), embedpg.Config{})
	require.ErrorContains(t, err, "ONCEBOX_POSTGRES_DSN names a server that does not answer")
}

func TestStart_BadSettingShowsTheServersOwnWords(t *testing.T) {
	t.Setenv(embedpg.DSNVariable, "")
	_, err := embedpg.Start(t.Context(), embedpg.Config{Settings: map[string]string{"no_such_setting": "1"}})
	require.ErrorContains(t, err, "no_such_setting")
}

func TestStart_SaysWhatWasTried(t *testing.T) {
	t.Setenv(embedpg.DSNVariable, "")
	t.Setenv("PATH", "/nowhere")
	t.Setenv("POSTGRES_BIN", "/nowhere")
	embedpg.HideInstalled(t)
	_, err := embedpg.Start(t.Context(), embedpg.Config{Fallbacks: []embedpg.Fallback{{
		Name: "Docker", Find: func(context.Context) (embedpg.Found, error) { return embedpg.Found{}, errors.New("no engine") },
	}}})
	for _, part := range []string{"apt-get install postgresql", "ONCEBOX_POSTGRES_DSN: not set", "/nowhere", "Docker: no engine"} {
		require.ErrorContains(t, err, part)
	}
}

func TestStart_FallbackServerIsUsedAndStopped(t *testing.T) {
	t.Setenv(embedpg.DSNVariable, "")
	t.Setenv("PATH", "/nowhere")
	embedpg.HideInstalled(t)
	stopped := false
	server, err := embedpg.Start(t.Context(), embedpg.Config{Fallbacks: []embedpg.Fallback{{
		Name: "Docker", Find: func(context.Context) (embedpg.Found, error) {
			return embedpg.Found{DSN: "postgres://elsewhere", Stop: func() { stopped = true }}, nil
		},
	}}})
	require.NoError(t, err)
	require.Equal(t, "postgres://elsewhere", server.DSN)
	server.Stop()
	require.True(t, stopped)
}

func TestStart_ServerDiesWithAKilledParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"=1", embedpg.DSNVariable+"=")
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line := make([]byte, 256)
	n, err := out.Read(line)
	require.NoError(t, err)
	dsn := strings.TrimSpace(string(line[:n]))
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))

	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	require.Eventually(t, func() bool {
		_, err := pgx.Connect(t.Context(), dsn)
		return err != nil
	}, 20*time.Second, 20*time.Millisecond, "the server outlives its parent")
}
