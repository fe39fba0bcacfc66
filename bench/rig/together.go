// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Together runs tasks side by side, at most `jobs` at a time, and starts them
// in order. When one fails, the rest end. It returns the first error in the
// order of the tasks that is not the end of another one, if there is one.
func Together(ctx context.Context, jobs int, tasks []func(context.Context) error) error {
	g, running := errgroup.WithContext(ctx)
	g.SetLimit(jobs)
	errs := make([]error, len(tasks))
	for i, task := range tasks {
		g.Go(func() error {
			if errs[i] = running.Err(); errs[i] == nil {
				errs[i] = task(running)
			}
			return errs[i]
		})
	}
	inTime := g.Wait() // differs from run to run
	for _, err := range errs {
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.Canceled)) {
			return err
		}
	}
	return inTime
}

// Tally joins the progress of tasks that run side by side.
type Tally struct {
	Total int            // calls of Count until the end
	Show  func(Progress) // nil shows nothing

	mu   sync.Mutex
	done int
}

// Count adds one step of one task.
func (t *Tally) Count(p Progress) {
	if t.Show == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done++
	p.Done, p.Total = t.done, t.Total
	t.Show(p)
}
