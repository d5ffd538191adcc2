package main

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows how far a column is.
type progress interface {
	set(done, total uint64)
	end()
}

func newProgress(column string) progress {
	if file, err := os.Stderr.Stat(); err == nil && file.Mode()&os.ModeCharDevice != 0 {
		return &bar{column: column}
	}
	return &lines{column: column, next: time.Now().Add(time.Second)}
}

// bar is for a terminal.
type bar struct {
	column string
	shown  *progressbar.ProgressBar
}

func (b *bar) set(done, total uint64) {
	if b.shown == nil {
		b.shown = progressbar.NewOptions64(int64(total), progressbar.OptionSetWriter(os.Stderr),
			progressbar.OptionSetDescription(fmt.Sprintf("%-12s", b.column)), progressbar.OptionShowCount())
	}
	_ = b.shown.Set64(int64(done))
}

func (b *bar) end() {
	if b.shown != nil {
		fmt.Fprintln(os.Stderr)
	}
}

// lines are for a log: one a second.
type lines struct {
	column      string
	next        time.Time
	done, total uint64
}

func (l *lines) set(done, total uint64) {
	l.done, l.total = done, total
	if time.Now().After(l.next) {
		l.next = time.Now().Add(time.Second)
		fmt.Fprintf(os.Stderr, "%-12s %d of %d messages settled\n", l.column, done, total)
	}
}

func (l *lines) end() {
	fmt.Fprintf(os.Stderr, "%-12s done, %d of %d messages settled\n", l.column, l.done, l.total)
}
