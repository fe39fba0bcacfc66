// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/unit/internal/unit"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

const (
	heldSize     = 5000
	heldMessages = 20 // 80 frames, more than all buffers of the receiver hold
)

// heldWire is a sender of messages and a peer that holds the wire meanwhile.
type heldWire struct {
	data     host.Time // payload frames start here
	releases []host.Time
}

func fillHeld(b []byte, message int) {
	for i := range b {
		b[i] = byte(i*7 + message)
	}
}

func (x *heldWire) send(t *host.Thread, h *driver.Host) error {
	e, err := endpoint.Open(t, h, endpoint.Config{Bytes: heldMessages * heldSize})
	if err != nil {
		return err
	}
	if err := errors.Join(e.Dial(t, vipl.At(1, "held"), host.Second), t.Barrier(1, 2)); err != nil {
		return err
	}
	x.data = t.Now()
	for i := range heldMessages {
		fillHeld(e.Bytes()[i*heldSize:][:heldSize], i)
		if err := e.Write(t, i*heldSize, heldSize, i*heldSize, host.Second); err != nil {
			return err
		}
	}
	return errors.Join(t.Barrier(2, 2), e.Close(t))
}

func (x *heldWire) hold(t *host.Thread, h *driver.Host) error {
	e, err := endpoint.Open(t, h, endpoint.Config{Bytes: heldMessages * heldSize})
	if err != nil {
		return err
	}
	if err := errors.Join(e.Accept(t, "held", host.Second), t.Barrier(1, 2)); err != nil {
		return err
	}
	// First many short holds, to catch frames between the MAC and the wire.
	// Then one so long that most frames are held.
	for i := range 101 {
		span := 1100 * host.Nanosecond
		if i == 100 {
			span = 2 * host.Millisecond
		}
		if err := errors.Join(t.HoldWire(true), t.Sleep(span), t.HoldWire(false)); err != nil {
			return err
		}
		x.releases = append(x.releases, t.Now())
	}
	want := make([]byte, heldSize)
	fillHeld(want, heldMessages-1)
	if err := e.Poll(t, heldMessages*heldSize-1, want[heldSize-1], host.Second); err != nil {
		return err
	}
	for i := range heldMessages {
		if fillHeld(want, i); !bytes.Equal(want, e.Bytes()[i*heldSize:][:heldSize]) {
			return fmt.Errorf("message %d did not come as it was sent", i)
		}
	}
	return errors.Join(t.Barrier(2, 2), e.Close(t))
}

// A held wire between cards. Frames sent meanwhile arrive complete after the
// release. The MAC gives a frame to the link before the frame starts on the
// wire (here long before), and no release makes it arrive too early.
func TestHeldWireBetweenCards(t *testing.T) {
	takesSeconds(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var x heldWire
	records := unit.NewRecords(t)
	delay := map[string]int64{"MacTransmitDelay": int64(5 * host.Microsecond)}
	err := fabric.Run(ctx, fabric.RunConfig{Fabric: sim.Config{Params: delay, Arguments: records.Arguments()}},
		fabric.Program{Node: 0, Name: "sender", Main: x.send}, fabric.Program{Node: 1, Name: "holder", Main: x.hold})
	require.NoError(t, err)

	var ends []host.Time
	for _, r := range records.Trace(t) {
		if layout.TraceEvent(r.Event()) == layout.TraceEventWireEnd && r.Node() == 1 {
			ends = append(ends, host.Time(r.Time()))
		}
	}
	const byteTime = 8 * params.WireBitTime
	final := x.releases[len(x.releases)-1]
	var free host.Time
	i, inTime, kept := 0, 0, 0
	for _, f := range records.Frames(t) {
		if f.Source() != 0 {
			continue
		}
		require.Less(t, i, len(ends))
		at, span := host.Time(f.Time()), host.Time(params.WirePreambleBytes+len(f.Bytes)+params.WireFcsBytes)*byteTime
		// when the frame starts on the wire
		start := ends[i] - span - params.PhyTransmitDelay - params.CableDelay - params.PhyReceiveDelay
		require.GreaterOrEqual(t, start, at, "frame %d arrives before its time", i)
		require.GreaterOrEqual(t, start, free, "frame %d comes too close", i)
		free = start + span + params.WireGapBytes*byteTime
		switch {
		case at < x.data:
		case start == at:
			inTime++
		case start >= final:
			if kept++; kept == 1 {
				require.Equal(t, final, start, "frame %d", i)
			}
		}
		i++
	}
	require.Len(t, ends, i)
	t.Logf("%d frames, %d in time, %d after the long hold", i, inTime, kept)
	require.Positive(t, inTime)
	require.Greater(t, kept, 40)
}
