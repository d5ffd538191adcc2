package jetstream

import "encoding/json"

// mark has for each stream a sequence: whatever the bucket has published to it and not saved
// comes later.
type mark map[string]uint64

func parseMark(text string) mark {
	m := make(mark)
	if json.Unmarshal([]byte(text), &m) != nil {
		return make(mark) // another sink's
	}
	return m
}

// note records that a message was stored.
func (s *Sink) note(stream string, sequence uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest[stream] = max(s.latest[stream], sequence)
}

// Mark is what a bucket's cursor is saved with: nothing of it is under way, so what follows
// has higher sequences than any that this process was given; see [outbox.Resumer].
func (s *Sink) Mark(int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	encoded, _ := json.Marshal(s.latest) // can't fail
	return string(encoded)
}
