//go:build failpoint

package main

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain turns the binary into a relay when it was started as one.
func TestMain(m *testing.M) {
	if os.Getenv(relayVariable) == "" {
		os.Exit(m.Run())
	}
	if err := relayMain(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
}

func TestOrder_NothingIsLostDoubledOrReorderedAndWrongRelaysAreCaught(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	result, err := run(t.Context(), settings{
		Messages: 25_000, Writers: 24, Accounts: 200, Relays: 4, Every: 150 * time.Millisecond, Seed: seed,
	})
	require.NoError(t, err)
	result.print(t.Output())
	require.NoError(t, result.verdict())
	require.Positive(t, result.Kills, "no relay was killed")
	require.Positive(t, result.Emptied, "no slot was emptied")
}

func TestJudge_CountsWhatIsWrong(t *testing.T) {
	t.Parallel()
	a := func(version int64) message { return message{0, version} }
	for name, c := range map[string]struct {
		published []message
		want      verdict
	}{
		"all in order":         {[]message{a(1), a(2), a(3)}, verdict{}},
		"one is missing":       {[]message{a(1), a(3)}, verdict{Lost: 1}},
		"one comes again":      {[]message{a(1), a(2), a(1), a(3)}, verdict{Doubled: 1}},
		"one is overtaken":     {[]message{a(2), a(1), a(3)}, verdict{Reordered: 1}},
		"nothing is published": {nil, verdict{Lost: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, judge([]int64{3}, c.published))
		})
	}
}
