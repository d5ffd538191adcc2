package postgres

import (
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// statements are the SQL texts with the schema put in, once, when a store is opened. Each
// text is a constant above the method that runs it; "oncebox." in it stands for the schema.
type statements struct {
	schema                         string // quoted, with a dot
	now                            string
	findConsumer, registerConsumer string
	claimNow, claimAfterLock       insertion
	held                           heldStatements
	ageOf                          string
	countFailure                   string
	storeLetter, listLetters       string
	appendMessage, appendDelayed   string
	bucket                         bucketStatements
	window                         windowStatements
	slot                           [slots]slotStatements
	parked                         parkedStatements
	ring                           [ringDays]ringStatements
}

// ringStatements are those that work on one table of the ring; "inbox_ring" in them stands
// for its name.
type ringStatements struct {
	claimYoung, claimInRing, claimBesideRing insertion
	held                                     heldStatements
}

// heldStatements read one claim, or many.
type heldStatements struct{ one, many string }

// heldBy makes them of a query in which asked.claim_id stands for the claim.
func heldBy(query string, in func(string) string) heldStatements {
	return heldStatements{
		one:  in(strings.ReplaceAll(query, "asked.claim_id", "$1")),
		many: in(strings.ReplaceAll(lookUpClaims, "held_claim", query)),
	}
}

func newStatements(schema string) statements {
	quoted := pgx.Identifier{schema}.Sanitize() + "."
	// Invariant: the schema is put in last, since it may be named like anything.
	in := func(text string) string { return strings.ReplaceAll(text, "oncebox.", quoted) }
	ready := statements{
		schema:           quoted,
		now:              in(readClock),
		findConsumer:     in(findConsumer),
		registerConsumer: in(registerConsumer),
		claimNow:         newInsertion(in(claimNow), 5),
		claimAfterLock:   newInsertion(in(claimAfterLock), 4),
		held:             heldBy(heldClaim, in),
		ageOf:            in(ageOf),
		countFailure:     in(countFailure),
		storeLetter:      in(storeLetter),
		listLetters:      in(listLetters),
		appendMessage:    in(appendMessage),
		appendDelayed:    in(appendDelayed),
		bucket:           newBucketStatements(in),
		window:           newWindowStatements(in),
		parked:           newParkedStatements(in),
	}
	for slot := range ready.slot {
		ready.slot[slot] = newSlotStatements(func(text string) string {
			return in(strings.ReplaceAll(text, "outbox_slot", "outbox_slot_"+strconv.Itoa(slot)))
		})
	}
	for day := range ready.ring {
		in := func(text string) string {
			return in(strings.ReplaceAll(text, "inbox_ring", "inbox_day_"+strconv.Itoa(day)))
		}
		ready.ring[day] = ringStatements{
			claimYoung:      newInsertion(in(claimYoung), 6),
			claimInRing:     newInsertion(in(claimInRing), 5),
			claimBesideRing: newInsertion(in(claimBesideRing), 5),
			held:            heldBy(heldClaimInRing, in),
		}
	}
	return ready
}

const readClock = `SELECT oncebox.clock()`
