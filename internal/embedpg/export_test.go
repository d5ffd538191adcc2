package embedpg

import "testing"

// HideInstalled makes servers installed on this machine invisible during the test.
func HideInstalled(t *testing.T) {
	before := installed
	installed = nil
	t.Cleanup(func() { installed = before })
}
