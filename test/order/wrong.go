package main

import (
	"context"
	"sync"
	"time"
)

// The relays that are wrong.
const (
	byLastID = "last id"
	byXmin   = "transaction number below xmin"
)

// Queries of relays as they are often written. Each takes the position (xid, id) of the last
// message.
var wrongQueries = map[string]string{
	byLastID: `
SELECT xid::text, id, payload FROM %s.kept
WHERE id > $2 AND $1 <> ''
ORDER BY id LIMIT 500`,
	byXmin: `
SELECT xid::text, id, payload FROM %s.kept AS message
WHERE (xid, id) > ($1::text::xid8, $2) AND xid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY message.xid, message.id LIMIT 500`,
}

// keptTable has every message for them, written in the same transaction: the outbox itself is
// emptied while they read.
const keptTable = `
CREATE TABLE %[1]s.kept (xid xid8 NOT NULL, id bigint PRIMARY KEY, payload bytea NOT NULL);
CREATE INDEX ON %[1]s.kept (xid, id);
CREATE FUNCTION %[1]s.keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO %[1]s.kept VALUES (NEW.xid, NEW.id, NEW.payload);
  RETURN NEW;
END $$;
CREATE TRIGGER keep AFTER INSERT ON %[1]s.outbox FOR EACH ROW EXECUTE FUNCTION %[1]s.keep()`

// wrongRelays read the messages beside the real ones, and keep what they would have
// published.
type wrongRelays struct {
	stop    context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex // guards published
	written map[string][]message
}

func beginWrong(ctx context.Context, b *bed) *wrongRelays {
	ctx, stop := context.WithCancel(ctx)
	w := &wrongRelays{stop: stop, written: make(map[string][]message)}
	for name := range wrongQueries {
		w.running.Go(func() { w.read(ctx, b, name) })
	}
	return w
}

func (w *wrongRelays) read(ctx context.Context, b *bed, name string) {
	xid, id := "0", int64(0)
	for ctx.Err() == nil {
		rows, err := b.pool.Query(ctx, sprint(wrongQueries[name], b.name), xid, id)
		if err != nil {
			return
		}
		found := 0
		for rows.Next() {
			var payload []byte
			if rows.Scan(&xid, &id, &payload) != nil {
				break
			}
			one, err := parseMessage(payload)
			if err != nil {
				break
			}
			found++
			w.mu.Lock()
			w.written[name] = append(w.written[name], one)
			w.mu.Unlock()
		}
		rows.Close()
		if found == 0 {
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// end gives them time for what is left and judges them.
func (w *wrongRelays) end(written []int64) map[string]verdict {
	time.Sleep(time.Second)
	w.stop()
	w.running.Wait()
	verdicts := make(map[string]verdict)
	for name := range wrongQueries {
		verdicts[name] = judge(written, w.written[name])
	}
	return verdicts
}
