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

// crew is the worker processes of a column.
type crew struct {
	assignment assignment
	blocked    atomic.Int64
	kills      atomic.Int64
	readers    sync.WaitGroup
}

// run keeps the workers going, and kills one of them every now and then, until ctx ends;
// then it ends them all and waits.
func (c *crew) run(ctx context.Context) error {
	workers := make([]*exec.Cmd, c.assignment.Settings.Workers)
	defer func() {
		for _, worker := range workers {
			end(worker)
		}
		c.readers.Wait()
	}()
	for i := range workers {
		if err := c.start(&workers[i]); err != nil {
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
			victim := random.IntN(len(workers))
			end(workers[victim])
			c.kills.Add(1)
			if err := c.start(&workers[victim]); err != nil {
				return err
			}
		}
	}
}

// start runs this program as a worker, and counts what it says.
func (c *crew) start(worker **exec.Cmd) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	told, err := json.Marshal(c.assignment)
	if err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	command := exec.Command(self, workerArgument)
	command.Env = append(os.Environ(), workerVariable+"="+string(told))
	command.Stderr = os.Stderr
	said, err := command.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	*worker = command
	c.readers.Go(func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			if lines.Text() == saidBlocked {
				c.blocked.Add(1)
			}
		}
	})
	return nil
}

// end kills a worker as a power cut would: nothing deferred runs in it.
func end(worker *exec.Cmd) {
	if worker != nil && worker.Process != nil {
		_ = worker.Process.Kill()
		_ = worker.Wait()
	}
}
