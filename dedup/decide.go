package dedup

import "time"

// Verdict is what a delivery gets when its claim meets a record.
type Verdict string

// The verdicts. What each front door answers is in the decision table of docs/concepts.
const (
	// Proceed: the claim is new; run the handler.
	Proceed Verdict = "proceed"
	// Replay: the intent has taken effect; acknowledge, or answer what is stored.
	Replay Verdict = "replay"
	// Busy: another delivery is at work; come back later, never acknowledge.
	Busy Verdict = "busy"
	// Recover: the owner's lease has run out; reclaim by compare-and-swap, then follow
	// the action's recovery path. It is never a plain second run.
	Recover Verdict = "recover"
	// KeyReused: the key is held by an intent with another fingerprint.
	KeyReused Verdict = "key_reused"
	// FailedBefore: the intent failed for good; the stored failure is the answer.
	FailedBefore Verdict = "failed"
	// Expired: the record is past its retention; the action's [ExpiredPolicy] decides.
	Expired Verdict = "expired"
)

// Decide gives the verdict on a delivery with fingerprint fp that found held, at the
// store's time now. It is asked only when the claim was not taken: a claim that was taken
// is [Proceed].
//
// Invariant: the fingerprint comes first, so that no state hides a reused key.
func Decide(held Record, fp Fingerprint, now time.Time) Verdict {
	if held.Fingerprint.Declared() && fp.Declared() && !held.Fingerprint.Equal(fp) {
		return KeyReused
	}
	if held.Status == Processing {
		if held.LockedUntil.After(now) {
			return Busy
		}
		return Recover
	}
	if !held.ExpiresAt.IsZero() && !held.ExpiresAt.After(now) {
		return Expired
	}
	if held.Status == Failed {
		return FailedBefore
	}
	return Replay
}
