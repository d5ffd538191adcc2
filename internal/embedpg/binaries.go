package embedpg

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// findBinaries returns a folder that holds both initdb and postgres.
func findBinaries() (string, error) {
	var tried []string
	for _, dir := range candidates() {
		if holdsServer(dir) {
			return dir, nil
		}
		tried = append(tried, dir)
	}
	if len(tried) == 0 {
		return "", errors.New("no initdb and postgres in POSTGRES_BIN, PATH, or where packages put them")
	}
	return "", fmt.Errorf("no initdb and postgres in %s", strings.Join(tried, ", "))
}

// installed is where packages put servers: Debian, Red Hat, Homebrew.
var installed = []string{
	"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin",
}

func candidates() []string {
	var dirs []string
	if dir := os.Getenv("POSTGRES_BIN"); dir != "" {
		dirs = append(dirs, dir)
	}
	for _, name := range []string{"postgres", "initdb"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		// The server looks for its share folder relative to the real binary.
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, pattern := range installed {
		found, _ := filepath.Glob(pattern) // the only error is a bad pattern
		slices.SortFunc(found, func(a, b string) int { return major(b) - major(a) })
		dirs = append(dirs, found...)
	}
	return dirs
}

func holdsServer(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		file, err := os.Stat(filepath.Join(dir, name))
		if err != nil || file.IsDir() {
			return false
		}
	}
	return true
}

var digits = regexp.MustCompile(`\d+`)

// major is the version number in a folder's path, so that the highest is tried first.
func major(dir string) int {
	number, _ := strconv.Atoi(digits.FindString(dir))
	return number
}
