// SPDX-License-Identifier: Apache-2.0

package demo

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

	"hvia/bench/internal/benchtest"
	"hvia/bench/internal/tracetest"
	"hvia/bench/rig"
	"hvia/costs"
	"hvia/layout"
)

func demo(t *testing.T, c Config) *Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r, err := Run(ctx, c)
	require.NoError(t, err, "replay with HVIA_SEED=%d", c.Seed)
	return r
}

// The demo reports every step of the message in order, at any number of frames,
// and the same in two runs.
func TestDemo(t *testing.T) {
	sizes := []int{1, 64, layout.MaxPayload, layout.MaxPayload + 1, 4096, rig.MaxSize}
	if testing.Short() {
		sizes = []int{4096}
	}
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			c := DefaultConfig()
			c.Size, c.Seed = n, benchtest.Seed(t)
			r := demo(t, c)
			require.True(t, r.Verified, "%s", r.Fault)
			require.Len(t, r.Environment.RTL, 16)
			require.Len(t, r.Digest, 16)
			at := map[string]int64{} // of a frame's step
			for i, s := range r.Steps {
				require.False(t, i > 0 && s.TimePs < r.Steps[i-1].TimePs, "step %d goes back", i)
				at[fmt.Sprintf("%s %s %d", s.Where, s.What, s.Frame)] = s.TimePs
			}
			frames := rig.FramesOf(n)
			for f := range frames {
				number := f + 1
				if frames == 1 {
					number = 0
				}
				last := int64(-1)
				for _, d := range rig.Deeds {
					switch d.Event {
					case layout.TraceEventCompletionWritten, layout.TraceEventMacTransmitEnd, layout.TraceEventMacReceiveStart:
						continue // outside the frame's path; the MAC starts to store a long frame before its end
					}
					k := number
					if !d.Frame {
						k = 0
					}
					now, ok := at[fmt.Sprintf("%s %s %d", d.Where, d.What, k)]
					require.True(t, ok, "frame %d: nothing tells that %s %s", number, d.Where, d.What)
					require.GreaterOrEqual(t, now, last, "frame %d: %s %s", number, d.Where, d.What)
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

// gopacket finds the message, byte by byte, among the demo's frames, and the
// wave files are not empty.
func TestDemoRecords(t *testing.T) {
	benchtest.TakesSeconds(t)
	dir := t.TempDir()
	c := DefaultConfig()
	c.Size, c.Seed = 3000, benchtest.Seed(t)
	plain := demo(t, c)
	c.PcapFile, c.WaveFile = filepath.Join(dir, "demo.pcapng"), filepath.Join(dir, "demo.fst")
	require.Equal(t, plain, demo(t, c), "recording changes nothing")
	frames, reader := benchtest.ReadCapture(t, c.PcapFile)
	require.Contains(t, reader.SectionInfo().Comment, fmt.Sprintf("profile %s, seed %d", c.Profile, c.Seed))
	require.Equal(t, [2]int{3, 1}, benchtest.CheckFrames(t, frames))
	var payload []byte
	for _, f := range frames {
		if f.Node == 0 && layout.EthernetHeader(f.Bytes).EtherType() == layout.EtherTypeVia {
			h := layout.ViaHeader(f.Bytes[layout.EthernetHeaderSize:])
			payload = append(payload, f.Bytes[layout.EthernetHeaderSize+layout.ViaHeaderSize:][:h.PayloadLength()]...)
		}
	}
	want := make([]byte, c.Size)
	rig.Pattern{Seed: c.Seed, Sender: 0, Round: demoRound}.Fill(want)
	require.True(t, bytes.Equal(want, payload), "the frames carry the message")
	for n := range 2 {
		info, err := os.Stat(rig.WaveOf(c.WaveFile, n))
		require.NoError(t, err)
		require.Greater(t, info.Size(), int64(10_000))
	}
}

// The demo fails on a card that stores a wrong byte, and names the byte.
func TestDemoFindsAWrongByte(t *testing.T) {
	program := benchtest.WrongByteSimulator(t)
	c := DefaultConfig()
	c.Size, c.Seed, c.program = 1400, benchtest.Seed(t), program
	r := demo(t, c)
	require.False(t, r.Verified)
	require.Regexp(t, `^node 1: round 1 from node 0: byte \d+ of 1400 is`, r.Fault)
}

func TestDemoRefuses(t *testing.T) {
	c := DefaultConfig()
	require.NoError(t, c.Validate())
	c.Size = -1
	require.ErrorIs(t, c.Validate(), costs.ErrConfig)
	c.Size = rig.MaxSize + 1
	_, err := Run(t.Context(), c)
	require.ErrorIs(t, err, costs.ErrConfig)
	c = DefaultConfig()
	c.WaveFile = filepath.Join(t.TempDir(), "none", "x.fst")
	r, err := Run(t.Context(), c)
	require.ErrorIs(t, err, rig.ErrOutput)
	require.Empty(t, r.Steps)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Run(ctx, DefaultConfig())
	require.ErrorIs(t, err, context.Canceled)
}

func TestCardSteps(t *testing.T) {
	steps, err := cardSteps(tracetest.Message(500, 1), 3, 5, 1)
	require.NoError(t, err)
	require.Len(t, steps, len(rig.Deeds))
	for i, s := range steps {
		require.Equal(t, rig.Deeds[i].Where, s.Where)
		require.Equal(t, rig.Deeds[i].What, s.What)
		require.Equal(t, int64(500+10*i), s.TimePs)
		require.Zero(t, s.Frame, "a message of one frame needs no number")
	}
	own := tracetest.Message(500, 3)
	steps, err = cardSteps(own, 3, 5, 3)
	require.NoError(t, err)
	require.Len(t, steps, len(own))
	require.Equal(t, 3, steps[len(steps)-1].Frame)

	// Other messages before and after, and in the other direction, do not
	// matter.
	more := tracetest.Merged(tracetest.Moved(tracetest.Without(own, layout.TraceEventHostDoorbell), -5000, func(*rig.TraceEvent) {}), own, tracetest.Moved(own, 9000, func(*rig.TraceEvent) {}), tracetest.Moved(tracetest.Moved(own, 3, tracetest.OtherNode), 0, tracetest.OtherVI))
	again, err := cardSteps(more, 3, 5, 3)
	require.NoError(t, err)
	require.Equal(t, steps, again)
}

func TestCardStepsMissesEveryDeed(t *testing.T) {
	for _, d := range rig.Deeds {
		steps, err := cardSteps(tracetest.Without(tracetest.Message(0, 2), d.Event), 3, 5, 2)
		require.ErrorIs(t, err, rig.ErrTrace, "%s %s", d.Where, d.What)
		if d.Event != layout.TraceEventHostDoorbell {
			require.ErrorContains(t, err, d.Where+" "+d.What+": 0 times")
			require.NotEmpty(t, steps)
		}
	}
	// A raw frame in the middle would be taken for the message's on the wire.
	raw := []rig.TraceEvent{{TimePs: 55, Node: 0, Event: layout.TraceEventRawTransmitted}}
	_, err := cardSteps(tracetest.Merged(tracetest.Message(0, 1), raw), 3, 5, 1)
	require.ErrorIs(t, err, rig.ErrTrace)
	raw[0].Node = 1
	_, err = cardSteps(tracetest.Merged(tracetest.Message(0, 1), raw), 3, 5, 1)
	require.NoError(t, err)
}

func FuzzCardSteps(f *testing.F) {
	f.Add(make([]byte, 3*layout.TraceRecordSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = cardSteps(tracetest.Decoded(t, b), 3, 5, 2)
	})
}
