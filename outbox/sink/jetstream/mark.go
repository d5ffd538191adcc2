package jetstream

import "encoding/json"

// mark is by stream a sequence up to which a bucket's cursor knows what it has published.
type mark map[string]uint64

// note records that a message was stored.
func (s *Sink) note(stream string, sequence uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest[stream] = max(s.latest[stream], sequence)
}

// Mark is what the bucket's cursor is saved with: all that the bucket has published is
// confirmed when it is asked for, so none of it comes after the highest sequence that this
// process has seen; see [outbox.Resumer].
func (s *Sink) Mark(int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.latest) == 0 {
		return ""
	}
	encoded, _ := json.Marshal(s.latest) // can't fail
	return string(encoded)
}

func parseMark(text string) mark {
	found := make(mark)
	if json.Unmarshal([]byte(text), &found) != nil {
		return make(mark) // another sink's
	}
	return found
}
