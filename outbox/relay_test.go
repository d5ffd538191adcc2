package outbox_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/outbox"
	"github.com/oncebox/oncebox/store"
)

func TestRelay_PublishesWhatIsCommittedAndNothingElse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(text("a", "1"), text("", "2"))
	errRollback := errors.New("no")
	err := pgx.BeginFunc(t.Context(), b.db.Pool, func(tx pgx.Tx) error {
		require.NoError(t, outbox.Append(t.Context(), b.st.Tx(tx), text("a", "rolled back")))
		return errRollback
	})
	require.ErrorIs(t, err, errRollback)
	b.run(nil)
	b.published("1", "2")
	b.append(text("a", "3"))
	b.published("1", "2", "3")
	require.Equal(t, []string{"1", "3"}, b.sink.payloadsOf("a"))
}

func TestRelay_FourShareTheBucketsAndHandThemOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var stops []func()
	for range 4 {
		stops = append(stops, b.run(nil))
	}
	b.eventually(func() bool { return b.owners() == "4 4 4 4" }, b.owners)
	stops[0]()
	b.eventually(func() bool { return b.owners() == "6 5 5" || b.owners() == "5 5 6" || b.owners() == "5 6 5" }, b.owners)
	for i := range 50 {
		b.append(text(fmt.Sprint("key-", i), fmt.Sprint(i)))
	}
	b.eventually(func() bool { return len(b.sink.messages()) == 50 }, func() string { return fmt.Sprint(len(b.sink.messages())) })
}

// owners are how many buckets each relay holds.
func (b *bed) owners() string {
	counts := b.db.Counts(b.t, `SELECT coalesce(owner::text, 'nobody'), count(*)::int FROM %s GROUP BY 1 ORDER BY 1`, "outbox_bucket")
	var all []string
	for _, n := range counts {
		all = append(all, fmt.Sprint(n))
	}
	text := ""
	for i, one := range all {
		if i > 0 {
			text += " "
		}
		text += one
	}
	return text
}

func TestRelay_AFailedMessageHoldsItsKeyUpAndNoOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sink.failWith(func(one store.Outgoing) error {
		if string(one.Payload) == "bad" {
			return errors.New("the broker does not like it")
		}
		return nil
	})
	b.append(text("a", "bad"), text("a", "after bad"), text("b", "other"))
	b.run(nil)
	b.published("other")
	b.append(text("a", "later"))
	b.eventually(func() bool { return b.parked()["waiting"] == 3 }, func() string { return fmt.Sprint(b.parked()) })
	require.Empty(t, b.sink.payloadsOf("a"))

	b.sink.failWith(nil)
	b.published("other", "bad", "after bad", "later")
	require.Equal(t, []string{"bad", "after bad", "later"}, b.sink.payloadsOf("a"))
	b.eventually(func() bool { return len(b.parked()) == 0 }, func() string { return fmt.Sprint(b.parked()) })
	b.append(text("a", "last"))
	b.published("other", "bad", "after bad", "later", "last")
}

// parked counts parked messages: waiting, dead and released.
func (b *bed) parked() map[string]int {
	return b.db.Counts(b.t, `SELECT CASE WHEN released THEN 'released' WHEN dead_at IS NULL THEN 'waiting' ELSE 'dead' END, count(*)::int FROM %s GROUP BY 1`, "outbox_parked")
}

func TestRelay_DeadMessages(t *testing.T) {
	t.Parallel()
	refuse := func(one store.Outgoing) error {
		if string(one.Payload) == "bad" {
			return errors.New("no")
		}
		return nil
	}
	for policy, after := range map[outbox.DeadPolicy][]string{
		outbox.HoldKey:     nil,
		outbox.ContinueKey: {"after bad", "later"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.sink.failWith(refuse)
			b.append(text("a", "bad"), text("a", "after bad"), text("b", "other"))
			b.run(func(c *outbox.RelayConfig) { c.MaxAttempts, c.OnDead = 3, policy })
			dead := map[outbox.DeadPolicy]string{outbox.HoldKey: "dead", outbox.ContinueKey: "released"}[policy]
			b.eventually(func() bool { return b.parked()[dead] == 1 }, func() string { return fmt.Sprint(b.parked()) })
			b.append(text("a", "later"), text("b", "other 2"))
			b.published(append(after, "other", "other 2")...)
			require.Equal(t, after, b.sink.payloadsOf("a"))
		})
	}
	t.Run("a permanent failure is not tried again", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.sink.failWith(func(store.Outgoing) error { return dedup.Permanent(errors.New("no")) })
		b.append(text("a", "bad"))
		b.run(nil)
		b.eventually(func() bool { return b.parked()["dead"] == 1 }, func() string { return fmt.Sprint(b.parked()) })
	})
}

func TestRelay_AnOutageBurnsNoAttempts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sink.failWith(func(store.Outgoing) error { return fmt.Errorf("%w: gone", outbox.ErrOutage) })
	for i := range 40 {
		b.append(text(fmt.Sprint("key-", i%8), fmt.Sprint(i)))
	}
	b.run(func(c *outbox.RelayConfig) { c.MaxAttempts = 2 })
	time.Sleep(500 * time.Millisecond)
	require.Empty(t, b.parked())
	b.sink.failWith(nil)
	b.eventually(func() bool { return len(b.sink.messages()) == 40 }, func() string { return fmt.Sprint(b.sink.payloads()) })
	require.Empty(t, b.parked())
}

func TestRelay_DelayedMessagesComeWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	late := text("a", "late")
	late.Delay = 300 * time.Millisecond
	b.append(late, text("a", "now"))
	b.run(nil)
	b.published("now")
	b.published("now", "late")
}
