package dedup_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func fingerprint(t testing.TB, amount string) dedup.Fingerprint {
	t.Helper()
	made, err := dedup.Schema{Action: "charge", Fields: []dedup.Field{{Name: "amount"}}}.FromJSON([]byte(`{"amount": ` + amount + `}`))
	require.NoError(t, err)
	return made
}

func TestDecide(t *testing.T) {
	t.Parallel()
	mine, other, none := fingerprint(t, "10"), fingerprint(t, "99"), dedup.Fingerprint{}
	processing := func(left time.Duration) dedup.Record {
		return dedup.Record{Status: dedup.Processing, Fingerprint: mine, LockedUntil: now.Add(left)}
	}
	finished := func(status dedup.Status, left time.Duration) dedup.Record {
		return dedup.Record{Status: status, Fingerprint: mine, ExpiresAt: now.Add(left)}
	}
	kept := dedup.Record{Status: dedup.Completed, Fingerprint: mine}
	unprinted := dedup.Record{Status: dedup.Completed}

	for name, c := range map[string]struct {
		held dedup.Record
		fp   dedup.Fingerprint
		want dedup.Verdict
	}{
		"Completed":                        {finished(dedup.Completed, time.Hour), mine, dedup.Replay},
		"CompletedWithoutExpiry":           {kept, mine, dedup.Replay},
		"CompletedDeliveryWithoutPrint":    {kept, none, dedup.Replay},
		"CompletedRecordWithoutPrint":      {unprinted, mine, dedup.Replay},
		"CompletedExpiresInAMoment":        {finished(dedup.Completed, time.Nanosecond), mine, dedup.Replay},
		"CompletedJustExpired":             {finished(dedup.Completed, 0), mine, dedup.Expired},
		"CompletedLongExpired":             {finished(dedup.Completed, -time.Hour), mine, dedup.Expired},
		"CompletedOtherPrint":              {finished(dedup.Completed, time.Hour), other, dedup.KeyReused},
		"CompletedExpiredOtherPrint":       {finished(dedup.Completed, -time.Hour), other, dedup.KeyReused},
		"Failed":                           {finished(dedup.Failed, time.Hour), mine, dedup.FailedBefore},
		"FailedExpired":                    {finished(dedup.Failed, 0), mine, dedup.Expired},
		"FailedOtherPrint":                 {finished(dedup.Failed, time.Hour), other, dedup.KeyReused},
		"LeaseRunning":                     {processing(time.Nanosecond), mine, dedup.Busy},
		"LeaseRunningOtherPrint":           {processing(time.Hour), other, dedup.KeyReused},
		"LeaseJustOver":                    {processing(0), mine, dedup.Recover},
		"LeaseOverOtherPrint":              {processing(-time.Hour), other, dedup.KeyReused},
		"LeaseOverIsNotExpiredByAge":       {dedup.Record{Status: dedup.Processing, LockedUntil: now.Add(-time.Hour), ExpiresAt: now.Add(-time.Hour)}, none, dedup.Recover},
		"InFlight":                         {dedup.InFlight(), mine, dedup.Busy},
		"InFlightWhenTheStoreTellsNoClock": {dedup.InFlight(), none, dedup.Busy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, dedup.Decide(c.held, c.fp, now))
		})
	}
}
