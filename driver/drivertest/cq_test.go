// SPDX-License-Identifier: Apache-2.0

package drivertest_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/host"
	"hvia/layout"
)

// The agent rejects wrong requests about completion queues and notifications,
// whether or not the library checks them.
func TestAgentGuardsCompletionQueues(t *testing.T) {
	_, err := run(t, nil, func(t *host.Thread, h *driver.Host) error {
		mine, err := h.OpenNIC(t)
		if err != nil {
			return err
		}
		other, err := h.OpenNIC(t)
		if err != nil {
			return err
		}
		var failed []error
		is := func(what string, got, want error) {
			if !errors.Is(got, want) || want == nil && got != nil {
				failed = append(failed, fmt.Errorf("%s: got %w, want %w", what, got, want))
			}
		}
		q, ring, err := h.CreateCQ(t, mine.ID, 3)
		if err != nil {
			return err
		}
		if want := layout.CompletionQueueHeaderSize + 4*layout.CompletionEntrySize; ring.Len() != want {
			failed = append(failed, fmt.Errorf("a ring of %d bytes, want %d", ring.Len(), want))
		}
		for _, n := range []int{0, -1} {
			_, _, err := h.CreateCQ(t, mine.ID, n)
			is("no entries", err, host.ErrInvalidParameter)
		}
		_, _, err = h.CreateCQ(t, mine.ID, driver.MaxCQEntries+1)
		is("too many entries", err, host.ErrResource)
		_, _, err = h.CreateVI(t, other.ID, driver.VIAttributes{SendQueue: q})
		is("a VI of another handle", err, host.ErrInvalidParameter)
		v, _, err := h.CreateVI(t, mine.ID, driver.VIAttributes{ReceiveQueue: q})
		is("a VI", err, nil)
		is("destroy while tied", q.Destroy(t), host.ErrInUse)
		is("arm", q.Notifier().Arm(t), nil)
		is("arm a VI", v.Notifier(true).Arm(t), nil)
		is("destroy the VI", v.Destroy(t), nil)
		is("arm a VI that is gone", v.Notifier(true).Arm(t), host.ErrInvalidParameter)
		is("destroy", q.Destroy(t), nil)
		is("again", q.Destroy(t), host.ErrInvalidParameter)
		is("arm what is gone", q.Notifier().Arm(t), host.ErrInvalidParameter)
		again, _, err := h.CreateCQ(t, mine.ID, 2)
		is("another one", err, nil)
		if again.Number != q.Number {
			failed = append(failed, errors.New("the number is used again"))
		}
		is("destroy by the old handle", q.Destroy(t), host.ErrInvalidParameter)
		for _, n := range []int{8, 16, 2} { // the rings before the last one are freed
			_, written, err := again.Resize(t, n)
			is("resize", err, nil)
			if written != 0 {
				failed = append(failed, fmt.Errorf("%d entries written to a queue of nobody", written))
			}
		}
		_, _, err = again.Resize(t, 0)
		is("resize to nothing", err, host.ErrInvalidParameter)
		return errors.Join(failed...)
	})
	require.NoError(t, err)
}

// A card that rejects a command leaves nothing pinned, and the number free.
func TestCompletionQueueThatTheCardRefuses(t *testing.T) {
	for _, op := range []layout.CommandOpcode{layout.CommandOpcodeCreateCompletionQueue, layout.CommandOpcodeResizeCompletionQueue} {
		f, err := run(t, func(c *drivertest.Card) {
			c.FailOpcode, c.FailStatus, c.FailAfter = op, layout.CommandStatusBadState, 1
		}, func(t *host.Thread, h *driver.Host) error {
			nic, err := h.OpenNIC(t)
			if err != nil {
				return err
			}
			q, _, err := h.CreateCQ(t, nic.ID, 4)
			if err != nil {
				return err
			}
			if op == layout.CommandOpcodeCreateCompletionQueue {
				if _, _, err := h.CreateCQ(t, nic.ID, 4); !errors.Is(err, driver.ErrCommand) {
					return fmt.Errorf("create: %w", err)
				}
				return q.Destroy(t)
			}
			for i := range 2 {
				if _, _, err := q.Resize(t, 4); (err != nil) != (i == 1) {
					return fmt.Errorf("resize %d: %w", i, err)
				}
			}
			return q.Destroy(t)
		})
		require.NoError(t, err)
		require.Zero(t, f.Node(0).InUse())
	}
}

// A card without completion queues causes an error.
func TestCardWithoutCompletionQueues(t *testing.T) {
	_, err := run(t, func(c *drivertest.Card) { c.Capability &^= layout.RegisterCapabilityCompletionQueuesLog2Mask }, func(t *host.Thread, h *driver.Host) error {
		nic, err := h.OpenNIC(t)
		if err != nil {
			return err
		}
		if nic.MaxCQs != 0 {
			return fmt.Errorf("%d completion queues", nic.MaxCQs)
		}
		if _, _, err := h.CreateCQ(t, nic.ID, 4); !errors.Is(err, host.ErrResource) {
			return fmt.Errorf("create: %w", err)
		}
		return nil
	})
	require.NoError(t, err)
}
