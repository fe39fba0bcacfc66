// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
	"hvia/sim/bridge"
)

// fourPages sends one message over four pages from node 0 to node 1.
func fourPages(r *rig) {
	a, b := r.pair([2]uint8{1, 2}, [2]uint16{3, 4}, [2]bool{false, true})
	source := r.node[0].register(100, 3*pageBytes, a.tag, false)
	source.scramble()
	var target *region
	r.b(func(m *machine) { target = m.register(200, 3*pageBytes, b.tag, true) })
	a.post(rdmaWrite(source, 0, source.length, target, 0))
	a.finish()
	r.settle()
	r.carry()
}

// A card that accesses memory outside the frames in use ends the run. The error
// names the node, the direction and the address, and the byte does not change.
func TestMemoryFault(t *testing.T) {
	for _, direction := range []string{"read", "write"} {
		for _, page := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s page %d", direction, page), func(t *testing.T) {
				if direction == "read" || page == 0 {
					takesSeconds(t)
				}
				var address uint32
				var m *machine
				err := mustCatch(t, config{}, func(r *rig) {
					a, b := r.pair([2]uint8{1, 2}, [2]uint16{3, 4}, [2]bool{false, true})
					source := r.node[0].register(100, 3*pageBytes, a.tag, false)
					var target *region
					r.b(func(m *machine) { target = m.register(200, 3*pageBytes, b.tag, true) })
					// Frees pinned memory, as a faulty driver would.
					g := map[string]*region{"read": source, "write": target}[direction]
					m = g.m
					if err := m.memory.Release(int(g.frames[page]), bridge.UseRegion); err != nil {
						fail("%w", err)
					}
					address = g.frames[page] * pageBytes
					if page == 0 {
						address += uint32(g.offset)
					}
					page := g.frames[page] * pageBytes
					before := bytes.Clone(m.memo[page : page+pageBytes])
					a.post(rdmaWrite(source, 0, source.length, target, 0))
					err := try(func() { a.finish(); r.settle() })
					if !bytes.Equal(before, m.memo[page:page+pageBytes]) {
						fail("the frame was written to")
					}
					if err != nil {
						panic(failure{err})
					}
				})
				stop := stopped(err)
				require.NotNil(t, stop, "the run was not stopped: %v", err)
				require.ErrorIs(t, stop, bridge.ErrMemoryFault)
				// A burst starts at a dword.
				require.Contains(t, stop.Text, fmt.Sprintf("the card of node %d (%s) tried to %s host memory at physical address %#x at ",
					m.thread.ID().Node, m.thread.Name(), direction, address&^3))
				require.Positive(t, stop.Time)
			})
		}
	}
}

// The same message on a card without faults passes.
func TestFourPages(t *testing.T) { mustPlay(t, config{}, fourPages) }

// A bad address in a command or a ring is caught as well.
func TestMemoryFaultOfCommands(t *testing.T) {
	for name, act := range map[string]func(m *machine, nobodys uint32){
		"command block": func(m *machine, nobodys uint32) { m.write(layout.RegisterCommandAddressOffset, nobodys) },
		"ring": func(m *machine, nobodys uint32) {
			m.write(layout.RegisterRawReceiveBaseOffset, nobodys, ringLog2)
			m.write(layout.RegisterRawReceiveTailOffset, 1)
		},
		"frame buffer": func(m *machine, nobodys uint32) {
			m.fillEntry(&m.transmit, rawBuffer{address: nobodys}, 100)
			m.write(layout.RegisterRawTransmitTailOffset, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "ring" {
				takesSeconds(t)
			}
			var nobodys uint32
			err := mustCatch(t, config{}, func(r *rig) {
				m := r.node[0]
				nobodys = m.free[0] * pageBytes
				act(m, nobodys)
				m.sleep(host.Millisecond)
			})
			require.ErrorIs(t, err, bridge.ErrMemoryFault)
			require.ErrorContains(t, err, fmt.Sprintf("node 0 (a) tried to read host memory at physical address %#x", nobodys))
		})
	}
}
