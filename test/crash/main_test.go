//go:build failpoint

package crash_test

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// TestMain turns the binary into a worker when it was started as one.
func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) == "" {
		os.Exit(m.Run())
	}
	if err := work(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}
