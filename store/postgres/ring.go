package postgres

import "time"

// The ring keeps claims whose intent has a stable time, in a table a day. With these
// numbers a table is emptied before its day comes round again, with two days to spare.
const (
	ringDays = 64
	// RingMaxAge is the age up to which an intent is claimed in the ring; an older one is
	// claimed beside it.
	RingMaxAge = 31 * day
	// RingRetention is the longest retention of a consumer whose keys have a stable time.
	RingRetention = 31 * day

	day = 24 * time.Hour
)

// The build fails when a table would hold two days at once.
const _ = uint((ringDays*day - RingMaxAge - RingRetention - 2*day) / day)

// ringDay is the number of the table for a stable time, from 0 to 63.
func ringDay(at time.Time) int {
	return int(at.UTC().Unix() / int64(day/time.Second) % ringDays)
}

// claimYoung inserts into the ring in one statement, for an intent that stays younger than
// RingMaxAge (744 hours) for at least an hour more. Nobody can be inserting it beside the
// ring meanwhile, so there is nothing else to look at.
const claimYoung = `
INSERT INTO oncebox.inbox_ring (consumer, claim_id, fingerprint, failed)
SELECT $3, $4, $5, $6
WHERE $2::timestamptz <= oncebox.clock() + interval '24 hours'
  AND $2::timestamptz > oncebox.clock() - interval '743 hours'
  AND pg_try_advisory_xact_lock($1)`

// ageOf asks why claimYoung took nothing: too far in the future, or not young any more.
const ageOf = `
SELECT age < interval '-24 hours', age >= interval '743 hours'
FROM (SELECT oncebox.clock() - $1::timestamptz AS age OFFSET 0) AS intent`

// tryLock comes before a claim of any age as a statement of its own, and leaves its outcome
// to it.
//
// Invariant: the claim's snapshot and its clock must be younger than the lock. Two
// deliveries on the two sides of RingMaxAge would otherwise not see one another, and each
// would insert into a table of its own.
const tryLock = `SELECT set_config('oncebox_claim.locked', pg_try_advisory_xact_lock($1)::text, true)`

// claimInRing and claimBesideRing insert an intent of any age where its age wants it,
// unless the claim is in either place.
//
// Invariant: in this order. An intent that is too old for the first is old enough for the
// second; should the clock step back in between, neither inserts, and the claim is tried
// again as one in flight. And clock() and not now(): a transaction that began before
// another but comes to the lock after it must not see a younger age.
const claimInRing = `
INSERT INTO oncebox.inbox_ring (consumer, claim_id, fingerprint, failed)
SELECT $2, $3, $4, $5
FROM (SELECT oncebox.clock() - $1::timestamptz AS age OFFSET 0) AS intent
WHERE current_setting('oncebox_claim.locked') = 'true'
  AND age >= interval '-24 hours'
  AND age <= interval '744 hours'
  AND NOT EXISTS (SELECT FROM oncebox.inbox WHERE claim_id = $3)`

const claimBesideRing = `
INSERT INTO oncebox.inbox (consumer, claim_id, fingerprint, failed)
SELECT $2, $3, $4, $5
FROM (SELECT oncebox.clock() - $1::timestamptz AS age OFFSET 0) AS intent
WHERE current_setting('oncebox_claim.locked') = 'true'
  AND age > interval '744 hours'
  AND NOT EXISTS (SELECT FROM oncebox.inbox_ring WHERE claim_id = $3)`
