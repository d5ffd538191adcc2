package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/outbox"
	"github.com/oncebox/oncebox/store/postgres"
)

// message is one version of one account.
type message struct {
	account int
	version int64
}

func (m message) encode() []byte { return fmt.Appendf(nil, "%d %d", m.account, m.version) }

func parseMessage(payload []byte) (m message, err error) {
	_, err = fmt.Sscanf(string(payload), "%d %d", &m.account, &m.version)
	return m, err
}

var errRollBack = errors.New("rolled back on purpose")

// mostAtOnce is how many messages a transaction appends at most.
const mostAtOnce = 5

// write runs the writers until enough is committed.
func write(ctx context.Context, b *bed) error {
	writing, err := consumer.New(b.st, consumer.Config{Name: "writer", Key: consumer.Metadata("id")})
	if err != nil {
		return err
	}
	var committed, next atomic.Int64
	shown := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for number := range b.settings.Writers {
		group.Go(func() error {
			w := writer{bed: b, random: rand.New(rand.NewPCG(b.settings.Seed, uint64(number)))}
			for committed.Load() < int64(b.settings.Messages) {
				count := 1 + w.random.IntN(mostAtOnce)
				err := w.one(ctx, writing, number, next.Add(1), count)
				switch {
				case errors.Is(err, errRollBack):
					continue
				case err != nil:
					return err
				}
				if total := committed.Add(int64(count)); number == 0 && time.Since(shown) > 2*time.Second {
					shown = time.Now()
					fmt.Printf("%d of %d messages committed\n", total, b.settings.Messages)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

type writer struct {
	bed    *bed
	random *rand.Rand
}

// one runs a transaction: by oncebox, or by hand in every fourth writer.
func (w writer) one(ctx context.Context, writing *consumer.Consumer, number int, id int64, count int) error {
	if number%4 == 3 {
		err := pgx.BeginFunc(ctx, w.bed.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SELECT pg_current_xact_id()`); err != nil {
				return err
			}
			return w.change(ctx, tx, count)
		})
		w.bed.st.Wake()
		return err
	}
	_, err := writing.Do(ctx, dedup.Key{Scope: dedup.Global, ID: fmt.Sprint(id)}, func(ctx context.Context) error {
		tx, err := postgres.TxFrom(ctx)
		if err != nil {
			return err
		}
		return w.change(ctx, tx, count)
	})
	return err
}

// change takes an account some versions on and appends a message for each.
func (w writer) change(ctx context.Context, tx pgx.Tx, count int) error {
	w.wait()
	account := w.random.IntN(w.bed.settings.Accounts)
	var version int64
	err := tx.QueryRow(ctx, `UPDATE `+w.bed.name+`.account SET version = version + $1 WHERE id = $2 RETURNING version`, count, account).Scan(&version)
	if err != nil {
		return err
	}
	w.wait()
	messages := make([]outbox.Message, count)
	for i := range messages {
		one := message{account, version - int64(count) + int64(i) + 1}
		messages[i] = outbox.Message{Topic: w.bed.name, Key: fmt.Sprint("account-", account), Payload: one.encode()}
	}
	if err := outbox.Append(ctx, w.bed.st.Tx(tx), messages...); err != nil {
		return err
	}
	w.wait()
	if w.random.IntN(20) == 0 {
		return errRollBack
	}
	return nil
}

// wait stops at a third of the places, for up to 4 ms; at one in a thousand for longer.
func (w writer) wait() {
	switch {
	case w.random.IntN(1000) == 0:
		time.Sleep(time.Duration(w.random.IntN(300)) * time.Millisecond)
	case !w.bed.settings.Quick && w.random.IntN(3) == 0:
		time.Sleep(time.Duration(w.random.IntN(4000)) * time.Microsecond)
	}
}
