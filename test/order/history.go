package main

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// verdict is what a history shows.
type verdict struct{ Lost, Doubled, Reordered int }

func (v verdict) String() string {
	return fmt.Sprintf("lost=%d doubled=%d reordered=%d", v.Lost, v.Doubled, v.Reordered)
}

// judge compares what came out, in its order, with the last version of each account. Each
// version should be there once. A version that comes for the first time after a later one
// is reordered.
func judge(written []int64, published []message) (v verdict) {
	seen := make([]map[int64]bool, len(written))
	last := make([]int64, len(written))
	for i := range seen {
		seen[i] = make(map[int64]bool)
	}
	for _, one := range published {
		switch {
		case seen[one.account][one.version]:
			v.Doubled++
			continue
		case one.version < last[one.account]:
			v.Reordered++
		}
		seen[one.account][one.version] = true
		last[one.account] = max(last[one.account], one.version)
	}
	for account, count := range written {
		v.Lost += int(count) - len(seen[account])
	}
	return v
}

// outcome is what a run shows.
type outcome struct {
	Written  []int64
	Ours     verdict
	Wrong    map[string]verdict
	Kills    int
	Frozen   int
	Emptied  int
	Nuisance string
	Took     time.Duration
}

func (o outcome) print(out io.Writer) {
	fmt.Fprintf(out, "%d messages of %d accounts in %v; relays killed %d times, frozen %d times; %d slots emptied; %s\n",
		sum(o.Written), len(o.Written), o.Took.Round(time.Second), o.Kills, o.Frozen, o.Emptied, o.Nuisance)
	for name, v := range o.Wrong {
		fmt.Fprintf(out, "WRONG relay=%q %v\n", name, v)
	}
	fmt.Fprintf(out, "RESULT messages=%d %v\n", sum(o.Written), o.Ours)
}

// verdict demands that ours is right and that the wrong ones are caught.
func (o outcome) verdict() error {
	var wrong []error
	if o.Ours != (verdict{}) {
		wrong = append(wrong, fmt.Errorf("the relay is wrong: %v", o.Ours))
	}
	if o.Wrong[byLastID].Lost == 0 {
		wrong = append(wrong, errors.New("the relay by last id was not caught: the run proves nothing"))
	}
	if o.Wrong[byXmin].Reordered == 0 {
		wrong = append(wrong, errors.New("the relay by transaction number was not caught: the run proves nothing"))
	}
	return errors.Join(wrong...)
}
