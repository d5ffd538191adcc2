package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// The figures of this run mean nothing; that it runs does.
func TestRelay_Runs(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{
		"-sizes", "2000,5000", "-peer", "1000", "-rounds", "1", "-forwarder", "2s", "-hour", "5000", "-latencies", "2",
	}, &out))
	for _, row := range []string{
		`oncebox, backlog 2000\s+\d+`, `oncebox, backlog 5000, an old snapshot is held\s+\d+`, `Watermill forwarder, backlog 1000\s+\d+`,
		`relay in the same process\s+\S+s`, `an hour of 5000 messages`,
	} {
		require.Regexp(t, row, out.String())
	}
}

func TestRelay_WrongUseIsExplained(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), []string{"-sizes", "x"}, &bytes.Buffer{}), `-sizes: "x"`)
	t.Setenv("ONCEBOX_POSTGRES_DSN", "")
	require.ErrorContains(t, run(t.Context(), nil, &bytes.Buffer{}), "make bench/outbox")
}
