package postgres

import "time"

// The ring keeps claims whose intent has a stable time, a day a slot. With these numbers a
// slot is emptied before its number comes round again, with two days to spare.
const (
	ringSlots = 64
	// RingMaxAge is the age up to which an intent is claimed in the ring; an older one is
	// claimed beside it.
	RingMaxAge = 31 * day
	// RingRetention is the longest retention of a consumer whose keys have a stable time.
	RingRetention = 31 * day

	day = 24 * time.Hour
)

// The build fails when a slot would hold two days at once.
const _ = uint((ringSlots*day - RingMaxAge - RingRetention - 2*day) / day)

// ringSlot is the slot of a stable time, from 1 to 64.
func ringSlot(at time.Time) int16 {
	return int16(1 + at.UTC().Unix()/int64(day/time.Second)%ringSlots)
}

// claimYoung inserts into the ring in one statement, for an intent that stays younger than
// RingMaxAge (744 hours) for at least an hour more. Nobody can be inserting it beside the
// ring meanwhile, so there is nothing else to look at.
const claimYoung = `
INSERT INTO oncebox.inbox (slot, consumer, claim_id, fingerprint, failed)
SELECT ring_slot, $3, $4, $5, $6
WHERE $2::timestamptz <= oncebox.clock() + interval '24 hours'
  AND $2::timestamptz > oncebox.clock() - interval '743 hours'
  AND pg_try_advisory_xact_lock($1)
ON CONFLICT DO NOTHING`

// ageOf asks why claimYoung took nothing: too far in the future, or not young any more.
const ageOf = `
SELECT age < interval '-24 hours', age >= interval '743 hours'
FROM (SELECT oncebox.clock() - $1::timestamptz AS age OFFSET 0) AS intent`

// tryLock comes before claimAnyAge as a statement of its own, and leaves its outcome to it.
//
// Invariant: the claim's snapshot and its clock must be younger than the lock. Two
// deliveries on the two sides of RingMaxAge would otherwise not see one another, and each
// would insert into a slot of its own.
const tryLock = `SELECT set_config('oncebox_claim.locked', pg_try_advisory_xact_lock($1)::text, true)`

// claimAnyAge inserts into the ring or beside it, by the intent's age, unless the claim is
// in either.
//
// Invariant: clock() and not now(): a transaction that began before another but comes to
// the lock after it must not see a younger age.
const claimAnyAge = `
INSERT INTO oncebox.inbox (slot, consumer, claim_id, fingerprint, failed)
SELECT CASE WHEN age <= interval '744 hours' THEN ring_slot ELSE 0 END, $2, $3, $4, $5
FROM (SELECT oncebox.clock() - $1::timestamptz AS age OFFSET 0) AS intent
WHERE current_setting('oncebox_claim.locked') = 'true'
  AND age >= interval '-24 hours'
  AND NOT EXISTS (SELECT FROM oncebox.inbox WHERE slot = 0 AND claim_id = $3)
  AND NOT EXISTS (SELECT FROM oncebox.inbox WHERE slot = ring_slot AND claim_id = $3)
ON CONFLICT DO NOTHING`
