package storetest

import "github.com/oncebox/oncebox/dedup"

// model is a store in a few lines, to compare with.
type model struct {
	status   map[dedup.ClaimID]dedup.Status // missing: free
	pending  map[dedup.ClaimID][]string
	attempts map[dedup.ClaimID]int
	written  []string
	buried   int
}

func newModel() *model {
	return &model{
		status:   make(map[dedup.ClaimID]dedup.Status),
		pending:  make(map[dedup.ClaimID][]string),
		attempts: make(map[dedup.ClaimID]int),
	}
}

// begin returns the status of what is held, empty when the claim is taken now.
func (m *model) begin(id dedup.ClaimID) dedup.Status {
	held := m.status[id]
	if held == "" {
		m.status[id] = dedup.Processing
	}
	return held
}

func (m *model) write(id dedup.ClaimID, value string) { m.pending[id] = append(m.pending[id], value) }

func (m *model) commit(id dedup.ClaimID) {
	m.status[id] = dedup.Completed
	m.written = append(m.written, m.pending[id]...)
	delete(m.pending, id)
}

func (m *model) rollback(id dedup.ClaimID) {
	delete(m.status, id)
	delete(m.pending, id)
}

// fail counts, and buries a free claim at the last attempt of three.
func (m *model) fail(id dedup.ClaimID, class dedup.Class) (attempts int, held dedup.Status, buried bool) {
	m.attempts[id]++
	attempts = m.attempts[id]
	if !class.After(attempts, 3).Final() {
		return attempts, "", false
	}
	if held := m.status[id]; held != "" {
		return attempts, held, false
	}
	m.status[id] = dedup.Failed
	m.buried++
	return attempts, "", true
}
