package store

import "github.com/oncebox/oncebox/dedup"

// MessageIDs gives the messages of one unit of work their ids. Backends share it, so that
// all of them derive the same.
type MessageIDs struct {
	// Claim is the unit's claim.
	Claim dedup.ClaimID

	// Repeats says that a message may come again because a savepoint took the first one back,
	// so that nothing is left out: twice is better than never.
	Repeats bool

	derived int
	topics  map[string]string // by id: its first topic
}

// Assign returns the messages that are new in the unit, with their ids; see
// [Appender.Append].
func (m *MessageIDs) Assign(messages []Message) (added []Message) {
	if m.topics == nil {
		m.topics = make(map[string]string, len(messages))
	}
	for _, one := range messages {
		if one.ID == "" {
			one.ID = dedup.NewMessageID(m.Claim, m.derived)
			m.derived++
		}
		if first, known := m.topics[one.ID]; known && first != one.Topic {
			one.ID = dedup.CopyMessageID(one.ID, one.Topic)
		}
		if _, known := m.topics[one.ID]; known && !m.Repeats {
			continue
		}
		m.topics[one.ID] = one.Topic
		added = append(added, one)
	}
	return added
}
