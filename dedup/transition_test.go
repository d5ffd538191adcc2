package dedup_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
)

const lease = time.Minute

func begun(t *testing.T) dedup.Record {
	t.Helper()
	record, err := dedup.Begin(dedup.Fingerprint{}, now, lease)
	require.NoError(t, err)
	return record
}

func TestTransition_OwnerCompletes(t *testing.T) {
	t.Parallel()
	done, err := begun(t).Complete(1, now, time.Hour)
	require.NoError(t, err)
	require.Equal(t, dedup.Completed, done.Status)
	require.True(t, done.LockedUntil.IsZero())
	require.Equal(t, now.Add(time.Hour), done.ExpiresAt, "retention counts from completion")
}

func TestTransition_StrangerWritesNothing(t *testing.T) {
	t.Parallel()
	reclaimed, err := begun(t).Reclaim(1, now.Add(lease), lease)
	require.NoError(t, err)
	require.EqualValues(t, 2, reclaimed.LockVersion)
	done, err := reclaimed.Complete(2, now, time.Hour)
	require.NoError(t, err)
	for name, record := range map[string]dedup.Record{"reclaimed": reclaimed, "completed": done} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, write := range []func() (dedup.Record, error){
				func() (dedup.Record, error) { return record.Complete(1, now, time.Hour) },
				func() (dedup.Record, error) { return record.Fail(1, dedup.ClassPermanent, now, time.Hour) },
				func() (dedup.Record, error) { return record.Extend(1, now, lease) },
				func() (dedup.Record, error) { return record.Release(1, now) },
				func() (dedup.Record, error) { return record.Reclaim(1, now.Add(time.Hour), lease) },
			} {
				after, err := write()
				require.ErrorIs(t, err, dedup.ErrLeaseLost)
				require.Equal(t, record, after)
			}
		})
	}
}

func TestTransition_RunningLeaseIsNotReclaimed(t *testing.T) {
	t.Parallel()
	record := begun(t)
	_, err := record.Reclaim(1, now.Add(lease-1), lease)
	require.ErrorIs(t, err, dedup.ErrLeaseLive)
	extended, err := record.Extend(1, now.Add(lease-1), lease)
	require.NoError(t, err)
	_, err = extended.Reclaim(1, now.Add(lease), lease)
	require.ErrorIs(t, err, dedup.ErrLeaseLive, "an extension moved its end")
	released, err := record.Release(1, now)
	require.NoError(t, err)
	_, err = released.Reclaim(1, now, lease)
	require.NoError(t, err)
}

func TestTransition_LengthsMustBePositive(t *testing.T) {
	t.Parallel()
	record := begun(t)
	for _, d := range []time.Duration{0, -time.Second} {
		_, err := dedup.Begin(dedup.Fingerprint{}, now, d)
		require.ErrorContains(t, err, "lease")
		_, err = record.Extend(1, now, d)
		require.ErrorContains(t, err, "lease")
		_, err = record.Reclaim(1, now.Add(lease), d)
		require.ErrorContains(t, err, "lease")
		_, err = record.Complete(1, now, d)
		require.ErrorContains(t, err, "retention")
	}
	_, err := record.Fail(1, dedup.ClassTransient, now, time.Hour)
	require.ErrorContains(t, err, "not final")
}

func TestTransition_GenerationsKeepTheTokenGrowing(t *testing.T) {
	t.Parallel()
	record := begun(t)
	_, err := record.Renew(dedup.Fingerprint{}, now, lease)
	require.ErrorContains(t, err, "not terminal")
	failed, err := record.Fail(1, dedup.ClassPermanent, now, time.Hour)
	require.NoError(t, err)
	second, err := failed.Renew(dedup.Fingerprint{}, now, lease)
	require.NoError(t, err)
	require.Equal(t, 2, second.Generation)
	_, err = second.Complete(1, now, time.Hour)
	require.ErrorIs(t, err, dedup.ErrLeaseLost, "the first generation's owner")
}

// A token that was lost once never writes again, whatever happens in between.
func TestTransition_RandomWalksNeverReviveAToken(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		record, clock, owner := begun(t), now, int64(1)
		for range 20 {
			clock = clock.Add(time.Duration(random.Int64N(int64(2 * lease))))
			token := 1 + random.Int64N(record.LockVersion)
			var after dedup.Record
			var err error
			switch random.IntN(5) {
			case 0:
				after, err = record.Extend(token, clock, lease)
			case 1:
				after, err = record.Release(token, clock)
			case 2:
				after, err = record.Complete(token, clock, time.Hour)
			case 3:
				after, err = record.Reclaim(record.LockVersion, clock, lease)
				if err == nil {
					owner, token = after.LockVersion, after.LockVersion
				}
			case 4:
				if after, err = record.Renew(dedup.Fingerprint{}, clock, lease); err == nil {
					owner, token = after.LockVersion, after.LockVersion
				}
			}
			if err == nil {
				require.Equal(t, owner, token, "seed %d", seed)
				record = after
			}
			require.Equal(t, record.Status == dedup.Processing, !record.LockedUntil.IsZero(), "seed %d", seed)
			require.Equal(t, record.Status.Terminal(), !record.CompletedAt.IsZero(), "seed %d", seed)
		}
	}
}
