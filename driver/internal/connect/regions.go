// SPDX-License-Identifier: Apache-2.0

package connect

import "hvia/layout"

const (
	regionsRoom = layout.MaxOfferedRegions * layout.OfferedRegionSize

	regionRights = layout.OfferedRegionRightsRDMAWriteMask | layout.OfferedRegionRightsRDMAReadMask
)

func appendRegions(b []byte, regions []Region) []byte {
	for _, g := range regions {
		r := make(layout.OfferedRegion, layout.OfferedRegionSize)
		r.SetAddress(g.Address)
		r.SetLength(g.Length)
		r.SetHandle(g.Handle)
		r.SetRights(g.Rights)
		b = append(b, r...)
	}
	return b
}

// parseRegions reads n advertised regions behind a connection frame; it returns
// false if they are incomplete or one is not valid. It keeps no reference to b.
func parseRegions(b []byte, n int) ([]Region, bool) {
	if n == 0 {
		return nil, true
	}
	if n > layout.MaxOfferedRegions || len(b) < n*layout.OfferedRegionSize {
		return nil, false
	}
	regions := make([]Region, n)
	for i := range regions {
		r := layout.OfferedRegion(b[i*layout.OfferedRegionSize:][:layout.OfferedRegionSize])
		g := Region{Address: r.Address(), Length: r.Length(), Handle: r.Handle(), Rights: r.Rights()}
		last := g.Address + (g.Length - 1)
		if g.Length == 0 || last < g.Address || g.Handle == 0 || g.Rights&^regionRights != 0 {
			return nil, false
		}
		regions[i] = g
	}
	return regions, true
}
