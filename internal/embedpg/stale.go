package embedpg

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// folderPattern names the folders of private servers.
const folderPattern = "oncebox-pg-*"

// staleAfter is older than any server that is still being made.
const staleAfter = 2 * startTimeout

// removeStale removes the folders of servers whose process was killed before it could.
func removeStale() {
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPattern)) // the only error is a bad pattern
	for _, folder := range folders {
		made, err := os.Stat(folder)
		if err != nil || time.Since(made.ModTime()) < staleAfter || serverLives(folder) {
			continue
		}
		_ = os.RemoveAll(folder)
	}
}

func serverLives(folder string) bool {
	written, err := os.ReadFile(filepath.Join(folder, "data", "postmaster.pid"))
	if err != nil {
		return false
	}
	line, _, _ := bytes.Cut(written, []byte("\n"))
	pid, err := strconv.Atoi(string(line))
	return err == nil && syscall.Kill(pid, 0) != syscall.ESRCH
}
