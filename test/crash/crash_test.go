//go:build failpoint

package crash_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/internal/failpoint"
)

var points = []string{failpoint.Claimed, failpoint.Written, failpoint.BeforeCommit, failpoint.Committed}

// orders is how many orders each case has; every third is published twice.
const orders = 12

func TestCrash_EachOrderTakesEffectOnce(t *testing.T) {
	t.Parallel()
	for _, point := range points {
		for _, hit := range []int{1, 5} {
			t.Run(fmt.Sprintf("%s at message %d", point, hit), func(t *testing.T) {
				t.Parallel()
				bed := setup(t)
				for i := range orders {
					bed.publish(fmt.Sprint("order-", i), "")
					if i%3 == 0 {
						bed.publish(fmt.Sprint("order-", i), "")
					}
				}
				bed.killed(bed.start(fmt.Sprintf("%s:%d", point, hit)))
				bed.start("")
				bed.drained()

				effects := bed.effects()
				require.Len(t, effects, orders, "lost")
				for order, count := range effects {
					require.Equal(t, 1, count, "doubled: %s", order)
				}
				require.Empty(t, bed.letters())
			})
		}
	}
}

func TestCrash_WhatIsLeft(t *testing.T) {
	t.Parallel()
	for point, effects := range map[string]int{
		failpoint.Claimed:      0,
		failpoint.Written:      0,
		failpoint.BeforeCommit: 0,
		failpoint.Committed:    1,
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			bed := setup(t)
			bed.publish("order", "")
			bed.killed(bed.start(point))
			require.Equal(t, effects, bed.effects()["order"], "right after the kill")

			bed.start("")
			bed.drained()
			require.Equal(t, 1, bed.effects()["order"], "after the redelivery")
		})
	}
}

func TestCrash_FailuresSurvive(t *testing.T) {
	t.Parallel()
	t.Run("a permanent failure is buried once although every worker is killed after its write", func(t *testing.T) {
		t.Parallel()
		bed := setup(t)
		bed.publish("order", failsForGood)
		bed.killed(bed.start(failpoint.Written))
		bed.killed(bed.start(failpoint.Written))
		bed.start("")
		bed.drained()
		require.Empty(t, bed.effects())
		require.Equal(t, map[string]int{"permanent": 1}, bed.letters())
	})
	t.Run("a message buried before the kill is acked and buried no second time", func(t *testing.T) {
		t.Parallel()
		bed := setup(t)
		bed.publish("order", failsForGood)
		bed.killed(bed.start(failpoint.Failed))
		require.Equal(t, map[string]int{"permanent": 1}, bed.letters(), "right after the kill")
		bed.start("")
		bed.drained()
		require.Empty(t, bed.effects())
		require.Equal(t, map[string]int{"permanent": 1}, bed.letters())
	})
	t.Run("a transient failure counted before the kill stays counted", func(t *testing.T) {
		t.Parallel()
		bed := setup(t)
		bed.publish("order", failsFirst)
		bed.killed(bed.start(failpoint.Written + ":2"))
		bed.start("")
		bed.drained()
		require.Equal(t, 1, bed.effects()["order"])
		attempts := bed.db.Counts(t, `SELECT class, attempts::int FROM %s`, "inbox_attempt")
		require.Equal(t, map[string]int{"transient": 1}, attempts, "the killed run is not an attempt")
	})
}
