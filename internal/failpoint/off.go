//go:build !failpoint

package failpoint

// Enabled reports whether the build has failpoints.
const Enabled = false

// Hit does nothing in this build.
func Hit(string) {}
