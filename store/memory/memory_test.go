package memory_test

import (
	"context"
	"testing"

	"github.com/oncebox/oncebox/store/memory"
	"github.com/oncebox/oncebox/store/storetest"
)

func TestStore_KeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) storetest.Backend {
		st := memory.New()
		return storetest.Backend{
			Inbox: st, Letters: st, Outbox: st, Operator: st,
			Write: func(ctx context.Context, value string) error {
				tx, err := memory.TxFrom(ctx)
				if err != nil {
					return err
				}
				return tx.Put(value, "")
			},
			Read: func(context.Context) ([]string, error) { return st.Keys(), nil },
			Abort: func(ctx context.Context) error {
				tx, err := memory.TxFrom(ctx)
				if err != nil {
					return err
				}
				return tx.Abort()
			},
		}
	})
}
