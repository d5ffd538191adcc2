package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// statements are the SQL texts with the schema put in, once, when a store is opened. Each
// text is a constant above the method that runs it; "oncebox." in it stands for the schema.
type statements struct {
	now                                             string
	findConsumer, registerConsumer                  string
	claimNow, claimAfterLock, claimStable, readHeld string
	countFailure, storeLetter, listLetters          string
}

func newStatements(schema string) statements {
	quoted := pgx.Identifier{schema}.Sanitize() + "."
	in := func(text string) string { return strings.ReplaceAll(text, "oncebox.", quoted) }
	return statements{
		now:              in(readClock),
		findConsumer:     in(findConsumer),
		registerConsumer: in(registerConsumer),
		claimNow:         in(claimNow),
		claimAfterLock:   in(claimAfterLock),
		claimStable:      in(claimStable),
		readHeld:         in(readHeld),
		countFailure:     in(countFailure),
		storeLetter:      in(storeLetter),
		listLetters:      in(listLetters),
	}
}

const readClock = `SELECT oncebox.clock()`
