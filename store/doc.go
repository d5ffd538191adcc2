// Package store says what a backend must do for oncebox, as small role interfaces. The
// backends are in store/postgres and store/memory; store/storetest is this contract as
// tests, and every backend runs it.
//
// # The contract of an Inbox
//
// Claiming:
//
//   - Of all concurrent claims of one id, exactly one unit of work gets it.
//   - A claim becomes visible to others when its unit commits, together with everything
//     written in the unit, and never without it.
//   - A unit that is rolled back, or whose process dies, leaves no claim and no write.
//   - A claim that another open unit holds is in flight: Begin says so at once, or after
//     at most [Claim.Wait], and holds no connection afterwards.
//   - A claim that a committed unit holds is returned as a record with its fingerprint.
//   - Claims of different consumers, and shadow claims and real ones, never meet.
//   - An intent with a stable time is claimed once, at whatever age its deliveries come;
//     one from more than a day in the future is refused with [ErrFutureTime].
//
// Committing:
//
//   - Commit returns nil only if the store has said that the transaction is committed.
//   - An aborted transaction is reported as [ErrAborted], never as success.
//   - When the store's answer is lost the error is [ErrUnknownOutcome]: the effect may or
//     may not be there; the next claim finds out.
//   - After Commit or Rollback the transaction in the context refuses further use with
//     [ErrTxClosed]. The handler can't end it: that is [ErrManagedTx].
//   - Commit and Rollback run to their end when the caller's context is cancelled.
//
// Failing:
//
//   - Attempts survive the process: Fail counts in a transaction of its own.
//   - A final failure, or the last allowed attempt, records the claim as FAILED and stores
//     the whole message as a dead letter in one transaction; a claim that was completed or
//     is in flight meanwhile is left alone and reported.
//   - Storing the same dead letter again stores nothing more.
//   - Metadata and payload of a dead letter come back byte for byte.
//
// # The contract of an Outbox
//
// Appending:
//
//   - Messages of a unit come out when it commits, and not before; those of a unit that is
//     rolled back or aborted never do.
//   - Outside a unit, and after it, nothing can be appended.
//   - A message comes out as it was, byte for byte, under an id that is the same on every run
//     of the intent. One that can't be sent is refused with its fields, and nothing is stored.
//   - Messages of one unit and key are numbered in the order in which they were appended.
//   - A delayed message comes out when its time has come.
//
// Windows:
//
//   - Each message is in exactly one window, whichever units are open meanwhile and whenever
//     they end. No open unit keeps the messages of another back.
//   - Of two messages of one bucket, that of the unit which could see the other's is in a later
//     window, or later in the same one.
//   - What every bucket has passed is tidied away, and nothing else.
//
// Leases:
//
//   - A bucket has one owner at a time, under an epoch that grows with each take-over. What a
//     former owner writes is refused with [ErrLeaseLost], whole.
//   - Relays that live share the buckets evenly; what nobody holds is taken by those that have
//     less than their share.
//   - A cursor comes back as it was saved.
//
// Parking:
//
//   - Of each key the first parked message is due, then the next; one that is dead holds its
//     key up until it is released, retried or dropped.
//   - What operators do is recorded, in the same transaction, with who and why.
//
// Time is the store's own; no time of the process takes part in a decision.
package store
