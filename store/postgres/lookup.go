package postgres

import (
	"context"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

// A run of duplicates, as after an offset reset, needs no transactions: that a claim is
// committed can be read, for many messages at once. So while most of a consumer's messages
// are duplicates they are looked up first, and the messages that come while one statement
// is under way share the next. What is not found is claimed as ever; a lookup decides
// nothing that the claim would not, and nothing is remembered in the process.

// lookUpClaims reads which of many claims are committed. Invariant: OFFSET makes the inner
// query a search for each id. A join could be planned to read the whole table.
const lookUpClaims = `
SELECT asked.claim_id, held.failed, held.fingerprint, held.at, held.now
FROM unnest($1::uuid[]) AS asked (claim_id)
CROSS JOIN LATERAL (held_claim OFFSET 0) AS held`

// maxLookup bounds the claims in one statement.
const maxLookup = 500

// lookUp returns the claim's record if it is committed and it is worth while to look; nil
// says that it has to be claimed. It fails to nil as well: the claim finds out why.
func (l *ledger) lookUp(ctx context.Context, claim store.Claim, consumer *registered) *store.Held {
	if claim.Consumer.Shadow || !consumer.duplicates.prevail() {
		return nil
	}
	table, sql := 0, l.sql.held.many
	if !claim.At.IsZero() {
		day := ringDay(claim.At)
		table, sql = 1+day, l.sql.ring[day].held.many
	}
	held := l.lookups[table].find(ctx, claim.ID, func(ids []dedup.ClaimID) map[dedup.ClaimID]store.Held {
		return l.readClaims(ctx, sql, ids)
	})
	if held != nil {
		consumer.duplicates.note(true)
	}
	return held
}

func (l *ledger) readClaims(ctx context.Context, sql string, ids []dedup.ClaimID) map[dedup.ClaimID]store.Held {
	found := make(map[dedup.ClaimID]store.Held, len(ids))
	err := l.source.query(ctx, func(s session) error {
		return s.rows(ctx, sql, []any{uuidArray(ids)}, func(scan func(...any) error) error {
			var id string
			var row heldRow
			if err := scan(append([]any{&id}, row.columns()...)...); err != nil {
				return err
			}
			held, err := row.held()
			if err != nil {
				return err
			}
			claimID, err := dedup.ParseClaimID(id)
			found[claimID] = *held
			return err
		})
	})
	if err != nil {
		return nil
	}
	return found
}

// uuidArray is an array in Postgres' text form, which every driver can send.
func uuidArray(ids []dedup.ClaimID) string {
	var array strings.Builder
	array.Grow(2 + 33*len(ids))
	array.WriteByte('{')
	for i, id := range ids {
		if i > 0 {
			array.WriteByte(',')
		}
		array.WriteString(hex.EncodeToString(id[:]))
	}
	array.WriteByte('}')
	return array.String()
}

// lookupsAtOnce is how many statements may be under way for one table. Fewer make larger
// groups, which spares a busy server; more make shorter waits, which counts when the
// network is slow. Two did best where it matters most, when the processor is busy.
const lookupsAtOnce = 2

// lookup gathers the claims that are asked for in one table while statements are under way.
type lookup struct {
	turn chan struct{} // holds a value for each statement under way

	mu   sync.Mutex
	next *lookupGroup // who comes now joins it; nil when there is none
}

// lookupGroup is the claims of one statement. Its first member runs it.
type lookupGroup struct {
	ids   []dedup.ClaimID
	done  chan struct{} // closed when found is set
	found map[dedup.ClaimID]store.Held
}

func newLookups() *[1 + ringDays]lookup {
	lookups := new([1 + ringDays]lookup)
	for table := range lookups {
		lookups[table].turn = make(chan struct{}, lookupsAtOnce)
	}
	return lookups
}

// find asks for one claim, together with all who ask meanwhile. It returns nil when the
// claim is not found or ctx ends.
func (k *lookup) find(ctx context.Context, id dedup.ClaimID, read func([]dedup.ClaimID) map[dedup.ClaimID]store.Held) *store.Held {
	group, first := k.join(id)
	if first {
		k.run(ctx, group, read)
	}
	select {
	case <-group.done:
	case <-ctx.Done():
		return nil
	}
	if held, found := group.found[id]; found {
		return &held
	}
	return nil
}

func (k *lookup) join(id dedup.ClaimID) (group *lookupGroup, first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.next == nil || len(k.next.ids) == maxLookup {
		k.next, first = &lookupGroup{done: make(chan struct{})}, true
	}
	k.next.ids = append(k.next.ids, id)
	return k.next, first
}

// run waits for its turn, closes the group to others and asks. When ctx ends before, all
// members go and claim.
func (k *lookup) run(ctx context.Context, group *lookupGroup, read func([]dedup.ClaimID) map[dedup.ClaimID]store.Held) {
	defer close(group.done)
	var mine bool
	select {
	case k.turn <- struct{}{}:
		mine = true
		defer func() { <-k.turn }()
	case <-ctx.Done():
	}
	k.mu.Lock()
	if k.next == group {
		k.next = nil
	}
	k.mu.Unlock()
	if mine {
		group.found = read(group.ids)
	}
}
