package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
)

// published are the events of a column, as they stand in the stream.
type published struct {
	Events    int `json:"events"`
	Lost      int `json:"lost"`      // invoices without an event
	Doubled   int `json:"doubled"`   // events that tell of an invoice again
	Reordered int `json:"reordered"` // events that come after a later one of their account
}

// settleTime is how long the stream must not have grown, once it could be complete.
const settleTime = time.Second

// awaitEvents waits until the stream has an event for each invoice, or does not grow any
// more, and then until nothing more comes.
func awaitEvents(ctx context.Context, conn *pgx.Conn, stream jetstream.Stream, schema string) error {
	var invoices, before uint64
	if err := conn.QueryRow(ctx, `SELECT count(*) FROM `+schema+`.invoice`).Scan(&invoices); err != nil {
		return err
	}
	grew := time.Now()
	for {
		info, err := stream.Info(ctx)
		if err != nil {
			return err
		}
		if info.State.Msgs != before {
			before, grew = info.State.Msgs, time.Now()
		}
		quiet := time.Since(grew)
		if quiet > settleTime && before >= invoices || quiet > 10*settleTime {
			return nil
		}
		if err := pretendToWork(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// readBack compares the events in the stream with the invoices.
func readBack(ctx context.Context, conn *pgx.Conn, stream jetstream.Stream, schema string) (p published, err error) {
	missing, err := invoicesOf(ctx, conn, schema)
	if err != nil {
		return p, err
	}
	seen, last := make(map[string]bool), make(map[int]int64)
	err = eachEvent(ctx, stream, func(i invoice) {
		id := fmt.Sprint(i.Account, "/", i.Number)
		delete(missing, id)
		switch {
		case seen[id]:
			p.Doubled++
		case i.Number < last[i.Account]:
			p.Reordered++
		}
		seen[id] = true
		last[i.Account] = max(last[i.Account], i.Number)
		p.Events++
	})
	p.Lost = len(missing)
	return p, err
}

func invoicesOf(ctx context.Context, conn *pgx.Conn, schema string) (map[string]bool, error) {
	rows, err := conn.Query(ctx, `SELECT account, number FROM `+schema+`.invoice`)
	if err != nil {
		return nil, err
	}
	all := make(map[string]bool)
	var account int
	var number int64
	_, err = pgx.ForEachRow(rows, []any{&account, &number}, func() error {
		all[fmt.Sprint(account, "/", number)] = true
		return nil
	})
	return all, err
}

func eachEvent(ctx context.Context, stream jetstream.Stream, visit func(invoice)) error {
	reader, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	info, err := reader.Info(ctx)
	if err != nil {
		return err
	}
	messages, err := reader.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for range info.NumPending + info.Delivered.Consumer {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		var i invoice
		if err := json.Unmarshal(msg.Data(), &i); err != nil {
			return fmt.Errorf("read event: %w", err)
		}
		visit(i)
	}
	return nil
}
