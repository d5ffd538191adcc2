package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
)

func action() dedup.Action {
	return dedup.Action{Name: "billing", Retention: time.Hour, HandlerTimeout: time.Second, MaxAttempts: 3}
}

func leased(change func(*dedup.LeasePolicy)) func(*dedup.Action) {
	return func(a *dedup.Action) {
		a.Leased = &dedup.LeasePolicy{Length: time.Minute, Recovery: dedup.Manual}
		change(a.Leased)
	}
}

func TestAction_EachWrongFieldIsNamed(t *testing.T) {
	t.Parallel()
	require.NoError(t, action().Validate())
	for field, change := range map[string]func(*dedup.Action){
		"Name: is empty":      func(a *dedup.Action) { a.Name = "" },
		"Name: has 129 bytes": func(a *dedup.Action) { a.Name = strings.Repeat("x", 129) },
		"Mode":                func(a *dedup.Action) { a.Mode = "perhaps" },
		"Retention: 0s":       func(a *dedup.Action) { a.Retention = 0 },
		"Retention: -1s":      func(a *dedup.Action) { a.Retention = -time.Second },
		"Horizon: -1s":        func(a *dedup.Action) { a.Horizon = -time.Second },
		"Retention: 1h0m0s does not exceed Horizon 1h0m0s": func(a *dedup.Action) { a.Horizon = time.Hour },
		"HandlerTimeout":           func(a *dedup.Action) { a.HandlerTimeout = 0 },
		"MaxAttempts":              func(a *dedup.Action) { a.MaxAttempts = 0 },
		"Expired":                  func(a *dedup.Action) { a.Expired = "perhaps" },
		"Leased.Length: 0s":        leased(func(l *dedup.LeasePolicy) { l.Length = 0 }),
		"Leased.Length: 1s":        leased(func(l *dedup.LeasePolicy) { l.Length = time.Second }),
		"Leased.Recovery: missing": leased(func(l *dedup.LeasePolicy) { l.Recovery = "" }),
		"Leased.Recovery: unknown": leased(func(l *dedup.LeasePolicy) { l.Recovery = "just retry" }),
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			wrong := action()
			change(&wrong)
			require.ErrorContains(t, wrong.Validate(), field)
		})
	}
	short := action()
	leased(func(l *dedup.LeasePolicy) { l.Length, l.Heartbeat = time.Second, true })(&short)
	require.NoError(t, short.Validate(), "a heartbeat keeps a short lease alive")
}

func TestClass_OfErrors(t *testing.T) {
	t.Parallel()
	plain := errors.New("no")
	require.Equal(t, dedup.ClassTransient, dedup.ClassOf(plain))
	require.Equal(t, dedup.ClassPermanent, dedup.ClassOf(fmt.Errorf("bill: %w", dedup.Permanent(plain))))
	require.Equal(t, dedup.ClassTransient, dedup.ClassOf(dedup.RetryAfter(plain, time.Second)))
	require.Equal(t, dedup.ClassCanceled, dedup.ClassOf(fmt.Errorf("bill: %w", context.Canceled)))
	require.Equal(t, dedup.ClassPermanent, dedup.ClassOf(dedup.Permanent(context.Canceled)))
	require.NoError(t, dedup.Permanent(nil))
	require.NoError(t, dedup.RetryAfter(nil, time.Second))
	require.ErrorIs(t, dedup.Permanent(plain), plain)
	require.Equal(t, time.Second, dedup.DelayOf(fmt.Errorf("bill: %w", dedup.RetryAfter(plain, time.Second))))
	require.Zero(t, dedup.DelayOf(dedup.RetryAfter(plain, -time.Second)))
	require.Zero(t, dedup.DelayOf(plain))
}

func TestClass_LastAttemptIsExhausted(t *testing.T) {
	t.Parallel()
	require.Equal(t, dedup.ClassTransient, dedup.ClassTransient.After(2, 3))
	require.Equal(t, dedup.ClassExhausted, dedup.ClassTransient.After(3, 3))
	require.Equal(t, dedup.ClassPermanent, dedup.ClassPermanent.After(1, 3))
	for _, class := range []dedup.Class{dedup.ClassInfrastructure, dedup.ClassCanceled} {
		require.False(t, class.Counted())
		require.False(t, class.Final())
	}
}
