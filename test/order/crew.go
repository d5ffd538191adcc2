package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/oncebox/oncebox/internal/failpoint"
)

// points are where relays die.
var points = []string{
	failpoint.RelayPage, failpoint.RelayPublished, failpoint.RelaySaving, failpoint.RelayWindow, failpoint.RelayHandOver,
}

// mostHits is how often a relay passes a point at most before it dies there.
const mostHits = 300

// crew are the relay processes and what happens to them.
type crew struct {
	bed    *bed
	random *rand.Rand
	calmed chan struct{}
	once   sync.Once
	kills  int
	frozen int
}

func newCrew(b *bed) *crew {
	return &crew{bed: b, random: rand.New(rand.NewPCG(b.settings.Seed, 1<<40)), calmed: make(chan struct{})}
}

// calm lets the relays work on in peace.
func (c *crew) calm() { c.once.Do(func() { close(c.calmed) }) }

// run keeps relays going and hurts them, until ctx ends.
func (c *crew) run(ctx context.Context) error {
	relays := make([]*process, c.bed.settings.Relays)
	defer func() {
		for _, one := range relays {
			one.kill()
		}
	}()
	for i := range relays {
		var err error
		if relays[i], err = c.start(true); err != nil {
			return err
		}
	}
	tick := time.NewTicker(c.bed.settings.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		calm := isClosed(c.calmed)
		if !calm {
			c.hurt(ctx, relays)
		}
		for i, one := range relays {
			if !one.ended() {
				continue
			}
			if one.killed() {
				c.kills++
			}
			var err error
			if relays[i], err = c.start(!calm); err != nil {
				return err
			}
		}
	}
}

// hurt does something to one relay, or to all.
func (c *crew) hurt(ctx context.Context, relays []*process) {
	victim := relays[c.random.IntN(len(relays))]
	switch c.random.IntN(8) {
	case 0, 1:
		victim.kill()
	case 2, 3:
		victim.signal(syscall.SIGTERM) // hands over, or dies while it does
	case 4:
		// Longer than the lease: when it wakes, another relay has its buckets.
		victim.signal(syscall.SIGSTOP)
		c.frozen++
		time.AfterFunc(1300*time.Millisecond, func() { victim.signal(syscall.SIGCONT) })
	case 5:
		if c.random.IntN(4) > 0 {
			return
		}
		// All of them, for longer than the stream remembers ids.
		for _, one := range relays {
			one.kill()
		}
		sleep(ctx, duplicateWindow+time.Second)
	}
}

// start runs a relay, which dies at a failpoint sooner or later if it is doomed.
func (c *crew) start(doomed bool) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), relayVariable+"="+c.bed.name)
	if doomed {
		point := points[c.random.IntN(len(points))]
		command.Env = append(command.Env, fmt.Sprintf("ONCEBOX_FAILPOINT=%s:%d", point, 1+c.random.IntN(mostHits)))
		if point == failpoint.RelayHandOver {
			command.Env = append(command.Env, "ONCEBOX_FAILPOINT="+point)
		}
	}
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		return nil, err
	}
	one := &process{command: command, done: make(chan struct{})}
	go func() { _ = command.Wait(); close(one.done) }()
	return one, nil
}

// process is a relay process.
type process struct {
	command *exec.Cmd
	done    chan struct{}
}

func (p *process) signal(s os.Signal) { _ = p.command.Process.Signal(s) }

func (p *process) ended() bool { return isClosed(p.done) }

func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.done
}

func (p *process) killed() bool {
	status, ok := p.command.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
