// SPDX-License-Identifier: Apache-2.0

package drivertest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/fabric"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim/bridge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(t *testing.T, prepare func(c *drivertest.Card), program func(t *host.Thread, h *driver.Host) error) (*drivertest.Fabric, error) {
	t.Helper()
	f, err := drivertest.New(1, 2)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	if prepare != nil {
		prepare(f.Node(0).Card)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return f, fabric.RunOn(ctx, f, fabric.RunConfig{}, fabric.Program{Main: program})
}

// For any defect of a card, programs get one clear error and nothing hangs.
func TestCardsThatAreNotOurs(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(c *drivertest.Card)
		want  error
		text  []string
	}{
		{"another device", func(c *drivertest.Card) { c.ID = 0x10ec8168 }, driver.ErrIdentity, []string{"0x10ec8168", "0x48564941"}},
		{"another layout", func(c *drivertest.Card) { c.LayoutHash = 0x1234 }, driver.ErrIdentity, []string{"0000000000001234", fmt.Sprintf("%016x", layout.Hash)}},
		{"a dead card", func(c *drivertest.Card) { c.Dead = true }, driver.ErrDeadline, []string{"InitialiseAtt"}},
		{"a card that rejects", func(c *drivertest.Card) {
			c.FailOpcode, c.FailStatus = layout.CommandOpcodeInitialiseAtt, layout.CommandStatusBadArgument
		}, driver.ErrCommand, []string{"BadArgument"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := run(t, c.spoil, func(t *host.Thread, h *driver.Host) error {
				_, err := h.OpenNIC(t)
				return err
			})
			require.ErrorIs(t, err, c.want)
			for _, text := range c.text {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

// A card that dies later: the first call after that, and all later ones, fail.
func TestCardThatDies(t *testing.T) {
	f, err := drivertest.New(1, 2)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	card := f.Node(0).Card
	err = fabric.RunOn(t.Context(), f, fabric.RunConfig{}, fabric.Program{Main: func(t *host.Thread, h *driver.Host) error {
		nic, err := h.OpenNIC(t)
		if err != nil {
			return err
		}
		card.Dead = true // only this thread runs
		_, _, first := h.CreateVI(t, nic.ID, driver.VIAttributes{})
		_, second := h.CreateTag(t, nic.ID)
		if !errors.Is(first, driver.ErrDeadline) || !errors.Is(second, host.ErrClosed) {
			return fmt.Errorf("got '%v' and '%v'", first, second)
		}
		return nil
	}})
	require.ErrorIs(t, err, driver.ErrDeadline)
}

// A command that the card rejects is an error of that call only, and leaves
// nothing pinned.
func TestRefusedCommands(t *testing.T) {
	for _, op := range []layout.CommandOpcode{
		layout.CommandOpcodeRegisterMemory, layout.CommandOpcodeWriteLevel2, layout.CommandOpcodeCreateVI, layout.CommandOpcodeModifyVI,
	} {
		t.Run(op.String(), func(t *testing.T) {
			f, err := run(t, func(c *drivertest.Card) {
				c.FailOpcode, c.FailStatus, c.FailAfter = op, layout.CommandStatusBadArgument, 1
			}, func(t *host.Thread, h *driver.Host) error {
				nic, err := h.OpenNIC(t)
				if err != nil {
					return err
				}
				b, err := h.Allocate(t, 1100*mem.PageBytes, mem.Runs)
				if err != nil {
					return err
				}
				var refused []error
				for range 2 {
					_, err := h.Register(t, nic.ID, b.Address(), uint64(b.Len()), 0, driver.Rights{})
					refused = append(refused, err)
					v, _, err := h.CreateVI(t, nic.ID, driver.VIAttributes{})
					refused = append(refused, err)
					if err == nil {
						refused = append(refused, v.Modify(t, driver.VIAttributes{MaxTransferSize: 4096}))
					}
				}
				n := 0
				for _, err := range refused {
					if err != nil {
						n++
						if !errors.Is(err, driver.ErrCommand) {
							return err
						}
					}
				}
				if n != 1 {
					return fmt.Errorf("%d calls were rejected: %w", n, errors.Join(refused...))
				}
				return nil
			})
			require.NoError(t, err)
			require.Zero(t, f.Node(0).InUse())
		})
	}
}

// Requests that no library sends.
func TestHostileRequests(t *testing.T) {
	_, err := run(t, nil, func(t *host.Thread, h *driver.Host) error {
		for _, data := range [][]byte{nil, make([]byte, 3), make([]byte, 3000), []byte("hello agent")} {
			if err := t.Send(host.ThreadID{Rank: driver.AgentRank}, data); err != nil {
				return err
			}
		}
		if _, err := h.CreateTag(t, 77); !errors.Is(err, host.ErrInvalidParameter) {
			return fmt.Errorf("a NIC handle that is not open: %w", err)
		}
		nic, err := h.OpenNIC(t)
		if err != nil {
			return err
		}
		if err := h.DestroyTag(t, nic.ID, 0); !errors.Is(err, driver.ErrTag) {
			return fmt.Errorf("tag 0: %w", err)
		}
		if _, err := h.Counter(t, nic.ID, layout.Counter(200)); !errors.Is(err, host.ErrInvalidParameter) {
			return fmt.Errorf("counter 200: %w", err)
		}
		if _, err := h.Allocate(t, 1, mem.Scatter(9)); !errors.Is(err, host.ErrInvalidParameter) {
			return fmt.Errorf("placement 9: %w", err)
		}
		return nil
	})
	require.NoError(t, err)
}

// Every thread waits without a possible wake: an error, not a hang.
func TestDeadlockIsReported(t *testing.T) {
	_, err := run(t, nil, func(t *host.Thread, h *driver.Host) error {
		nic, err := h.OpenNIC(t)
		if err != nil {
			return err
		}
		_, err = h.ConnectWait(t, nic.ID, "nobody", host.Never)
		return err
	})
	require.ErrorIs(t, err, bridge.ErrDeadlock)
}

// The end of the context ends waiting calls.
func TestContextEndsARun(t *testing.T) {
	f, err := drivertest.New(1, 3) // one thread more than will attach
	require.NoError(t, err)
	t.Cleanup(f.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = fabric.RunOn(ctx, f, fabric.RunConfig{}, fabric.Program{Main: func(t *host.Thread, h *driver.Host) error {
		_, err := h.OpenNIC(t)
		return err
	}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A program that fails cancels the others, and the run returns its error.
func TestFirstFailureEndsTheRun(t *testing.T) {
	f, err := drivertest.New(2, 4)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	mine := errors.New("my own failure")
	err = fabric.RunOn(t.Context(), f, fabric.RunConfig{},
		fabric.Program{Node: 0, Name: "bad", Main: func(t *host.Thread, _ *driver.Host) error {
			if err := t.Sleep(host.Millisecond); err != nil {
				return err
			}
			return mine
		}},
		fabric.Program{Node: 1, Name: "waits", Main: func(t *host.Thread, _ *driver.Host) error {
			_, _, err := t.Receive(host.Never)
			return err
		}})
	require.ErrorIs(t, err, mine)
	require.EqualError(t, err, "bad on node 0: my own failure")
}

// A VI is destroyed while the card has an error of it, and another program
// requests a VI before the agent has polled: the new VI has the index of the
// old one, and not its error.
func TestErrorOfTheFormerVI(t *testing.T) {
	f, err := drivertest.New(1, 3)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	const moment = host.Millisecond
	var former, next driver.VI
	err = fabric.RunOn(t.Context(), f, fabric.RunConfig{},
		fabric.Program{Main: func(t *host.Thread, h *driver.Host) error {
			nic, err := h.OpenNIC(t)
			if err != nil {
				return err
			}
			if former, _, err = h.CreateVI(t, nic.ID, driver.VIAttributes{}); err != nil {
				return err
			}
			if err := t.Sleep(moment - t.Now()); err != nil {
				return err
			}
			if err := t.Write(former.Doorbell(false), 0x1000, 0, 0x123); err != nil {
				return err
			}
			return former.Destroy(t)
		}},
		fabric.Program{Main: func(t *host.Thread, h *driver.Host) error {
			nic, err := h.OpenNIC(t)
			if err != nil {
				return err
			}
			if err := t.Sleep(moment + host.Nanosecond - t.Now()); err != nil {
				return err
			}
			if next, _, err = h.CreateVI(t, nic.ID, driver.VIAttributes{}); err != nil {
				return err
			}
			if err := t.Sleep(host.Millisecond); err != nil {
				return err
			}
			if e, ok, err := h.NextError(t, nic.ID); ok || err != nil {
				return fmt.Errorf("the new VI received %+v (%w)", e, errors.Join(err, errors.New("want nothing")))
			}
			if s, _ := next.State(); s != layout.VIStateIdle {
				return fmt.Errorf("the new VI is %v", s)
			}
			bad, err := h.Counter(t, nic.ID, layout.CounterDescriptorBad)
			if err == nil && bad != 1 {
				err = fmt.Errorf("%d bad descriptors, want 1: the test shows nothing", bad)
			}
			return err
		}})
	require.NoError(t, err)
	require.Equal(t, former.Index, next.Index, "the test shows nothing unless the index is used again")
}
