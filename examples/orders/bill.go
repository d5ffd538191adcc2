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
CREATE TABLE %[1]s.invoice (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, order_id text NOT NULL, account int NOT NULL, cents bigint NOT NULL);
CREATE TABLE %[1]s.account (id int PRIMARY KEY, balance bigint NOT NULL DEFAULT 0);
INSERT INTO %[1]s.account (id) SELECT generate_series(0, %[2]d);`

// errNotNow is what the first delivery of some orders fails with.
var errNotNow = errors.New("the tax service does not answer")

// biller is the business: an invoice and a balance, in one transaction.
type biller struct {
	settings settings
	schema   string
}

// bill does the work of one message in tx.
func (b biller) bill(ctx context.Context, tx pgx.Tx, msg *message.Message) error {
	number, err := strconv.Atoi(msg.Metadata.Get(headerNumber))
	if err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	o := makeOrder(b.settings, number)
	_, err = tx.Exec(ctx, `INSERT INTO `+b.schema+`.invoice (order_id, account, cents) VALUES ($1, $2, $3)`, o.ID, o.Account, o.Cents)
	if err != nil {
		return fmt.Errorf("insert invoice: %w", err)
	}
	if err := pretendToWork(ctx, o.Takes); err != nil {
		return err
	}
	if o.FailsFirst && msg.Metadata.Get(nats.MetadataDelivered) == "1" {
		return errNotNow
	}
	_, err = tx.Exec(ctx, `UPDATE `+b.schema+`.account SET balance = balance + $1 WHERE id = $2`, o.Cents, o.Account)
	if err != nil {
		return fmt.Errorf("update balance: %w", err)
	}
	return nil
}

func pretendToWork(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
