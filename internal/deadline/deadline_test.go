package deadline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/internal/deadline"
)

type key struct{}

var errOver = errors.New("over")

func TestWithin_EndsAfterTheTimeoutAndNotMuchLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := deadline.New(16*time.Second, errOver)
		for range 40 { // begins at all places of a grain
			began := time.Now()
			ctx := shared.Within(t.Context())
			time.Sleep(300 * time.Millisecond)
			go func() {
				<-ctx.Done()
				took := time.Since(began)
				if took < 16*time.Second || took > 17*time.Second {
					t.Errorf("ended after %v", took)
				}
				if !errors.Is(context.Cause(ctx), errOver) {
					t.Errorf("cause %v", context.Cause(ctx))
				}
			}()
		}
		time.Sleep(time.Minute)
	})
}

func TestWithin_HasTheParentsValuesAndNotItsEnd(t *testing.T) {
	t.Parallel()
	parent, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	ctx := deadline.New(time.Hour, nil).Within(parent)
	cancel()
	require.Equal(t, "value", ctx.Value(key{}))
	require.NoError(t, ctx.Err())
	child, end := context.WithCancel(ctx)
	end()
	require.ErrorIs(t, child.Err(), context.Canceled)
	require.NoError(t, ctx.Err())
}
