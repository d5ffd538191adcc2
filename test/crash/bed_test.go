//go:build failpoint

package crash_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/internal/pgtest"
	"github.com/oncebox/oncebox/migrations"
)

// ackWait is how soon the server delivers again what a killed worker had in hand.
const ackWait = 2 * time.Second

// patience bounds every wait for a fact.
const patience = 60 * time.Second

// bed is one stream and one schema, for workers that die.
type bed struct {
	t      *testing.T
	db     *pgtest.DB
	js     jetstream.JetStream
	stream string
}

func setup(t *testing.T) *bed {
	t.Helper()
	db := pgtest.Open(t)
	conn, err := db.Pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	require.NoError(t, migrations.Up(t.Context(), conn.Conn(), migrations.Options{Schema: db.Schema}))
	_, err = conn.Exec(t.Context(), `CREATE TABLE `+pgx.Identifier{db.Schema, "effect"}.Sanitize()+` (order_id text NOT NULL)`)
	require.NoError(t, err)

	nc, err := natsgo.Connect(os.Getenv("ONCEBOX_NATS_URL"))
	require.NoError(t, err, "ONCEBOX_NATS_URL must name a NATS server; run `make crash`")
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream := "crash_" + db.Schema
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{stream}})
	require.NoError(t, err)
	return &bed{t: t, db: db, js: js, stream: stream}
}

// publish sends an order; each call makes a message of its own.
func (b *bed) publish(order, payload string) {
	b.t.Helper()
	msg := natsgo.NewMsg(b.stream)
	msg.Header.Set("order_id", order)
	msg.Data = []byte(payload)
	_, err := b.js.PublishMsg(b.t.Context(), msg)
	require.NoError(b.t, err)
}

// start runs a worker that dies at the failpoint; none when it is empty.
func (b *bed) start(failpoint string) *exec.Cmd {
	b.t.Helper()
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(),
		workerVariable+"="+b.stream, schemaVariable+"="+b.db.Schema,
		"ONCEBOX_POSTGRES_DSN="+b.db.DSN, "ONCEBOX_FAILPOINT="+failpoint)
	worker.Stderr = os.Stderr
	require.NoError(b.t, worker.Start())
	b.t.Cleanup(func() {
		_ = worker.Process.Kill()
		_ = worker.Wait()
	})
	return worker
}

// killed waits until the worker has died by SIGKILL.
func (b *bed) killed(worker *exec.Cmd) {
	b.t.Helper()
	died := make(chan error, 1)
	go func() { died <- worker.Wait() }()
	select {
	case <-died:
	case <-time.After(patience):
		b.t.Fatalf("the worker did not reach its failpoint; %s", b.state())
	}
	status := worker.ProcessState.Sys().(syscall.WaitStatus)
	require.True(b.t, status.Signaled() && status.Signal() == syscall.SIGKILL, "the worker ended by %v", worker.ProcessState)
}

// drained waits until every message of the stream is acked.
func (b *bed) drained() {
	b.t.Helper()
	stream, err := b.js.Stream(b.t.Context(), b.stream)
	require.NoError(b.t, err)
	last := stream.CachedInfo().State.LastSeq
	require.Eventually(b.t, func() bool {
		durable, err := b.js.Consumer(b.t.Context(), b.stream, "billing")
		if err != nil {
			return false
		}
		info, err := durable.Info(b.t.Context())
		return err == nil && info.AckFloor.Stream >= last && info.NumAckPending == 0
	}, patience, 20*time.Millisecond, "the stream is not drained; %s", b.state())
}

// effects counts the rows of each order.
func (b *bed) effects() map[string]int {
	return b.db.Counts(b.t, `SELECT order_id, count(*)::int FROM %s GROUP BY 1`, "effect")
}

// letters counts the dead letters of each class.
func (b *bed) letters() map[string]int {
	return b.db.Counts(b.t, `SELECT class, count(*)::int FROM %s GROUP BY 1`, "dead_letter")
}

func (b *bed) state() string {
	var state strings.Builder
	if durable, err := b.js.Consumer(b.t.Context(), b.stream, "billing"); err == nil {
		if info, err := durable.Info(b.t.Context()); err == nil {
			fmt.Fprintf(&state, "pending %d, ack pending %d, redelivered %d", info.NumPending, info.NumAckPending, info.NumRedelivered)
		}
	}
	return state.String()
}
