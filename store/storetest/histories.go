package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

// SeedVariable names the environment variable that repeats a random history.
const SeedVariable = "ONCEBOX_SEED"

// Histories runs random histories on the backend that open makes and compares them with
// the model. A failure prints the seed; set ONCEBOX_SEED to repeat it.
func Histories(t *testing.T, open func(t *testing.T) Backend) {
	seed := uint64(time.Now().UnixNano())
	if given, err := strconv.ParseUint(os.Getenv(SeedVariable), 10, 64); err == nil {
		seed = given
	}
	t.Run("one after another agrees with the model", func(t *testing.T) {
		t.Parallel()
		for round := range uint64(5) {
			h := newHistory(t, open(t), seed+round)
			for range 300 {
				h.step()
			}
			h.compare()
		}
	})
	t.Run("many at once have one effect each", func(t *testing.T) {
		t.Parallel()
		manyAtOnce(t, bench{Backend: open(t), t: t}, seed)
	})
}

// history is one random run: the backend, the model, and the units that are open.
type history struct {
	bench
	model  *model
	random *rand.Rand
	claims []store.Claim
	open   map[dedup.ClaimID]store.Unit
	writes int
}

func newHistory(t *testing.T, backend Backend, seed uint64) *history {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with %s=%d", SeedVariable, seed)
		}
	})
	h := &history{
		bench: bench{Backend: backend, t: t}, model: newModel(),
		random: rand.New(rand.NewPCG(seed, 1)), open: make(map[dedup.ClaimID]store.Unit),
	}
	now, err := backend.Inbox.Now(t.Context())
	require.NoError(t, err)
	for _, name := range []string{"billing", "shipping"} {
		for i := range 5 {
			key := dedup.Key{Scope: "tenant", ID: fmt.Sprint(i)}
			if i > 2 {
				key.At = now.Add(-time.Duration(i*i) * day)
			}
			h.claims = append(h.claims, claimFor(t, store.Consumer{Name: name, Retention: day}, key))
		}
	}
	return h
}

// step does one random operation on both and compares what they say.
func (h *history) step() {
	h.t.Helper()
	claim := h.claims[h.random.IntN(len(h.claims))]
	unit, ours := h.open[claim.ID]
	switch action := h.random.IntN(10); {
	case ours && action < 3:
		h.writes++
		value := fmt.Sprint("write ", h.writes)
		h.write(unit, value)
		h.model.write(claim.ID, value)
	case ours && action < 6:
		require.NoError(h.t, unit.Commit(h.t.Context()))
		h.model.commit(claim.ID)
		delete(h.open, claim.ID)
	case ours && action < 8:
		require.NoError(h.t, unit.Rollback(h.t.Context()))
		h.model.rollback(claim.ID)
		delete(h.open, claim.ID)
	case action < 8:
		h.begin(claim)
	default:
		class := dedup.ClassTransient
		if action == 9 && h.random.IntN(3) == 0 {
			class = dedup.ClassPermanent
		}
		h.fail(claim, class)
	}
}

func (h *history) begin(claim store.Claim) {
	h.t.Helper()
	wanted := h.model.begin(claim.ID)
	unit, held, err := h.Inbox.Begin(h.t.Context(), claim)
	require.NoError(h.t, err)
	if wanted == "" {
		require.Nil(h.t, held)
		h.open[claim.ID] = unit
		return
	}
	require.Nil(h.t, unit)
	require.Equal(h.t, wanted, held.Record.Status)
}

func (h *history) fail(claim store.Claim, class dedup.Class) {
	h.t.Helper()
	attempts, status, buried := h.model.fail(claim.ID, class)
	settled, err := h.Inbox.Fail(h.t.Context(), failure(claim, class))
	require.NoError(h.t, err)
	require.Equal(h.t, attempts, settled.Attempts)
	require.Equal(h.t, buried, settled.Buried)
	if status == "" {
		require.Nil(h.t, settled.Held)
		return
	}
	require.Equal(h.t, status, settled.Held.Record.Status)
}

// compare ends what is open and looks at everything.
func (h *history) compare() {
	h.t.Helper()
	for id, unit := range h.open {
		require.NoError(h.t, unit.Rollback(h.t.Context()))
		h.model.rollback(id)
	}
	h.written(h.model.written...)
	for _, claim := range h.claims {
		unit, held, err := h.Inbox.Begin(h.t.Context(), claim)
		require.NoError(h.t, err)
		var status dedup.Status
		if held != nil {
			status = held.Record.Status
		} else {
			require.NoError(h.t, unit.Rollback(h.t.Context()))
		}
		require.Equal(h.t, h.model.status[claim.ID], status)
	}
	buried := 0
	for _, name := range []string{"billing", "shipping"} {
		letters, err := h.Letters.Letters(h.t.Context(), name, 100)
		require.NoError(h.t, err)
		buried += len(letters)
	}
	require.Equal(h.t, h.model.buried, buried)
}

// manyAtOnce lets workers handle the same few keys with random failures until each key is
// finished, and then counts effects.
func manyAtOnce(t *testing.T, b bench, seed uint64) {
	const workers, keys = 12, 8
	claims := make([]store.Claim, keys)
	for i := range claims {
		claims[i] = claimOf(t, fmt.Sprint(i))
	}
	var team sync.WaitGroup
	for worker := range workers {
		team.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(worker)))
			for _, i := range random.Perm(keys) {
				if err := handleUntilDone(context.WithoutCancel(t.Context()), b, claims[i], random); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		})
	}
	team.Wait()
	var wanted []string
	for _, claim := range claims {
		if b.meet(claim).Record.Status == dedup.Completed {
			wanted = append(wanted, claim.ID.String())
		}
	}
	b.written(wanted...)
	require.Len(t, b.letters(), keys-len(wanted), "a key is either an effect or a dead letter")
}

func handleUntilDone(ctx context.Context, b bench, claim store.Claim, random *rand.Rand) error {
	for {
		unit, held, err := b.Inbox.Begin(ctx, claim)
		if err != nil {
			return err
		}
		if held != nil {
			if held.Record.Status.Terminal() {
				return nil
			}
			continue
		}
		if err := b.Write(unit.Context(ctx), claim.ID.String()); err != nil {
			return err
		}
		switch random.IntN(4) {
		case 0:
			if err := unit.Rollback(ctx); err != nil {
				return err
			}
		case 1:
			if err := unit.Rollback(ctx); err != nil {
				return err
			}
			if _, err := b.Inbox.Fail(ctx, failure(claim, dedup.ClassTransient)); err != nil {
				return err
			}
		default:
			if err := unit.Commit(ctx); err != nil {
				return err
			}
		}
	}
}
