package e2e_test

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// TestMain turns the binary into a claimant when it was started as one.
func TestMain(m *testing.M) {
	schema := os.Getenv(claimantVariable)
	if schema == "" {
		os.Exit(m.Run())
	}
	if err := claimEverything(context.Background(), schema); err != nil {
		fmt.Fprintln(os.Stderr, "claimant:", err)
		os.Exit(1)
	}
}
