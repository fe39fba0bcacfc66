// SPDX-License-Identifier: Apache-2.0

package drivertest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/fabric"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

// A card without memory for its table gets host memory, which stays in use as
// long as the card may read it; it is full when every frame is registered
// several times.
func TestTableInHostMemory(t *testing.T) {
	var card *drivertest.Card
	regions := 0
	_, err := run(t, func(c *drivertest.Card) {
		card = c
		c.Capability |= layout.RegisterCapabilityTableInHostMemoryMask
	}, func(th *host.Thread, h *driver.Host) error {
		nic, err := h.OpenNIC(th)
		if err != nil {
			return err
		}
		const bytes = 64 * mem.PageBytes
		b, err := h.Allocate(th, bytes, mem.Single)
		if err != nil {
			return err
		}
		for {
			if _, err := h.Register(th, nic.ID, b.Address(), bytes, 0, driver.Rights{}); err != nil {
				if regions == 0 {
					return err
				}
				require.ErrorIs(t, err, host.ErrResource)
				return nil
			}
			if regions++; regions > 100_000 {
				return fmt.Errorf("the table is never full")
			}
		}
	})
	require.NoError(t, err)
	require.Positive(t, card.CommandCount[layout.CommandOpcodeInitialiseAtt])
	t.Logf("%d regions", regions)
}

// Without the bit the card has its own table: the registers do not change.
func TestTableOnTheCard(t *testing.T) {
	f, err := drivertest.New(1, 2)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	err = fabric.RunOn(t.Context(), f, fabric.RunConfig{}, fabric.Program{Main: func(th *host.Thread, h *driver.Host) error {
		if _, err := h.OpenNIC(th); err != nil {
			return err
		}
		for _, o := range []uint32{layout.RegisterAttHostLevel1Offset, layout.RegisterAttHostLevel2Offset} {
			v, err := th.Read(layout.PciBar0Base + o)
			if err != nil {
				return err
			}
			require.Zero(t, v)
		}
		return nil
	}})
	require.NoError(t, err)
}
