// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Together returns the first error in the order of the tasks, which is not the
// first in time, and not the end of another task.
func TestTogether(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	started, failed := make(chan struct{}), make(chan struct{})
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	err := Together(t.Context(), 3, []func(context.Context) error{
		wait,
		func(context.Context) error { close(started); <-failed; return first },
		func(context.Context) error { <-started; close(failed); return second },
	})
	require.ErrorIs(t, err, first)

	// Nothing else failed, so the cancelled task is the error.
	require.ErrorIs(t, Together(t.Context(), 1, []func(context.Context) error{
		func(context.Context) error { return context.Canceled },
	}), context.Canceled)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Together(ctx, 1, []func(context.Context) error{wait, wait}), context.Canceled)
}

func TestTogetherAtMostJobs(t *testing.T) {
	var running, most atomic.Int64
	tasks := make([]func(context.Context) error, 20)
	for i := range tasks {
		tasks[i] = func(context.Context) error {
			most.Store(max(most.Load(), running.Add(1)))
			running.Add(-1)
			return nil
		}
	}
	require.NoError(t, Together(t.Context(), 2, tasks))
	require.LessOrEqual(t, most.Load(), int64(2))
	require.Positive(t, most.Load())
}
