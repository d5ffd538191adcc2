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
// Time is the store's own; no time of the process takes part in a decision.
package store
