package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"

	"github.com/oncebox/oncebox/consumer/nats"
)

// schemaSQL makes a column's own tables.
const schemaSQL = `
CREATE SCHEMA %[1]s;
CREATE TABLE %[1]s.invoice (account int NOT NULL, number bigint NOT NULL, order_id text NOT NULL, cents bigint NOT NULL, PRIMARY KEY (account, number));
CREATE TABLE %[1]s.account (id int PRIMARY KEY, balance bigint NOT NULL DEFAULT 0, invoices bigint NOT NULL DEFAULT 0);
INSERT INTO %[1]s.account (id) SELECT generate_series(0, %[2]d);`

// errNotNow is what the first delivery of some orders fails with.
var errNotNow = errors.New("the tax service does not answer")

// biller is the business: an invoice and a balance, in one transaction.
type biller struct {
	settings settings
	schema   string
}

// bill does the work of one message in tx, and returns the event that tells of it.
func (b biller) bill(ctx context.Context, tx pgx.Tx, msg *message.Message) ([]*message.Message, error) {
	number, err := strconv.Atoi(msg.Metadata.Get(headerNumber))
	if err != nil {
		return nil, fmt.Errorf("read order: %w", err)
	}
	o := makeOrder(b.settings, number)
	if err := pretendToWork(ctx, o.Takes); err != nil {
		return nil, err
	}
	issued := invoice{Order: o.ID, Account: o.Account, Cents: o.Cents}
	err = tx.QueryRow(ctx, `UPDATE `+b.schema+`.account SET balance = balance + $1, invoices = invoices + 1 WHERE id = $2 RETURNING invoices`,
		o.Cents, o.Account).Scan(&issued.Number)
	if err != nil {
		return nil, fmt.Errorf("update balance: %w", err)
	}
	if o.FailsFirst && msg.Metadata.Get(nats.MetadataDelivered) == "1" {
		return nil, errNotNow
	}
	_, err = tx.Exec(ctx, `INSERT INTO `+b.schema+`.invoice (account, number, order_id, cents) VALUES ($1, $2, $3, $4)`,
		issued.Account, issued.Number, issued.Order, issued.Cents)
	if err != nil {
		return nil, fmt.Errorf("insert invoice: %w", err)
	}
	event, err := issued.event()
	return []*message.Message{event}, err
}

func pretendToWork(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
