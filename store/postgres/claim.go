package postgres

import (
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

// A claim is taken when its statement inserts a row.

// claimEnd is what every claim ends with. It also limits how long the transaction may be
// left idle; NULL leaves that as it is.
const claimEnd = `
ON CONFLICT DO NOTHING
RETURNING set_config('idle_in_transaction_session_timeout', coalesce($idle, current_setting('idle_in_transaction_session_timeout')), true)`

// claimEndAsIs is claimEnd for a session that has by default what a claim needs.
const claimEndAsIs = `
ON CONFLICT DO NOTHING`

// claimNow tries the advisory lock and inserts in one statement. Nothing is inserted when a
// committed claim is there, and when one is in flight.
//
// Invariant: the lock is only there so that nobody waits. The primary key decides, and it
// sees rows that this statement's snapshot does not.
const claimNow = `
INSERT INTO oncebox.inbox (consumer, claim_id, fingerprint, failed)
SELECT $2, $3, $4, $5
WHERE pg_try_advisory_xact_lock($1)`

// claimAfterLock is the insert alone, when a statement before it has waited for the lock.
const claimAfterLock = `
INSERT INTO oncebox.inbox (consumer, claim_id, fingerprint, failed)
VALUES ($1, $2, $3, $4)`

// Statements around a claim that waits. The handler gets the lock_timeout back that it
// would have had.
const (
	keepTimeout  = `SELECT set_config('oncebox_claim.lock_timeout', current_setting('lock_timeout'), true)`
	setTimeout   = `SELECT set_config('lock_timeout', $1, true)`
	waitForLock  = `SELECT pg_advisory_xact_lock($1), set_config('oncebox_claim.locked', 'true', true)`
	resetTimeout = `SELECT set_config('lock_timeout', current_setting('oncebox_claim.lock_timeout'), true)`
)

// step is one statement of a claim.
type step struct {
	sql  string
	args []any
}

// steps are the statements of a claim in order. It is taken when one of the inserts
// inserts a row.
type steps struct{ before, inserts, after []step }

// claimSteps are the steps for any claim, whatever its age.
func (l *ledger) claimSteps(claim store.Claim, consumer int16, failed bool) (s steps) {
	lock, id, fingerprint := claim.ID.LockKey(l.schema), uuidOf(claim.ID), claim.Fingerprint.Bytes()
	waits, stable := claim.Wait > 0, !claim.At.IsZero()
	switch {
	case waits:
		s.before = []step{{keepTimeout, nil}, {setTimeout, []any{limit(claim.Wait)}}, {waitForLock, []any{lock}}}
		s.after = []step{{resetTimeout, nil}}
	case stable:
		s.before = []step{{tryLock, []any{lock}}}
	}
	switch {
	case stable:
		sql := l.sql.ring[ringDay(claim.At)]
		s.inserts = []step{
			sql.claimInRing.step(claim, claim.At, consumer, id, fingerprint, failed),
			sql.claimBesideRing.step(claim, claim.At, consumer, id, fingerprint, failed),
		}
	case waits:
		s.inserts = []step{l.sql.claimAfterLock.step(claim, consumer, id, fingerprint, failed)}
	default:
		s.inserts = []step{l.sql.claimNow.step(claim, lock, consumer, id, fingerprint, failed)}
	}
	return s
}

// quickSteps is the one step for a claim that waits for nobody, on a session with these
// defaults. An intent with a stable time must not be old, which nearly all are not.
func (l *ledger) quickSteps(claim store.Claim, consumer int16, session defaults) steps {
	lock, id, fingerprint := claim.ID.LockKey(l.schema), uuidOf(claim.ID), claim.Fingerprint.Bytes()
	insert, args := l.sql.claimNow, []any{lock, consumer, id, fingerprint, false}
	if !claim.At.IsZero() {
		insert, args = l.sql.ring[ringDay(claim.At)].claimYoung, []any{lock, claim.At, consumer, id, fingerprint, false}
	}
	if session.suits(claim) {
		return steps{inserts: []step{{insert.asIs, args}}}
	}
	return steps{inserts: []step{insert.step(claim, args...)}}
}

// insertion is a claim's insert in two forms; the explicit one has the idle limit as a
// further parameter.
type insertion struct{ explicit, asIs string }

// newInsertion makes them of a text with that many parameters.
func newInsertion(text string, parameters int) insertion {
	idle := "$" + strconv.Itoa(parameters+1)
	return insertion{text + strings.ReplaceAll(claimEnd, "$idle", idle), text + claimEndAsIs}
}

func (i insertion) step(claim store.Claim, args ...any) step {
	return step{i.explicit, append(args, limit(claim.IdleTimeout))}
}

// heldClaim reads a claim that was not taken. Without a row it is in flight, or was swept
// a moment ago; then coming back later is right as well.
const heldClaim = `
SELECT failed, fingerprint, at, oncebox.clock() AS now
FROM oncebox.inbox
WHERE claim_id = asked.claim_id`

// heldClaimInRing is heldClaim for an intent with a stable time.
const heldClaimInRing = `
SELECT failed, fingerprint, at, oncebox.clock() AS now
FROM (
  SELECT failed, fingerprint, at FROM oncebox.inbox WHERE claim_id = asked.claim_id
  UNION ALL
  SELECT failed, fingerprint, at FROM oncebox.inbox_ring WHERE claim_id = asked.claim_id
) AS claim`

func (l *ledger) heldStep(claim store.Claim) step {
	read := l.sql.held
	if !claim.At.IsZero() {
		read = l.sql.ring[ringDay(claim.At)].held
	}
	return step{read.one, []any{uuidOf(claim.ID)}}
}

// heldRow is what heldClaim returns.
type heldRow struct {
	failed      bool
	fingerprint []byte
	at, now     time.Time
}

func (r *heldRow) columns() []any { return []any{&r.failed, &r.fingerprint, &r.at, &r.now} }

func (r *heldRow) held() (*store.Held, error) {
	fingerprint, err := dedup.FingerprintFrom(r.fingerprint)
	if err != nil {
		return nil, err
	}
	record := dedup.Record{
		Status: dedup.Completed, Generation: 1, Fingerprint: fingerprint, CompletedAt: r.at,
	}
	if r.failed {
		record.Status, record.Failure = dedup.Failed, dedup.ClassPermanent
	}
	return &store.Held{Record: record, Now: r.now}, nil
}

func inFlight() *store.Held { return &store.Held{Record: dedup.InFlight()} }

func uuidOf(id [16]byte) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

// limit is a time limit in the form of a setting, in milliseconds and rounded up so that
// it is not off; nil for none.
func limit(d time.Duration) any {
	if d <= 0 {
		return nil
	}
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}
