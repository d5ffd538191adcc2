package dedup_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
)

func TestVetName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"time", "timestamp", "ts", "now", "nonce", "attempt", "retryCount", "RetryCount", "x-death", "delivery_tag", "redelivered",
		"order.timestamp", "created.date", "sent-time", "traceparent", "numDelivered", "Nats-Delivery",
	} {
		require.Error(t, dedup.VetName(name), name)
	}
	for _, name := range []string{
		"order_id", "event_id", "timesheet_id", "nowhere", "tsar", "delivery_id", "value_date", "due_date", "attemptable", "daten", "statement",
	} {
		require.NoError(t, dedup.VetName(name), name)
	}
	require.ErrorContains(t, dedup.VetName("sent_time"), `"time"`)
}

func TestVetType(t *testing.T) {
	t.Parallel()
	type account int64
	type good struct {
		Account account
		Order   string
		ID      [16]byte
	}
	type withTime struct{ At time.Time }
	type withName struct{ Attempt int }
	for _, value := range []any{"", 0, uint8(0), true, [16]byte{}, account(0), good{}} {
		require.NoError(t, dedup.VetType(reflect.TypeOf(value)), "%T", value)
	}
	for _, value := range []any{
		nil, 1.5, time.Time{}, time.Second, new(string), []string{}, map[string]string{}, [2]string{}, struct{}{}, withTime{}, withName{}, struct{ hidden string }{},
	} {
		require.Error(t, dedup.VetType(reflect.TypeOf(value)), "%T", value)
	}
	require.ErrorContains(t, dedup.VetType(reflect.TypeOf(withTime{})), "field At")
	require.Equal(t, []string{"1:7", "1:x", "32:000000000000000000000000000000ff"},
		dedup.KeyParts(good{Account: 7, Order: "x", ID: [16]byte{15: 255}}))
}

// The retry at 15:01 must have the key of the try at 14:59: a clock may not get in.
func TestVet_RefusesAKeyThatChangesWithTheClock(t *testing.T) {
	t.Parallel()
	type key struct {
		Order string
		At    time.Time
	}
	require.ErrorContains(t, dedup.VetType(reflect.TypeOf(key{})), "must not vary with time")
}

func FuzzJoinParts(f *testing.F) {
	f.Add("a", "bc", "ab", "c")
	f.Add("1:a,", "", "1:a", ",")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		if a != c || b != d {
			require.NotEqual(t, dedup.JoinParts(a, b), dedup.JoinParts(c, d))
		}
		require.NotEqual(t, dedup.JoinParts(a, b), dedup.JoinParts(dedup.JoinParts(a, b)))
		require.NotEqual(t, dedup.JoinParts(a), dedup.JoinParts(a, b))
	})
}
