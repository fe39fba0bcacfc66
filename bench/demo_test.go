// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/layout"
	"hvia/sim"
	"hvia/sim/verilate"
)

func macOf(node int) [6]byte { return driver.NodeMAC(node) }

func demo(t *testing.T, c DemoConfig) *DemoReport {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r, err := Demo(ctx, c)
	require.NoError(t, err, "replay with HVIA_SEED=%d", c.Seed)
	return r
}

// The demo tells every station of the message, in the order in which it must
// come by them, at any number of frames, and twice the same.
func TestDemo(t *testing.T) {
	sizes := []int{1, 64, layout.MaxPayload, layout.MaxPayload + 1, 4096, MaxSize}
	if testing.Short() {
		sizes = []int{4096}
	}
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			c := DefaultDemoConfig()
			c.Size, c.Seed = n, seed(t)
			r := demo(t, c)
			require.True(t, r.Verified, "%s", r.Fault)
			require.Len(t, r.Hashes.RTL, 16)
			require.Len(t, r.Digest, 16)
			at := map[string]int64{} // of a frame's station
			for i, s := range r.Steps {
				require.False(t, i > 0 && s.TimePs < r.Steps[i-1].TimePs, "step %d goes back", i)
				at[fmt.Sprintf("%s %s %d", s.Where, s.What, s.Frame)] = s.TimePs
			}
			frames := framesOf(n)
			for f := range frames {
				number := f + 1
				if frames == 1 {
					number = 0
				}
				last := int64(-1)
				for _, d := range deeds {
					switch d.event {
					case layout.TraceEventCompletionWritten, layout.TraceEventMacTransmitEnd, layout.TraceEventMacReceiveStart:
						continue // they happen beside the frame's way; the MAC begins to store a long frame before its end
					}
					k := number
					if !d.frame {
						k = 0
					}
					now, ok := at[fmt.Sprintf("%s %s %d", d.where, d.what, k)]
					require.True(t, ok, "frame %d: nothing tells that %s %s", number, d.where, d.what)
					require.GreaterOrEqual(t, now, last, "frame %d: %s %s", number, d.where, d.what)
					last = now
				}
			}
			require.Contains(t, at, "reader sees the last byte change: the message is there 0")
			require.Contains(t, at, "reader compares the message and the bytes around it: all as they must be 0")
			require.Contains(t, at, "writer sees Status and has its buffer back 0")
			require.Equal(t, r, demo(t, c))

			var b strings.Builder
			require.NoError(t, r.WriteText(&b))
			require.Contains(t, b.String(), fmt.Sprintf("verified: all %d bytes", n))
			if frames > maxFramesTold {
				require.Contains(t, b.String(), "steps of frames between the first and the last")
				require.Contains(t, b.String(), fmt.Sprintf("frame %d of %d: knows that the last payload byte", frames, frames))
				require.NotContains(t, b.String(), "frame 2 of")
			}
		})
	}
}

// The demo's frames as gopacket reads them: the message is among them, byte by
// byte, and the wave files hold something.
func TestDemoRecords(t *testing.T) {
	takesSeconds(t)
	dir := t.TempDir()
	c := DefaultDemoConfig()
	c.Size, c.Seed = 3000, seed(t)
	plain := demo(t, c)
	c.PcapFile, c.WaveFile = filepath.Join(dir, "demo.pcapng"), filepath.Join(dir, "demo.fst")
	require.Equal(t, plain, demo(t, c), "recording changes nothing")
	frames, reader := readCapture(t, c.PcapFile)
	require.Contains(t, reader.SectionInfo().Comment, fmt.Sprintf("profile %s, seed %d", c.Profile, c.Seed))
	require.Equal(t, [2]int{3, 1}, checkFrames(t, frames))
	var payload []byte
	for _, f := range frames {
		if f.node == 0 && layout.EthernetHeader(f.bytes).EtherType() == layout.EtherTypeVia {
			h := layout.ViaHeader(f.bytes[layout.EthernetHeaderSize:])
			payload = append(payload, f.bytes[layout.EthernetHeaderSize+layout.ViaHeaderSize:][:h.PayloadLength()]...)
		}
	}
	want := make([]byte, c.Size)
	pattern{c.Seed, 0, demoRound}.fill(want)
	require.True(t, bytes.Equal(want, payload), "the frames carry the message")
	for n := range 2 {
		info, err := os.Stat(waveOf(c.WaveFile, n))
		require.NoError(t, err)
		require.Greater(t, info.Size(), int64(10_000))
	}
}

// A card that stores a wrong byte fails the demo, which names it.
func TestDemoFindsAWrongByte(t *testing.T) {
	program := wrongByteSimulator(t)
	c := DefaultDemoConfig()
	c.Size, c.Seed, c.program = 1400, seed(t), program
	r := demo(t, c)
	require.False(t, r.Verified)
	require.Regexp(t, `^node 1: round 1 from node 0: byte \d+ of 1400 is`, r.Fault)
}

// wrongByte is a fault of the card: one bit in long bursts.
var wrongByte = verilate.Mutant{
	File: "rtl/host/hvia_dma_write.sv", Old: ".in_data_i(beat_data_i)", New: ".in_data_i(beat_data_i ^ {{(W-1){1'b0}}, head_left_q[9:2] == 8'd75})",
}

// wrongByteSimulator builds the simulator with that card. It takes minutes, so
// only 'make mutants' and 'make test-long' do it.
func wrongByteSimulator(t *testing.T) string {
	t.Helper()
	if os.Getenv("HVIA_MUTANTS") != "1" && os.Getenv("HVIA_LONG") != "1" {
		t.Skip("builds a simulator with a planted fault: make mutants")
	}
	program, err := sim.Simulator(t.Context(), wrongByte)
	require.NoError(t, err)
	return program
}

func TestDemoRefuses(t *testing.T) {
	c := DefaultDemoConfig()
	c.Size = MaxSize + 1
	_, err := Demo(t.Context(), c)
	require.ErrorIs(t, err, ErrConfig)
	c = DefaultDemoConfig()
	c.WaveFile = filepath.Join(t.TempDir(), "none", "x.fst")
	r, err := Demo(t.Context(), c)
	require.ErrorIs(t, err, ErrOutput)
	require.Empty(t, r.Steps)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Demo(ctx, DefaultDemoConfig())
	require.ErrorIs(t, err, context.Canceled)
}
