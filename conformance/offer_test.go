// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/layout"
	"hvia/vipl"
)

// A VI that advertises no region sends the same connection frame as a VI
// without the extension.
func TestOffersOnTheWire(t *testing.T) {
	const head = layout.EthernetHeaderSize + layout.ConnectionFrameSize
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) {
		type of struct {
			kind    layout.ConnectionType
			regions int
		}
		lengths := map[of]map[int]bool{}
		note := func(f *drivertest.Fabric) {
			f.Lose = func(_ int, frame []byte) bool {
				if layout.EthernetHeader(frame).EtherType() == layout.EtherTypeConnection {
					c := layout.ConnectionFrame(frame[layout.EthernetHeaderSize:])
					k := of{layout.ConnectionType(c.Type()), int(c.Regions())}
					if lengths[k] == nil {
						lengths[k] = map[int]bool{}
					}
					lengths[k][len(frame)] = true
				}
				return false
			}
		}
		runFake(t, d, note, leaveClient, leaveServer)
		for k, l := range lengths {
			require.Zero(t, k.regions, "%v", k.kind)
			require.Equal(t, map[int]bool{head: true}, l, "%v", k.kind)
		}
		clear(lengths)
		runFake(t, d, note, offerClient, offerServer)
		for k, l := range lengths {
			require.Equal(t, map[int]bool{head + k.regions*layout.OfferedRegionSize: true}, l, "%v with %d regions", k.kind, k.regions)
		}
		require.Contains(t, lengths, of{layout.ConnectionTypeRequest, vipl.MaxOfferedRegions})
		require.Contains(t, lengths, of{layout.ConnectionTypeRequest, 0})
		require.Contains(t, lengths, of{layout.ConnectionTypeAccept, 3})
	})
}
