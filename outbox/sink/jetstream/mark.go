package jetstream

import (
	"encoding/json"
	"maps"
	"time"
)

// mark is what a bucket's cursor knows of the streams.
type mark struct {
	// Streams has for each stream a sequence: whatever the bucket has published to it and not
	// saved comes later.
	Streams map[string]uint64 `json:"streams"`
	// Since is a time after which that holds for streams that are not named; zero when it is
	// when the cursor was saved. Unix seconds.
	Since int64 `json:"since,omitempty"`
}

func parseMark(text string) (m mark) {
	if json.Unmarshal([]byte(text), &m) != nil {
		return mark{} // another sink's
	}
	return m
}

// note records that a message was stored.
func (s *Sink) note(stream string, sequence uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest[stream] = max(s.latest[stream], sequence)
}

// Mark is what the bucket's cursor is saved with: all that the bucket has published is
// confirmed when it is asked for, so what follows has higher sequences than any that this
// process was given; see [outbox.Resumer].
func (s *Sink) Mark(bucket int, passed bool) (text string, settled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := mark{Streams: maps.Clone(s.latest)}
	if from := s.taken[bucket]; from != nil && !passed {
		if !from.settled() {
			return "", false
		}
		m.Since = from.since().Unix()
	}
	encoded, _ := json.Marshal(m) // can't fail
	return string(encoded), true
}

// since is a time after which the former owner's unsaved messages were published.
func (t *takeover) since() time.Time {
	if t.mark.Since > 0 {
		return time.Unix(t.mark.Since, 0)
	}
	return t.at.Add(-t.SavedAgo)
}
