package pgtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/internal/pgtest"
)

func TestOpen_UnqualifiedNamesFail(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	_, err := db.Pool.Exec(t.Context(), `CREATE TABLE `+db.Schema+`.present ()`)
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `SELECT FROM present`)
	require.Error(t, err)
	_, err = db.Pool.Exec(t.Context(), `SELECT FROM `+db.Schema+`.present`)
	require.NoError(t, err)
}

func TestOpen_TestsDoNotShareASchema(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, pgtest.Open(t).Schema, pgtest.Open(t).Schema)
}
