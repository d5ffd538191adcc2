// Command oncebox makes the tables and computes claim ids.
//
// It reads the database's address from ONCEBOX_POSTGRES_DSN, so that no password is on a
// command line. Exit status: 0 done, 1 failed, 2 wrong use, 3 migrations are pending
// (migrate status).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
)

// errPending makes migrate status tell scripts that there is something to do.
var errPending = errors.New("migrations are pending; run `oncebox migrate up`")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run returns the exit status.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := &cobra.Command{
		Use: "oncebox", Short: "Message consumers that take effect once",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	root.AddCommand(migrateCommand(), keysCommand())

	used := false
	root.PersistentPreRun = func(*cobra.Command, []string) { used = true }
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(errOut, "oncebox:", err)
	switch {
	case errors.Is(err, errPending):
		return 3
	case !used: // cobra refused the flags or arguments
		return 2
	}
	return 1
}
