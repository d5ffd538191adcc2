package oncebox_test

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/oncebox/oncebox"

// The modules that packages may import.
const (
	watermill = "github.com/ThreeDotsLabs/watermill"
	pgx       = "github.com/jackc/pgx/v5"
	testify   = "github.com/stretchr/testify"
)

// layout is the import rule: what each package may import beyond the standard library. A
// new package is a new line here, with its reason in the commit. Data flows one way:
// broker → consumer → store; the rules in the middle know neither side, and backends and
// features never know one another.
var layout = map[string][]string{
	".":     {},
	"dedup": {"golang.org/x/text/unicode/norm"}, // one text has one fingerprint, however it is composed
	"store": {module + "/dedup"},

	"store/memory":    {module + "/dedup", module + "/store"},
	"store/postgres":  {module + "/dedup", module + "/store", module + "/internal/deadline", pgx},
	"store/storetest": {module + "/dedup", module + "/store", testify},
	"migrations":      {pgx, "github.com/jackc/tern/v2/migrate"},

	"outbox": {
		module + "/dedup", module + "/store", module + "/internal/failpoint", watermill,
		"github.com/cenkalti/backoff/v5", "golang.org/x/sync/errgroup",
		"go.opentelemetry.io/otel/propagation", // trace context in the headers
	},
	"outbox/sink/jetstream": {module + "/dedup", module + "/outbox", module + "/store", "github.com/nats-io/nats.go"},
	"outbox/sink/watermill": {module + "/outbox", module + "/store", watermill},

	"consumer": {
		module + "/dedup", module + "/store", module + "/outbox", module + "/internal/deadline", module + "/internal/failpoint",
		watermill, "github.com/cenkalti/backoff/v5",
	},
	"consumer/nats": {module + "/consumer", module + "/dedup", module + "/store", watermill, "github.com/nats-io/nats.go"},

	// Not for tests alone: bounds short operations with few timers; the standard library only.
	"internal/deadline": {},
	// Not for tests alone: where tests kill the process; empty without its build tag.
	"internal/failpoint": {},
	"internal/embedpg":   {pgx},
	"internal/pgtest":    {pgx, testify, module + "/internal/embedpg"},

	"cmd/oncebox": {
		module + "/dedup", module + "/migrations", pgx, "github.com/spf13/cobra",
	},
}

// forTestsOnly may be imported by test files and by the modules test and examples.
var forTestsOnly = []string{module + "/internal/embedpg", module + "/internal/pgtest"}

func TestLayout_PackagesImportOnlyWhatTheyMay(t *testing.T) {
	t.Parallel()
	eachFile(t, func(file, dir string) {
		if strings.HasPrefix(dir, "test") || strings.HasPrefix(dir, "examples") || strings.HasPrefix(dir, "tools") {
			return // nothing imports them, and they may import all
		}
		allowed, known := layout[dir]
		require.True(t, known, "package %s is not in the layout: add a line to layout in layout_test.go, with the reason in the commit", dir)
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		for _, imported := range importsOf(t, file) {
			if !strings.Contains(strings.Split(imported, "/")[0], ".") {
				continue // the standard library
			}
			require.False(t, slices.Contains(forTestsOnly, imported) && !strings.HasPrefix(dir, "internal/"),
				"%s imports %s, which is for tests", file, imported)
			require.True(t, slices.ContainsFunc(allowed, func(one string) bool {
				return imported == one || strings.HasPrefix(imported, one+"/") && !strings.HasPrefix(one, module)
			}), "%s imports %s, which package %s may not: see layout in layout_test.go", file, imported, dir)
		}
	})
}

func TestLayout_RulesNameOnlyPackagesThatExist(t *testing.T) {
	t.Parallel()
	for dir := range layout {
		require.DirExists(t, dir)
	}
}

// vague are names that say nothing.
var vague = []string{"util", "utils", "common", "helper", "helpers", "types", "models", "misc", "base", "shared"}

func TestLayout_FilesAreSmallAndNamedAfterAConcept(t *testing.T) {
	t.Parallel()
	const longest = 400
	var lengths []int
	eachFile(t, func(file, dir string) {
		name := strings.TrimSuffix(strings.TrimSuffix(path.Base(file), ".go"), "_test")
		for _, part := range append(strings.Split(dir, "/"), name) {
			require.False(t, slices.Contains(vague, part), "%s: %q says nothing", file, part)
		}
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		lines := bytes.Count(content, []byte("\n"))
		require.LessOrEqual(t, lines, longest, "%s: one concept a file", file)
		lengths = append(lengths, lines)
	})
	slices.Sort(lengths)
	require.LessOrEqual(t, lengths[len(lengths)/2], 120, "the median file is too long")
}

func TestLayout_EveryPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	said := make(map[string]bool)
	eachFile(t, func(file, dir string) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
		require.NoError(t, err)
		said[dir] = said[dir] || parsed.Doc.Text() != ""
	})
	for dir, has := range said {
		require.True(t, has, "package %s has no package comment", dir)
	}
}

func TestLayout_RootModuleHasNoServers(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "all")
	list.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	modules, err := list.Output()
	require.NoError(t, err)
	for _, server := range []string{
		"nats-server", "testcontainers", "docker", "moby", "embedded-postgres", "kfake", "toxiproxy", "miniredis", "containerd",
	} {
		require.NotContains(t, string(modules), server, "servers, fakes and test infrastructure live in the modules test and examples")
	}
}

// eachFile calls visit for each Go file of the repository, with its folder.
func eachFile(t *testing.T, visit func(file, dir string)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && file != "." {
			return filepath.SkipDir
		}
		if strings.HasSuffix(file, ".go") {
			visit(filepath.ToSlash(file), filepath.ToSlash(filepath.Dir(file)))
		}
		return nil
	}))
}

func importsOf(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	require.NoError(t, err)
	imports := make([]string, len(parsed.Imports))
	for i, one := range parsed.Imports {
		imports[i], err = strconv.Unquote(one.Path.Value)
		require.NoError(t, err)
	}
	return imports
}
