package main

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	// The demo starts its own program as workers; under test that is this binary.
	if len(os.Args) > 1 && (os.Args[1] == workerArgument || os.Args[1] == relayArgument) {
		main()
		return
	}
	if os.Getenv("ONCEBOX_DEMO") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestDemo_BooksOfOnceboxBalance(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	demo := exec.CommandContext(ctx, os.Args[0], "--messages", "150", "--seed", "7", "--kill-every", "200ms")
	demo.Env = append(os.Environ(), "ONCEBOX_DEMO=1")
	demo.Stderr = os.Stderr
	out, err := demo.Output()
	require.NoError(t, err, "%s", out)
	for _, line := range []string{
		`RESULT consumer=plain messages=150 deliveries=\d+ effects=\d+ lost=0 doubled=[1-9]\d*`,
		`RESULT consumer=deduplicator messages=150 deliveries=\d+ effects=\d+ lost=[1-9]\d* doubled=\d+`,
		`RESULT consumer=oncebox messages=150 deliveries=\d+ effects=150 lost=0 doubled=0`,
		`PUBLISHED consumer=plain events=\d+ lost=\d+ doubled=\d+ reordered=\d+`,
		`PUBLISHED consumer=oncebox events=150 lost=0 doubled=0 reordered=0`,
	} {
		require.Regexp(t, regexp.MustCompile(`(?m)^`+line+`$`), string(out))
	}
}

func TestDemo_WrongFlagsAreNamed(t *testing.T) {
	for flag, value := range map[string]string{"--messages": "0", "--duplicates": "2", "--workers": "0", "--relays": "0", "--kill-every": "-1s"} {
		require.ErrorContains(t, run(t.Context(), []string{flag, value}), flag+": ")
	}
	t.Setenv("ONCEBOX_POSTGRES_DSN", "")
	require.ErrorContains(t, run(t.Context(), nil), "make demo")
}

func TestBooks_SayWhatDoesNotBalance(t *testing.T) {
	good := books{Consumer: columnOncebox, Messages: 2, Effects: 2, Balanced: true, Cents: 10, DueCents: 10, Published: published{Events: 2}}
	require.NoError(t, good.balance())
	for name, spoil := range map[string]func(*books){
		"lost":    func(b *books) { b.Lost = 1 },
		"doubled": func(b *books) { b.Doubled = 1 },
		"effects": func(b *books) { b.Effects = 3 },
		"cents":   func(b *books) { b.Cents = 11 },
		"account": func(b *books) { b.Balanced = false },

		"events lost":      func(b *books) { b.Published.Lost = 1 },
		"events doubled":   func(b *books) { b.Published.Doubled = 1 },
		"events reordered": func(b *books) { b.Published.Reordered = 1 },
		"events":           func(b *books) { b.Published.Events = 3 },
	} {
		spoiled := good
		spoil(&spoiled)
		require.Error(t, spoiled.balance(), name)
	}
}
