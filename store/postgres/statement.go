package postgres

import (
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// statements are the SQL texts with the schema put in, once, when a store is opened. Each
// text is a constant above the method that runs it; "oncebox." in it stands for the schema.
type statements struct {
	now                            string
	findConsumer, registerConsumer string
	claimNow, claimAfterLock       insertion
	ageOf                          string
	countFailure                   string
	storeLetter, listLetters       string

	// By slot. A slot that is a number in the text is found when a statement is planned;
	// one that is a parameter makes every run open all partitions.
	readHeld                [1 + ringSlots]string
	claimYoung, claimAnyAge [1 + ringSlots]insertion
}

func newStatements(schema string) statements {
	quoted := pgx.Identifier{schema}.Sanitize() + "."
	in := func(text string) string { return strings.ReplaceAll(text, "oncebox.", quoted) }
	ready := statements{
		now:              in(readClock),
		findConsumer:     in(findConsumer),
		registerConsumer: in(registerConsumer),
		claimNow:         newInsertion(in(claimNow), 5),
		claimAfterLock:   newInsertion(in(claimAfterLock), 4),
		ageOf:            in(ageOf),
		countFailure:     in(countFailure),
		storeLetter:      in(storeLetter),
		listLetters:      in(listLetters),
	}
	for slot := range ready.readHeld {
		number := strings.NewReplacer("ring_slot", strconv.Itoa(slot))
		ready.readHeld[slot] = number.Replace(in(readHeld))
		ready.claimYoung[slot] = newInsertion(number.Replace(in(claimYoung)), 6)
		ready.claimAnyAge[slot] = newInsertion(number.Replace(in(claimAnyAge)), 5)
	}
	return ready
}

const readClock = `SELECT oncebox.clock()`
