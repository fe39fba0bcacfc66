// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
)

func offering(n int) (all []Region) {
	for i := range n {
		all = append(all, Region{Address: uint64(i)<<40 | 0xfff, Length: uint64(i) + 1, Handle: uint32(0x100 + i), Rights: uint8(i % 4)})
	}
	return all
}

// Each side receives the other's regions, however often frames are lost or
// duplicated.
func TestRegionsAreTold(t *testing.T) {
	for mine := range layout.MaxOfferedRegions + 1 {
		theirs := layout.MaxOfferedRegions - mine
		turn := 0
		w := newWorld(func([]byte) (int, [2]int64) {
			turn++
			return []int{0, 2, 1}[turn%3], [2]int64{20e6, 30e6}
		})
		var asked, answered []Region
		connected := 0
		server, client := endpoint(1, 4), endpoint(0, 4)
		server.Attributes.Regions, client.Attributes.Regions = offering(theirs), offering(mine)
		w.nodes[1].e.Wait(1, "port", Never, func(in Incoming, err error) {
			require.NoError(t, err)
			asked = in.Attributes.Regions
			w.nodes[1].e.Accept(w.now, in.ID, server, func(err error) { require.NoError(t, err); connected++ })
		})
		w.nodes[0].e.Request(w.now, client, false, mac(1), "port", "me", w.now+1e12, func(a Attributes, err error) {
			require.NoError(t, err)
			answered = a.Regions
			connected++
		})
		w.run(1e12)
		require.Equal(t, 2, connected)
		require.Equal(t, offering(mine), asked)
		require.Equal(t, offering(theirs), answered)
		require.Zero(t, w.nodes[0].e.Counters().Malformed+w.nodes[1].e.Counters().Malformed)
	}
}

// A frame with invalid regions is dropped and counted, without effect on the
// connection.
func TestMalformedRegions(t *testing.T) {
	at := headerBytes + layout.ConnectionFrameSize
	region := func(b []byte, i int) layout.OfferedRegion {
		return layout.OfferedRegion(b[at+i*layout.OfferedRegionSize:])
	}
	for name, spoil := range map[string]func([]byte) []byte{
		"too many": func(b []byte) []byte {
			layout.ConnectionFrame(b[headerBytes:]).SetRegions(layout.MaxOfferedRegions + 1)
			return append(b, make([]byte, 1000)...)
		},
		"cut off":              func(b []byte) []byte { return b[:len(b)-1] },
		"none there":           func(b []byte) []byte { return b[:at] },
		"of no bytes":          func(b []byte) []byte { region(b, 1).SetLength(0); return b },
		"without a handle":     func(b []byte) []byte { region(b, 1).SetHandle(0); return b },
		"beyond all addresses": func(b []byte) []byte { region(b, 0).SetAddress(math.MaxUint64); region(b, 0).SetLength(2); return b },
		"rights of no kind":    func(b []byte) []byte { region(b, 0).SetRights(4); return b },
		"with a confirmation": func(b []byte) []byte {
			layout.ConnectionFrame(b[headerBytes:]).SetType(uint8(layout.ConnectionTypeConfirm))
			return b
		},
		"with a disconnection": func(b []byte) []byte {
			layout.ConnectionFrame(b[headerBytes:]).SetType(uint8(layout.ConnectionTypeDisconnect))
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(perfect)
			handed := 0
			w.nodes[1].e.Wait(1, "port", Never, func(in Incoming, err error) { handed++ })
			e := endpoint(0, 1)
			e.Attributes.Regions = offering(2)
			w.nodes[0].e.Request(0, e, false, mac(1), "port", "", 1e12, func(Attributes, error) { t.Error("ended") })
			good := w.wire[0].frame
			before := w.frames
			w.nodes[1].e.Frame(1, spoil(slices.Clone(good)))
			require.EqualValues(t, 1, w.nodes[1].e.Counters().Malformed)
			require.Zero(t, handed)
			require.Equal(t, before, w.frames, "answered")
			w.nodes[1].e.Frame(2, good)
			require.Equal(t, 1, handed)
			require.EqualValues(t, 1, w.nodes[1].e.Counters().Malformed)
		})
	}
	t.Run("at the end of all addresses", func(t *testing.T) {
		last := []Region{{Address: math.MaxUint64 - 9, Length: 10, Handle: 1}}
		got, ok := parseRegions(appendRegions(nil, last), 1)
		require.True(t, ok)
		require.Equal(t, last, got)
	})
}

// Parsed regions match the frame, and stay when the frame's memory is reused.
func FuzzRegions(f *testing.F) {
	f.Add(appendRegions(nil, offering(layout.MaxOfferedRegions)), layout.MaxOfferedRegions)
	f.Add(appendRegions(nil, offering(1)), 0)
	f.Add([]byte{}, 1)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		n &= 0xff // a byte of the frame
		frame := slices.Clone(b)
		regions, ok := parseRegions(frame, n)
		if !ok {
			require.Nil(t, regions)
			return
		}
		require.Len(t, regions, n)
		clear(frame)
		again := appendRegions(nil, regions)
		for i, g := range regions {
			require.NotZero(t, g.Handle)
			require.NotZero(t, g.Length)
			require.Zero(t, g.Rights&^regionRights)
			require.GreaterOrEqual(t, g.Address+(g.Length-1), g.Address)
			const said = layout.OfferedRegionReservedOffset // the bytes behind it are not checked
			at := i * layout.OfferedRegionSize
			require.True(t, bytes.Equal(b[at:at+said], again[at:at+said]), "region %d", i)
		}
	})
}

// Peers that ask at once, or one after the other, receive each other's regions.
func TestRegionsOfPeers(t *testing.T) {
	for _, pause := range []int64{0, 500e6, 4e9} {
		w := newWorld(perfect)
		var told [2][]Region
		names := [2]string{"a", "b"}
		for node := range 2 {
			e := endpoint(node, 1)
			e.Attributes.Regions = offering(3 + 5*node)
			w.nodes[node].e.Request(w.now, e, true, mac(1-node), names[1-node], names[node], w.now+1e12, func(theirs Attributes, err error) {
				require.NoError(t, err)
				told[node] = theirs.Regions
			})
			w.run(pause)
		}
		w.run(1e12)
		require.Equal(t, [2][]Region{offering(8), offering(3)}, told, "%d ps apart", pause)
	}
}
