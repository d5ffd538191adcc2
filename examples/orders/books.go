package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// books are what came of a column.
type books struct {
	Consumer   string `json:"consumer"`
	Messages   int    `json:"messages"` // different orders
	Deliveries uint64 `json:"deliveries"`
	Blocked    int64  `json:"blocked"` // deliveries that were acked without running the handler
	Kills      int64  `json:"kills"`
	Effects    int    `json:"effects"`
	Lost       int    `json:"lost"`
	Doubled    int    `json:"doubled"`
	// Balanced says that each account holds exactly what its invoices say.
	Balanced bool `json:"balanced"`
	// Cents and DueCents are what is on the accounts, and what should be.
	Cents    int64 `json:"cents"`
	DueCents int64 `json:"due_cents"`
	// RelaysKilled and Published are about the events that tell of the invoices.
	RelaysKilled int64     `json:"relays_killed"`
	Published    published `json:"published"`
}

const readBooks = `
WITH per_order AS (
  SELECT order_id, count(*) AS effects FROM %[1]s.invoice GROUP BY order_id
), per_account AS (
  SELECT account, sum(cents) AS invoiced FROM %[1]s.invoice GROUP BY account
)
SELECT
  coalesce((SELECT sum(effects) FROM per_order), 0)::int,
  (SELECT count(*) FROM per_order)::int,
  (SELECT count(*) FROM per_order WHERE effects > 1)::int,
  NOT EXISTS (SELECT FROM %[1]s.account LEFT JOIN per_account ON account = id WHERE balance <> coalesce(invoiced, 0)),
  (SELECT sum(balance) FROM %[1]s.account)::bigint`

func doBooks(ctx context.Context, conn *pgx.Conn, crew *crew, deliveries uint64) (books, error) {
	s := crew.assignment.Settings
	b := books{
		Consumer: crew.assignment.Column, Messages: s.Messages, Deliveries: deliveries,
		Blocked: crew.blocked.Load(), Kills: crew.kills.Load(), RelaysKilled: crew.relayKills.Load(),
	}
	for number := range s.Messages {
		b.DueCents += makeOrder(s, number).Cents
	}
	var orders int
	err := conn.QueryRow(ctx, fmt.Sprintf(readBooks, crew.assignment.Schema)).
		Scan(&b.Effects, &orders, &b.Doubled, &b.Balanced, &b.Cents)
	if err != nil {
		return books{}, fmt.Errorf("do the books: %w", err)
	}
	b.Lost = b.Messages - orders
	return b, nil
}

// balance says what is wrong with the books.
func (b books) balance() error {
	if b.Lost == 0 && b.Doubled == 0 && b.Effects == b.Messages && b.Balanced && b.Cents == b.DueCents &&
		b.Published == (published{Events: b.Effects}) {
		return nil
	}
	return fmt.Errorf("the books of %s don't balance: %d lost, %d doubled, %d effects for %d orders, %d cents where %d are due, accounts agree with invoices: %v; %d events, %d lost, %d doubled, %d reordered",
		b.Consumer, b.Lost, b.Doubled, b.Effects, b.Messages, b.Cents, b.DueCents, b.Balanced,
		b.Published.Events, b.Published.Lost, b.Published.Doubled, b.Published.Reordered)
}
