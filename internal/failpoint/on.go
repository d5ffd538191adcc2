//go:build failpoint

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// Enabled reports whether the build has failpoints.
const Enabled = true

var hits atomic.Int64

// Hit kills the process when point is the one named in ONCEBOX_FAILPOINT and this is the
// hit that was asked for.
func Hit(point string) {
	name, nth, _ := strings.Cut(os.Getenv("ONCEBOX_FAILPOINT"), ":")
	if name != point {
		return
	}
	wanted, err := strconv.ParseInt(nth, 10, 64)
	if err != nil {
		wanted = 1
	}
	if hits.Add(1) == wanted {
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		select {} // the signal arrives asynchronously; nothing may run after it
	}
}
