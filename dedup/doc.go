// Package dedup holds the rules of oncebox: what identifies an intent, when two
// deliveries are the same one, and what a delivery gets. It is pure: no clock, no
// database, no broker. Every store and every front door shares it.
//
// A [Key] names an intent inside a scope. Together with the consumer's name it gives a
// [ClaimID], 16 bytes that identify the claim in tables, logs and errors. A
// [Fingerprint] digests the fields which, if changed, mean another intent. A [Record]
// is the stored claim, and [Decide] says what a delivery that meets it gets:
//
//	              claim taken
//	(no record) ──────────────► PROCESSING ──── complete ───► COMPLETED
//	                             │   ▲  │
//	                      extend │   │  └────── fail ───────► FAILED
//	                             ▼   │
//	                            lease run out: reclaim
//
// A claim of the transactional path is inserted already COMPLETED: nobody sees it before
// COMMIT, so it is never PROCESSING for others to find, and a crash leaves nothing behind.
//
// # Guarantees
//
//   - The same consumer, scope and key give the same claim id on every machine and in
//     every release. Golden vectors in the tests hold this.
//   - Encodings are length-prefixed, so no two different inputs are joined to one.
//   - A key that varies with time, is empty, or holds control characters is refused.
//   - A fingerprint tells absent, null and empty apart, compares in constant time, and
//     carries its version.
//   - [Decide] finds a fingerprint that differs before it looks at anything else.
//   - No key and no fingerprint is printed: formatting one shows a short digest.
//
// # Not promised
//
// The package can't know whether a key really names the intent. A key made anew for each
// retry defeats every rule here; docs/mistakes shows how to choose one.
package dedup
