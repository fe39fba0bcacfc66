// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

// A held wire between cards. Frames sent meanwhile arrive after the release,
// complete. The MAC passes a frame on before it starts on the wire (here long
// before), and no release is a short cut.
func TestHeldWireBetweenCards(t *testing.T) {
	takesSeconds(t)
	const (
		transmitDelay = 5 * host.Microsecond
		limit         = host.Second
		size          = 5000
		messages      = 20 // 80 frames, more than all buffers of the receiver hold
	)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	dir := t.TempDir()
	trace, capture := filepath.Join(dir, "trace"), filepath.Join(dir, "frames")
	fill := func(b []byte, message int) {
		for i := range b {
			b[i] = byte(i*7 + message)
		}
	}
	var releases []host.Time
	var data host.Time // payload frames start here
	programs := []fabric.Program{
		{Node: 0, Name: "sender", Main: func(t *host.Thread, h *driver.Host) error {
			e, err := endpoint.Open(t, h, endpoint.Config{Bytes: messages * size})
			if err != nil {
				return err
			}
			if err := errors.Join(e.Dial(t, vipl.At(1, "held"), limit), t.Barrier(1, 2)); err != nil {
				return err
			}
			data = t.Now()
			for i := range messages {
				fill(e.Bytes()[i*size:][:size], i)
				if err := e.Write(t, i*size, size, i*size, limit); err != nil {
					return err
				}
			}
			return errors.Join(t.Barrier(2, 2), e.Close(t))
		}},
		{Node: 1, Name: "holder", Main: func(t *host.Thread, h *driver.Host) error {
			e, err := endpoint.Open(t, h, endpoint.Config{Bytes: messages * size})
			if err != nil {
				return err
			}
			if err := errors.Join(e.Accept(t, "held", limit), t.Barrier(1, 2)); err != nil {
				return err
			}
			// First often and briefly, to meet frames between the MAC and the
			// wire; then so long that most frames are held.
			for i := range 101 {
				span := 1100 * host.Nanosecond
				if i == 100 {
					span = 2 * host.Millisecond
				}
				if err := errors.Join(t.HoldWire(true), t.Sleep(span), t.HoldWire(false)); err != nil {
					return err
				}
				releases = append(releases, t.Now())
			}
			want := make([]byte, size)
			fill(want, messages-1)
			if err := e.Poll(t, messages*size-1, want[size-1], limit); err != nil {
				return err
			}
			for i := range messages {
				if fill(want, i); !bytes.Equal(want, e.Bytes()[i*size:][:size]) {
					return fmt.Errorf("message %d did not come as it was sent", i)
				}
			}
			return errors.Join(t.Barrier(2, 2), e.Close(t))
		}},
	}
	err := fabric.Run(ctx, fabric.RunConfig{Fabric: sim.Config{Params: map[string]int64{"MacTransmitDelay": int64(transmitDelay)}, Arguments: []string{"--trace", trace, "--frames", capture}}}, programs...)
	require.NoError(t, err)

	type frame struct {
		start host.Time
		bytes int
	}
	var frames []frame
	b, err := os.ReadFile(capture)
	require.NoError(t, err)
	for len(b) > 0 {
		r := layout.FrameRecord(b[:layout.FrameRecordSize])
		if r.Source() == 0 {
			frames = append(frames, frame{host.Time(r.Time()), int(r.Length())})
		}
		b = b[layout.FrameRecordSize+int(r.Length()):]
	}
	var ends []host.Time
	b, err = os.ReadFile(trace)
	require.NoError(t, err)
	for ; len(b) > 0; b = b[layout.TraceRecordSize:] {
		if r := layout.TraceRecord(b[:layout.TraceRecordSize]); layout.TraceEvent(r.Event()) == layout.TraceEventWireEnd && r.Node() == 1 {
			ends = append(ends, host.Time(r.Time()))
		}
	}
	require.Len(t, ends, len(frames))
	const byteTime = 8 * params.WireBitTime
	final := releases[len(releases)-1]
	var free host.Time
	inTime, kept := 0, 0
	for i, f := range frames {
		span := host.Time(params.WirePreambleBytes+f.bytes+params.WireFcsBytes) * byteTime
		start := ends[i] - span - params.PhyTransmitDelay - params.CableDelay - params.PhyReceiveDelay // behind what held it
		require.GreaterOrEqual(t, start, f.start, "frame %d arrives before its time", i)
		require.GreaterOrEqual(t, start, free, "frame %d comes too close", i)
		free = start + span + params.WireGapBytes*byteTime
		switch {
		case f.start < data:
		case start == f.start:
			inTime++
		case start >= final:
			if kept++; kept == 1 {
				require.Equal(t, final, start, "frame %d", i)
			}
		}
	}
	t.Logf("%d frames, %d in time, %d after the long hold", len(frames), inTime, kept)
	require.Positive(t, inTime)
	require.Greater(t, kept, 40)
}
