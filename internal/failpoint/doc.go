// Package failpoint names the places where a crash test kills the process. Built without
// the tag "failpoint" every call is empty and vanishes in the compiler.
//
// With the tag, the environment variable ONCEBOX_FAILPOINT names one point, optionally
// with the number of the hit that kills (default 1): "committed" or "committed:3". The
// process then dies by SIGKILL, as on a power cut: nothing deferred runs.
package failpoint

// The points, in the order in which a message passes them.
const (
	// Claimed: the claim is taken, the handler has not run.
	Claimed = "claimed"
	// Written: the handler has written, and not yet returned. Test handlers hit it.
	Written = "written"
	// BeforeCommit: the guards have passed, COMMIT is not sent.
	BeforeCommit = "before_commit"
	// Committed: COMMIT has succeeded, the message is not acknowledged.
	Committed = "committed"
	// Failed: a failed run is recorded, the message is neither acked nor nacked.
	Failed = "failed"

	// RelayPage: a relay has read a page, nothing of it is sent.
	RelayPage = "relay_page"
	// RelayPublished: the sink has confirmed the page, nothing is saved.
	RelayPublished = "relay_published"
	// RelaySaving: the same, with the next window at hand.
	RelaySaving = "relay_saving"
	// RelayWindow: a new window is opened, nothing of it is read.
	RelayWindow = "relay_window"
	// RelayHandOver: the relay is to stop, and holds its buckets still.
	RelayHandOver = "relay_hand_over"
)
