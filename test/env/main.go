// Command env starts the real servers that tests and demos need, tells a command where they
// are, runs it, and cleans up:
//
//	go run ./test/env [-postgres] [-nats] [-durable] -- command arguments…
//
// Without -postgres and -nats it starts both. The command finds their addresses in
// ONCEBOX_POSTGRES_DSN and ONCEBOX_NATS_URL; a server that these name already is used as
// it is. The exit status is the command's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// startTimeout covers a first download on a slow line.
const startTimeout = 10 * time.Minute

func main() {
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "env:", err)
	}
	os.Exit(status)
}

func run(args []string) (status int, err error) {
	flags := flag.NewFlagSet("env", flag.ContinueOnError)
	wantPostgres := flags.Bool("postgres", false, "start Postgres")
	wantNATS := flags.Bool("nats", false, "start NATS with JetStream")
	durable := flags.Bool("durable", false, "run Postgres with fsync, as in production")
	if err := flags.Parse(args); err != nil {
		return 2, err
	}
	if flags.NArg() == 0 {
		return 2, errors.New("no command; use: go run ./test/env [flags] -- command arguments…")
	}
	if !*wantPostgres && !*wantNATS {
		*wantPostgres, *wantNATS = true, true
	}

	// The terminal sends its signals to the command as well; this process only waits for it.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	var started servers
	defer started.stop()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if *wantPostgres {
		if err := started.postgres(ctx, *durable); err != nil {
			return 1, err
		}
	}
	if *wantNATS {
		if err := started.nats(); err != nil {
			return 1, err
		}
	}
	return execute(flags.Args(), started.variables, signals)
}

// execute runs the command and hands signals on to it.
func execute(words, variables []string, signals <-chan os.Signal) (status int, err error) {
	command := exec.Command(words[0], words[1:]...)
	command.Env = append(os.Environ(), variables...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := command.Start(); err != nil {
		return 127, fmt.Errorf("run command: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for {
		select {
		case received := <-signals:
			_ = command.Process.Signal(received) // it may have ended
		case err := <-ended:
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				return exitStatus(exit), nil
			}
			if err != nil {
				return 1, err
			}
			return 0, nil
		}
	}
}

// exitStatus is the command's status, as a shell tells it: 128 and the signal when one
// ended it.
func exitStatus(exit *exec.ExitError) int {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}
