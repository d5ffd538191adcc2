package dedup

import (
	"errors"
	"fmt"
	"time"
)

// ErrLeaseLost says that a write came from one who no longer owns the record: the lease
// was reclaimed, or the record is already terminal. The writer's result must be dropped.
var ErrLeaseLost = errors.New("lease lost: the record has another owner or is finished")

// ErrLeaseLive says that a record can't be reclaimed because its lease has not run out.
var ErrLeaseLive = errors.New("lease live: its owner may still be at work")

// Begin returns the first record of a leased claim: PROCESSING, generation 1, owned with
// fencing token 1 until now plus lease.
func Begin(fp Fingerprint, now time.Time, lease time.Duration) (Record, error) {
	if err := positive("lease", lease); err != nil {
		return Record{}, err
	}
	return Record{
		Status: Processing, Fingerprint: fp, Generation: 1, LockVersion: 1, LockedUntil: now.Add(lease),
	}, nil
}

// Extend moves the end of the lease to now plus lease. It fails with [ErrLeaseLost]
// unless token owns the record. A lease that has run out but was not reclaimed may still
// be extended by its owner.
func (r Record) Extend(token int64, now time.Time, lease time.Duration) (Record, error) {
	if err := positive("lease", lease); err != nil {
		return r, err
	}
	if err := r.owned(token); err != nil {
		return r, err
	}
	r.LockedUntil = now.Add(lease)
	return r, nil
}

// Reclaim takes over a lease that has run out, by compare-and-swap on seen, the lock
// version that the caller read. The new owner's fencing token is the returned record's
// LockVersion.
func (r Record) Reclaim(seen int64, now time.Time, lease time.Duration) (Record, error) {
	if err := positive("lease", lease); err != nil {
		return r, err
	}
	if err := r.owned(seen); err != nil {
		return r, err
	}
	if r.LockedUntil.After(now) {
		return r, ErrLeaseLive
	}
	r.LockVersion++
	r.LockedUntil = now.Add(lease)
	return r, nil
}

// Complete makes the record COMPLETED at now, to be kept for retention from then.
func (r Record) Complete(token int64, now time.Time, retention time.Duration) (Record, error) {
	return r.settle(token, Completed, "", now, retention)
}

// Fail makes the record FAILED at now with a final class, to be kept for retention.
func (r Record) Fail(token int64, class Class, now time.Time, retention time.Duration) (Record, error) {
	if !class.Final() {
		return r, fmt.Errorf("fail: class %q is not final", class)
	}
	return r.settle(token, Failed, class, now, retention)
}

// Release gives the lease up at now, so that another delivery may reclaim it at once.
func (r Record) Release(token int64, now time.Time) (Record, error) {
	if err := r.owned(token); err != nil {
		return r, err
	}
	r.LockedUntil = now
	return r, nil
}

// Renew opens the next generation on a terminal record, owned until now plus lease. Only
// a recorded definitive failure or an [ExpiredPolicy] that says so permits it; the caller
// decides that, this keeps the token growing across generations.
func (r Record) Renew(fp Fingerprint, now time.Time, lease time.Duration) (Record, error) {
	if err := positive("lease", lease); err != nil {
		return r, err
	}
	if !r.Status.Terminal() {
		return r, fmt.Errorf("renew: status %s is not terminal", r.Status)
	}
	return Record{
		Status: Processing, Fingerprint: fp, Generation: r.Generation + 1,
		LockVersion: r.LockVersion + 1, LockedUntil: now.Add(lease),
	}, nil
}

func (r Record) settle(token int64, to Status, class Class, now time.Time, retention time.Duration) (Record, error) {
	if err := positive("retention", retention); err != nil {
		return r, err
	}
	if err := r.owned(token); err != nil {
		return r, err
	}
	r.Status, r.Failure = to, class
	r.LockedUntil = time.Time{}
	r.CompletedAt, r.ExpiresAt = now, now.Add(retention)
	return r, nil
}

// owned is the fence that every owner write passes.
func (r Record) owned(token int64) error {
	if r.Status != Processing || r.LockVersion != token {
		return ErrLeaseLost
	}
	return nil
}

func positive(field string, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("%s: %v is not positive", field, d)
	}
	return nil
}
