package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

// errNoRows is in the chain of the error of a query without rows, on pgx as on
// database/sql.
var errNoRows = sql.ErrNoRows

// SQLSTATEs that are looked for by name.
const (
	lockNotAvailable     = "55P03"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
)

// sqlState returns the SQLSTATE in err's chain, empty when there is none. pgx and lib/pq
// both offer it this way.
func sqlState(err error) string {
	if state, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return state.SQLState()
	}
	return ""
}

// classify tells the database's failures from the handler's. Texts are never looked at:
// servers translate them.
func classify(err error) dedup.Class {
	class := dedup.ClassOf(err)
	if class == dedup.ClassPermanent {
		return class // the handler has spoken
	}
	state := sqlState(err)
	switch {
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrUnknownOutcome), infrastructureState(state):
		return dedup.ClassInfrastructure
	case class == dedup.ClassCanceled:
		return class
	}
	return class
}

// infrastructureState reports whether a SQLSTATE is nobody's fault in the handler: lost
// connections, conflicts between transactions, lack of resources, a server that stops.
// A statement timeout (57014), a lock timeout (55P03) and a transaction left idle (25P03)
// are not among them: the handler asked for them or caused them.
func infrastructureState(state string) bool {
	switch state {
	case serializationFailure, deadlockDetected:
		return true
	}
	for _, class := range []string{"08", "53", "57P", "58"} {
		if strings.HasPrefix(state, class) {
			return true
		}
	}
	return false
}

// refused reports whether the server answered COMMIT with an error and lives, so that
// nothing was committed. A server that goes down may have committed before it said so.
func refused(err error) bool {
	state := sqlState(err)
	return state != "" && !strings.HasPrefix(state, "08") && !strings.HasPrefix(state, "57P")
}

// unavailable wraps an error that the store met on its own business. One without a SQLSTATE
// means that the server could not be asked.
func unavailable(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case sqlState(err) == "" && !errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w: %w", doing, store.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
