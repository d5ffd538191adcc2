package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
	"github.com/oncebox/oncebox/store/memory"
)

var errTax = errors.New("the tax service does not answer")

func TestMiddleware_DuplicateIsAckedAndNotRun(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.acked(order("1"), bill)
	b.acked(order("1"), func(*message.Message) ([]*message.Message, error) {
		t.Error("the handler ran again")
		return nil, nil
	})
	b.effects("1")
	require.Equal(t, []consumer.EventKind{consumer.EventClaimed, consumer.EventDuplicate}, b.outcomes())
}

func TestMiddleware_FailedHandlerLeavesNoClaim(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	require.ErrorIs(t, b.nacked(order("1"), failing(errTax)), errTax)
	b.effects()
	b.acked(order("1"), bill)
	b.effects("1")
	require.Empty(t, b.letters())
}

func TestMiddleware_LastAttemptBuriesAndAcks(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.nacked(order("1"), failing(errTax))
	b.nacked(order("1"), failing(errTax))
	b.acked(order("1"), failing(errTax))
	letter := b.dead(dedup.ClassExhausted)
	require.Equal(t, 3, letter.Attempts)
	require.Equal(t, "m-1", letter.MessageID)
	require.Equal(t, "1", letter.Metadata["order_id"])
	require.Contains(t, string(letter.Payload), "cents")
	require.Contains(t, letter.Reason, errTax.Error())

	b.acked(order("1"), bill) // a redelivery of the buried message
	b.effects()
	require.Equal(t, 2, b.dead(dedup.ClassExhausted).Seen, "it is counted, not stored again")
}

func TestMiddleware_PermanentFailureBuriesAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.acked(order("1"), failing(fmt.Errorf("bill: %w", dedup.Permanent(errTax))))
	b.effects()
	b.dead(dedup.ClassPermanent)
	require.Equal(t, []consumer.EventKind{consumer.EventDead}, b.outcomes())
}

func TestMiddleware_OtherFingerprintIsQuarantined(t *testing.T) {
	t.Parallel()
	prints, err := consumer.JSONFingerprint(dedup.Schema{Action: "bill", Fields: []dedup.Field{{Name: "cents"}}})
	require.NoError(t, err)
	b := setup(t, func(config *consumer.Config) { config.Fingerprint = prints })
	b.acked(order("1"), bill)
	changed := order("1")
	changed.Payload = []byte(`{"cents": 99}`)
	for range 2 {
		b.acked(changed, bill)
	}
	kept, _ := b.memory.Value("1")
	require.Contains(t, kept, `"cents": 10`, "the first stands")
	require.Equal(t, 2, b.dead(dedup.ClassKeyReused).Seen)
	b.acked(order("1"), bill)
}

func TestMiddleware_UnusableKeyIsQuarantinedWithoutAClaim(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{"empty": "", "control character": "secret\n", "space": " secret", "invalid UTF-8": "secret\xff"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, nil)
			b.acked(order(id), bill)
			b.effects()
			letter := b.dead(dedup.ClassInvalidKey)
			require.True(t, letter.ClaimID.IsZero())
			require.Contains(t, letter.Reason, "ID: ")
			require.NotContains(t, letter.Reason, "secret")
			require.Zero(t, b.faulty.begun, "no claim was asked for")
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		b := setup(t, nil)
		msg := order("1")
		delete(msg.Metadata, "order_id")
		b.acked(msg, bill)
		require.Contains(t, b.dead(dedup.ClassInvalidKey).Reason, `metadata "order_id": message has no key`)
	})
	t.Run("unreadable fingerprint", func(t *testing.T) {
		t.Parallel()
		prints, err := consumer.JSONFingerprint(dedup.Schema{Action: "bill", Fields: []dedup.Field{{Name: "cents"}}})
		require.NoError(t, err)
		b := setup(t, func(config *consumer.Config) { config.Fingerprint = prints })
		msg := order("1")
		msg.Payload = []byte(`secret`)
		b.acked(msg, bill)
		require.Contains(t, b.dead(dedup.ClassInvalidKey).Reason, "fingerprint: ")
		require.Zero(t, b.faulty.begun)
	})
}

func TestMiddleware_ConsumersOfOneMessageEachHaveTheirClaim(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	shipping, err := consumer.New(b.memory, consumer.Config{Name: "shipping", Key: consumer.Metadata("order_id")})
	require.NoError(t, err)
	b.acked(order("1"), bill)
	_, err = shipping.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		tx, err := memory.TxFrom(msg.Context())
		require.NoError(t, err)
		return nil, tx.Put("shipped", "")
	})(order("1"))
	require.NoError(t, err)
	b.effects("1", "shipped")
}

func TestMiddleware_CanceledIsNeitherSuccessNorDead(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for range 5 {
		b.nacked(order("1"), failing(context.Canceled))
	}
	b.effects()
	require.Empty(t, b.letters())
	b.acked(order("1"), bill)
}

func TestMiddleware_DatabaseFailuresAreRetriedAfreshAndNotCounted(t *testing.T) {
	t.Parallel()
	b := setup(t, func(config *consumer.Config) { config.StoreRetries = 2; config.MaxAttempts = 1 })
	runs := 0
	b.acked(order("1"), func(msg *message.Message) ([]*message.Message, error) {
		if runs++; runs < 3 {
			return nil, fmt.Errorf("insert: %w", store.ErrUnavailable)
		}
		return bill(msg)
	})
	require.Equal(t, 3, runs)
	b.effects("1")

	b.nacked(order("2"), failing(store.ErrUnavailable))
	require.Empty(t, b.letters(), "not even at the last attempt")
	require.Equal(t, []consumer.EventKind{consumer.EventClaimed, consumer.EventUnavailable}, b.outcomes())
}

func TestMiddleware_LostCommitAnswerIsFoundOutByTheNextClaim(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.faulty.commits = []error{store.ErrUnknownOutcome}
	runs := 0
	b.acked(order("1"), func(msg *message.Message) ([]*message.Message, error) {
		runs++
		return bill(msg)
	})
	require.Equal(t, 1, runs)
	require.Equal(t, []consumer.EventKind{consumer.EventDuplicate}, b.outcomes())
}

func TestMiddleware_NothingIsAckedWhenItCantBeStored(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.faulty.failures = []error{store.ErrUnavailable}
	b.nacked(order("1"), failing(dedup.Permanent(errTax)))
	b.faulty.quarantines = []error{store.ErrUnavailable}
	b.nacked(order(""), bill)
	require.Empty(t, b.letters())
	b.acked(order("1"), failing(dedup.Permanent(errTax)))
	b.acked(order(""), bill)
	require.Len(t, b.letters(), 2)
}

func TestMiddleware_PanicRollsBackAndGoesOn(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	require.PanicsWithValue(t, "boom", func() {
		_, _ = b.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			_, _ = bill(msg)
			panic("boom")
		})(order("1"))
	})
	b.effects()
	b.acked(order("1"), bill)
	require.Equal(t, []consumer.EventKind{consumer.EventFailed, consumer.EventClaimed}, b.outcomes())
}

func TestMiddleware_PanickingHookTouchesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, func(config *consumer.Config) {
		config.OnEvent = func(context.Context, consumer.Event) { panic("metrics") }
	})
	b.acked(order("1"), bill)
	b.effects("1")
}
