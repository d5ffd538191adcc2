package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/dedup"
)

// claimantVariable holds the schema for a process that claims.
const claimantVariable = "ONCEBOX_E2E_CLAIMANT"

const (
	claimantProcesses  = 4
	claimantGoroutines = 50
	contendedKeys      = 10
)

// claimEverything is one process: fifty goroutines that all claim the same keys, each
// until the key is taken.
func claimEverything(ctx context.Context, schema string) error {
	pool, err := pgxpool.New(ctx, os.Getenv("ONCEBOX_POSTGRES_DSN"))
	if err != nil {
		return err
	}
	defer pool.Close()
	billing, err := newBilling(pool, schema, nil)
	if err != nil {
		return err
	}
	failures := make([]error, claimantGoroutines)
	var claimants sync.WaitGroup
	for i := range claimantGoroutines {
		claimants.Go(func() {
			for key := range contendedKeys {
				failures[i] = errors.Join(failures[i], claimUntilTaken(ctx, billing, schema, fmt.Sprint("order-", key)))
			}
		})
	}
	claimants.Wait()
	return errors.Join(failures...)
}

func claimUntilTaken(ctx context.Context, billing *consumer.Consumer, schema, id string) error {
	for {
		_, err := billing.Do(ctx, dedup.Key{Scope: dedup.Global, ID: id}, func(ctx context.Context) error {
			return insert(ctx, schema, id)
		})
		if !errors.Is(err, consumer.ErrBusy) {
			return err
		}
	}
}

func TestOnce_FiftyGoroutinesInFourProcessesOneEffect(t *testing.T) {
	t.Parallel()
	bed := setup(t)
	claimants := make([]*exec.Cmd, claimantProcesses)
	for i := range claimants {
		claimants[i] = exec.CommandContext(t.Context(), os.Args[0])
		claimants[i].Env = append(os.Environ(), claimantVariable+"="+bed.db.Schema, "ONCEBOX_POSTGRES_DSN="+bed.db.DSN)
		claimants[i].Stderr = os.Stderr
		require.NoError(t, claimants[i].Start())
	}
	for _, claimant := range claimants {
		require.NoError(t, claimant.Wait())
	}
	var orders []string
	for key := range contendedKeys {
		orders = append(orders, fmt.Sprint("order-", key))
	}
	bed.onceEach(orders...)
	require.Equal(t, contendedKeys, bed.claims())
}

func TestOnce_DuplicatorHasOneEffect(t *testing.T) {
	t.Parallel()
	bed := setup(t)
	billing := bed.consumer(bed.db.Pool, nil)
	_, err := middleware.Duplicator(billing.Middleware(bed.write))(order("1"))
	require.NoError(t, err)
	bed.onceEach("1")
}
