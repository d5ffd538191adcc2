package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// crew is the worker and relay processes of a column.
type crew struct {
	assignment assignment
	blocked    atomic.Int64
	kills      atomic.Int64 // of workers
	relayKills atomic.Int64
	readers    sync.WaitGroup
}

// roles are what each process of the crew does: workers, and then relays where there is an
// outbox.
func (c *crew) roles() (roles []string) {
	for range c.assignment.Settings.Workers {
		roles = append(roles, workerArgument)
	}
	if c.assignment.Column == columnOncebox {
		for range c.assignment.Settings.Relays {
			roles = append(roles, relayArgument)
		}
	}
	return roles
}

// run keeps the processes going, and kills one of them every now and then, until ctx ends;
// then it ends them all and waits.
func (c *crew) run(ctx context.Context) error {
	roles := c.roles()
	processes := make([]*exec.Cmd, len(roles))
	defer func() {
		for _, one := range processes {
			end(one)
		}
		c.readers.Wait()
	}()
	for i := range processes {
		if err := c.start(&processes[i], roles[i]); err != nil {
			return err
		}
	}
	if c.assignment.Settings.KillEvery == 0 {
		<-ctx.Done()
		return nil
	}
	random := rand.New(rand.NewPCG(c.assignment.Settings.Seed, 0))
	tick := time.NewTicker(c.assignment.Settings.KillEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			victim := random.IntN(len(processes))
			end(processes[victim])
			if roles[victim] == relayArgument {
				c.relayKills.Add(1)
			} else {
				c.kills.Add(1)
			}
			if err := c.start(&processes[victim], roles[victim]); err != nil {
				return err
			}
		}
	}
}

// start runs this program in a role, and counts what it says.
func (c *crew) start(process **exec.Cmd, role string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start process: %w", err)
	}
	told, err := json.Marshal(c.assignment)
	if err != nil {
		return fmt.Errorf("start process: %w", err)
	}
	command := exec.Command(self, role)
	command.Env = append(os.Environ(), workerVariable+"="+string(told))
	command.Stderr = os.Stderr
	said, err := command.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start process: %w", err)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start process: %w", err)
	}
	*process = command
	c.readers.Go(func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			if lines.Text() == saidBlocked {
				c.blocked.Add(1)
			}
		}
	})
	return nil
}

// end kills a process as a power cut would: nothing deferred runs in it.
func end(process *exec.Cmd) {
	if process != nil && process.Process != nil {
		_ = process.Process.Kill()
		_ = process.Wait()
	}
}
