package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// The figures of this run mean nothing; that it runs does, and so do the round trips.
func TestBench_RunsAndCountsTrips(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-volatile", "-connections", "2", "-duration", "300ms", "-wal-messages", "200"}, &out))
	for _, row := range []string{
		`bare handler\s+3\.00`, `time-ordered keys\s+3\.00`, `random keys\s+3\.00`, `one message sent\s+3\.00`, `duplicate among new\s+2\.00`, `run of duplicates\s+1\.\d\d`, `2 connections`, `messages a second`,
	} {
		require.Regexp(t, row, out.String())
	}
}

func TestBench_WrongUseIsExplained(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, run(t.Context(), []string{"-connections", "1,x"}, &bytes.Buffer{}), `-connections: "x"`)
}
