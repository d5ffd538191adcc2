package embedpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

const (
	startTimeout = 60 * time.Second // a cold, loaded machine has needed half a minute
	stopTimeout  = 5 * time.Second
	portTries    = 5
	logTail      = 4 << 10
)

// cluster is a private server in a temporary folder.
type cluster struct {
	bin, dir string
	account  *syscall.Credential
	command  *exec.Cmd
	exited   chan struct{} // closed when the command has ended
}

func startLocal(ctx context.Context, bin string, config Config) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	account, err := unprivileged()
	if err != nil {
		return nil, err
	}
	removeStale()
	dir, err := os.MkdirTemp("", folderPattern)
	if err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	c := &cluster{bin: bin, dir: dir, account: account}
	dsn, err := c.start(ctx, config)
	if err != nil {
		c.stop()
		return nil, err
	}
	return &Server{DSN: dsn, Source: bin, stop: c.stop}, nil
}

func (c *cluster) start(ctx context.Context, config Config) (string, error) {
	if c.account != nil {
		if err := os.Chown(c.dir, int(c.account.Uid), int(c.account.Gid)); err != nil {
			return "", fmt.Errorf("hand folder over: %w", err)
		}
	}
	if err := c.initialize(ctx); err != nil {
		return "", err
	}
	var failures []error
	for range portTries {
		dsn, err := c.listen(ctx, config)
		if err == nil {
			return dsn, nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	return "", fmt.Errorf("start postgres: %w", errors.Join(failures...))
}

func (c *cluster) initialize(ctx context.Context) error {
	initdb := exec.CommandContext(ctx, filepath.Join(c.bin, "initdb"),
		"-D", filepath.Join(c.dir, "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
	var output bytes.Buffer
	initdb.Stdout, initdb.Stderr = &output, &output
	initdb.Dir = c.dir
	initdb.Env = append(os.Environ(), "HOME="+c.dir)
	initdb.SysProcAttr = processAttributes(c.account)
	if err := initdb.Run(); err != nil {
		return fmt.Errorf("initdb in %s: %w\n%s", c.bin, err, tail(output.Bytes()))
	}
	return nil
}

// listen starts the server on a port that is free now; somebody may take it in between,
// so the caller tries again.
func (c *cluster) listen(ctx context.Context, config Config) (string, error) {
	port, err := freePort(ctx)
	if err != nil {
		return "", err
	}
	log, err := os.Create(filepath.Join(c.dir, "log"))
	if err != nil {
		return "", fmt.Errorf("make log: %w", err)
	}
	defer log.Close()

	// ctx bounds only the start.
	c.command = exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(c.bin, "postgres"), c.arguments(port, config)...)
	c.command.Stdout, c.command.Stderr = log, log
	c.command.Dir = c.dir
	c.command.SysProcAttr = processAttributes(c.account)
	if err := c.command.Start(); err != nil {
		return "", fmt.Errorf("run %s: %w", c.command.Path, err)
	}
	c.exited = make(chan struct{})
	go func(command *exec.Cmd, exited chan<- struct{}) {
		_ = command.Wait() // its state tells
		close(exited)
	}(c.command, c.exited)

	dsn := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
	if err := c.ready(ctx, dsn); err != nil {
		c.quit()
		written, _ := os.ReadFile(log.Name())
		return "", fmt.Errorf("%w\n%s", err, tail(written))
	}
	return dsn, nil
}

func (c *cluster) arguments(port int, config Config) []string {
	settings := map[string]string{
		"max_connections":  "300",
		"listen_addresses": "127.0.0.1",
		"port":             strconv.Itoa(port),
		// Debian's default folder for the socket belongs to somebody else.
		"unix_socket_directories": c.dir,
	}
	if !config.Durable {
		for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
			settings[name] = "off"
		}
	}
	maps.Copy(settings, config.Settings)
	arguments := []string{"-D", filepath.Join(c.dir, "data")}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		arguments = append(arguments, "-c", name+"="+settings[name])
	}
	return arguments
}

// ready waits until the server answers or has ended.
func (c *cluster) ready(ctx context.Context, dsn string) error {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		err := answers(ctx, dsn)
		if err == nil {
			return nil
		}
		select {
		case <-c.exited:
			status := c.command.ProcessState
			c.command = nil
			return fmt.Errorf("postgres ended: %v", status)
		case <-ctx.Done():
			return fmt.Errorf("postgres is not ready: %w", err)
		case <-look.C:
		}
	}
}

func (c *cluster) stop() {
	c.quit()
	_ = os.RemoveAll(c.dir)
}

// quit ends the server at once; its data are thrown away, so nothing needs saving.
func (c *cluster) quit() {
	if c.command == nil {
		return
	}
	_ = c.command.Process.Signal(syscall.SIGQUIT)
	select {
	case <-c.exited:
	case <-time.After(stopTimeout):
		_ = c.command.Process.Kill()
		<-c.exited
	}
	c.command = nil
}

func freePort(ctx context.Context) (int, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func tail(output []byte) string {
	if len(output) > logTail {
		output = output[len(output)-logTail:]
	}
	return string(output)
}
