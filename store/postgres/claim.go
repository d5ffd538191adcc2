package postgres

import (
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

// claimNow tries the advisory lock and inserts in one statement, with three outcomes:
// taken, not taken because a committed claim is there, not taken because it is in flight.
//
// Invariant: the lock is only there so that nobody waits. The primary key decides, and it
// sees rows that this statement's snapshot does not.
const claimNow = `
WITH lock AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock($1) AS held
), claim AS (
  INSERT INTO oncebox.inbox (slot, consumer, claim_id, fingerprint, failed)
  SELECT 0, $2, $3, $4, $5
  FROM lock
  WHERE held
  ON CONFLICT DO NOTHING
  RETURNING 1
)
SELECT EXISTS (SELECT FROM claim)`

// claimAfterLock is the insert alone, when a statement before it has waited for the lock.
const claimAfterLock = `
WITH claim AS (
  INSERT INTO oncebox.inbox (slot, consumer, claim_id, fingerprint, failed)
  VALUES (0, $1, $2, $3, $4)
  ON CONFLICT DO NOTHING
  RETURNING 1
)
SELECT EXISTS (SELECT FROM claim)`

// Statements that come before a claim in its batch.
const (
	setLocal     = `SELECT set_config($1, $2, true)`
	waitForLock  = `SELECT pg_advisory_xact_lock($1)`
	keepTimeout  = `SELECT set_config('oncebox_claim.lock_timeout', current_setting('lock_timeout'), true)`
	resetTimeout = `SELECT set_config('lock_timeout', current_setting('oncebox_claim.lock_timeout'), true)`
)

// step is one statement of a claim.
type step struct {
	sql  string
	args []any
}

// claimSteps are the statements that take a claim, in order. The last one that is marked
// as the answer returns whether the claim was taken, and with a stable time also whether
// that is too far in the future.
func (l *ledger) claimSteps(claim store.Claim, consumer int16, failed bool) (before []step, answer step, after []step) {
	if claim.IdleTimeout > 0 {
		before = append(before, step{setLocal, []any{"idle_in_transaction_session_timeout", milliseconds(claim.IdleTimeout)}})
	}
	lock := claim.ID.LockKey()
	waits := claim.Wait > 0
	if waits {
		before = append(before,
			step{keepTimeout, nil},
			step{setLocal, []any{"lock_timeout", milliseconds(claim.Wait)}},
			step{waitForLock, []any{lock}})
		after = append(after, step{resetTimeout, nil})
	}
	id, fingerprint := uuidOf(claim.ID), claim.Fingerprint.Bytes()
	switch {
	case !claim.At.IsZero():
		if !waits {
			before = append(before, step{tryLock, []any{lock}})
		} else {
			before = append(before, step{setLocal, []any{lockedSetting, "true"}})
		}
		answer = step{l.sql.claimStable, []any{claim.At, ringSlot(claim.At), consumer, id, fingerprint, failed}}
	case waits:
		answer = step{l.sql.claimAfterLock, []any{consumer, id, fingerprint, failed}}
	default:
		answer = step{l.sql.claimNow, []any{lock, consumer, id, fingerprint, failed}}
	}
	return before, answer, after
}

// taken is the answer to a claim.
type taken struct {
	claimed bool
	future  bool // only with a stable time
}

func (t *taken) columns(claim store.Claim) []any {
	if claim.At.IsZero() {
		return []any{&t.claimed}
	}
	return []any{&t.claimed, &t.future}
}

// readHeld reads a claim that was not taken. Without a row it is in flight, or was swept
// a moment ago; then coming back later is right as well.
const readHeld = `
SELECT failed, fingerprint, at, oncebox.clock()
FROM oncebox.inbox
WHERE slot IN (0, $1) AND claim_id = $2`

func heldArguments(claim store.Claim) []any {
	slot := int16(0)
	if !claim.At.IsZero() {
		slot = ringSlot(claim.At)
	}
	return []any{slot, uuidOf(claim.ID)}
}

// heldRow is what readHeld returns.
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

// milliseconds is a time limit in the form of a setting, rounded up so that it is not off.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}
