package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oncebox/oncebox/dedup"
	"github.com/oncebox/oncebox/store"
)

// storeLetter stores a letter once and counts it after that.
const storeLetter = `
INSERT INTO oncebox.dead_letter AS letter
  (id, claim_id, consumer, class, reason, attempts, topic, message_id, metadata, payload)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT ON CONSTRAINT dead_letter_once
DO UPDATE SET seen = letter.seen + 1, last_at = clock_timestamp()`

// Quarantine stores a dead letter without a claim; see [store.Inbox].
func (l *ledger) Quarantine(ctx context.Context, letter store.DeadLetter) error {
	if !letter.Class.Final() {
		return fmt.Errorf("quarantine: Class: %q does not end a message's way", letter.Class)
	}
	consumer, err := l.register(ctx, letter.Consumer)
	if err != nil {
		return err
	}
	err = l.source.transaction(ctx, func(s session) error { return l.storeLetterIn(ctx, s, letter, consumer.id) })
	return unavailable("quarantine", err)
}

func (l *ledger) storeLetterIn(ctx context.Context, s session, letter store.DeadLetter, consumer int16) error {
	metadata, err := encodeMetadata(letter.Metadata)
	if err != nil {
		return fmt.Errorf("store dead letter: encode metadata: %w", err)
	}
	payload := letter.Payload
	if payload == nil {
		payload = []byte{}
	}
	_, err = s.exec(ctx, l.sql.storeLetter, []any{
		uuidOf(letter.ID()),
		pgtype.UUID{Bytes: letter.ClaimID, Valid: !letter.ClaimID.IsZero()},
		consumer, string(letter.Class), encodeText(cut(letter.Reason, store.MaxReasonBytes)), letter.Attempts,
		encodeText(letter.Topic), encodeText(letter.MessageID), metadata, payload,
	})
	if err != nil {
		return fmt.Errorf("store dead letter: %w", err)
	}
	return nil
}

// maxLetters bounds what one call reads: letters hold whole messages.
const maxLetters = 1000

const listLetters = `
SELECT letter.id, letter.claim_id, letter.class, letter.reason, letter.attempts, letter.topic,
       letter.message_id, letter.metadata::text, letter.payload, letter.seen, letter.first_at, letter.last_at,
       consumer.name, consumer.shadow
FROM oncebox.dead_letter AS letter
JOIN oncebox.consumer ON consumer.id = letter.consumer
WHERE consumer.name = $1
ORDER BY letter.last_at DESC, letter.id
LIMIT $2`

// Letters returns dead letters, newest first; see [store.DeadLetters].
func (l *ledger) Letters(ctx context.Context, consumer string, limit int) ([]store.StoredLetter, error) {
	if limit < 1 || limit > maxLetters {
		return nil, fmt.Errorf("list dead letters: limit: %d is not from 1 to %d", limit, maxLetters)
	}
	var letters []store.StoredLetter
	err := l.source.query(ctx, func(s session) error {
		return s.rows(ctx, l.sql.listLetters, []any{consumer, limit}, func(scan func(...any) error) error {
			letter, err := scanLetter(scan)
			letters = append(letters, letter)
			return err
		})
	})
	return letters, unavailable("list dead letters", err)
}

func scanLetter(scan func(...any) error) (letter store.StoredLetter, err error) {
	var id, claimID pgtype.UUID
	var class, metadata string
	err = scan(&id, &claimID, &class, &letter.Reason, &letter.Attempts, &letter.Topic, &letter.MessageID,
		&metadata, &letter.Payload, &letter.Seen, &letter.FirstAt, &letter.LastAt,
		&letter.Consumer.Name, &letter.Consumer.Shadow)
	if err != nil {
		return letter, err
	}
	letter.ID, letter.ClaimID, letter.Class = id.Bytes, claimID.Bytes, dedup.Class(class)
	var texts [3]error
	letter.Reason, texts[0] = decodeText(letter.Reason)
	letter.Topic, texts[1] = decodeText(letter.Topic)
	letter.MessageID, texts[2] = decodeText(letter.MessageID)
	letter.Metadata, err = decodeMetadata([]byte(metadata))
	return letter, errors.Join(append(texts[:], err)...)
}
