package outbox

import (
	"sync"

	"github.com/oncebox/oncebox/store"
)

// PublishChains is for sinks: it calls send for each message, of different ordering keys up
// to inFlight at once, of one key one after another. After a failure the rest of the key
// gets [ErrNotTried]. It returns when all calls have.
func PublishChains(messages []store.Outgoing, inFlight int, send func(store.Outgoing) error) []error {
	results := make([]error, len(messages))
	room := make(chan struct{}, inFlight)
	var running sync.WaitGroup
	for _, chain := range chains(messages) {
		room <- struct{}{}
		running.Go(func() {
			defer func() { <-room }()
			for at, i := range chain {
				if results[i] = send(messages[i]); results[i] != nil {
					for _, later := range chain[at+1:] {
						results[later] = ErrNotTried
					}
					return
				}
			}
		})
	}
	running.Wait()
	return results
}

// chains are the places of the messages, those of one key together and in order.
func chains(messages []store.Outgoing) (all [][]int) {
	byKey := make(map[string]int)
	for i, one := range messages {
		at, known := byKey[one.Key]
		if one.Key == "" || !known {
			at = len(all)
			all = append(all, nil)
			byKey[one.Key] = at
		}
		all[at] = append(all[at], i)
	}
	return all
}
