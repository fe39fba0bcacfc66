// SPDX-License-Identifier: Apache-2.0

package wire_test

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
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

const (
	messageBytes = 2*layout.MaxPayload + 1000 // three frames
	areaBytes    = 2 * layout.AttPageBytes    // capacity for a message
	viaPatience  = 10 * host.Millisecond
)

// viaOutcome is what two users of VIA receive of four messages of three frames:
// an RDMA write and a send that the wire may damage, and another of each.
type viaOutcome struct {
	receives [2]viaReceive
	async    []layout.AsyncError
	writes   [2][]byte // memory of the RDMA writes
	sends    [2][]byte // memory of the sends
	digest   bridge.Digest
}

type viaReceive struct {
	status uint32
	length int
}

func viaMessage(i int) []byte {
	b := make([]byte, messageBytes)
	for k := range b {
		b[k] = byte(1 + (k*13+i*101)%255) // never 0, as memory was
	}
	return b
}

func openVia(t *host.Thread, h *driver.Host) (*endpoint.Endpoint, [4]*vipl.Descriptor, error) {
	const descriptors = 5 * areaBytes
	e, err := endpoint.Open(t, h, endpoint.Config{Bytes: descriptors + layout.AttPageBytes, Receives: -1})
	var d [4]*vipl.Descriptor
	for i := range d {
		if err == nil {
			d[i], err = e.Buffer.Descriptor(descriptors+i*vipl.DescriptorBytes, 1)
		}
	}
	return e, d, err
}

// sayVia sends the four messages.
func sayVia(t *host.Thread, h *driver.Host) error {
	e, d, err := openVia(t, h)
	if err != nil {
		return err
	}
	if err := errors.Join(e.Dial(t, vipl.At(1, "wire"), host.Second), t.Barrier(1, 2)); err != nil {
		return err
	}
	for i := range d {
		copy(e.Bytes()[i*areaBytes:], viaMessage(i))
		s := e.Buffer.Segment(i*areaBytes, messageBytes)
		if i%2 == 0 {
			d[i].SetRDMAWrite(e.Peer.Address+uint64(i*areaBytes), e.Peer.Handle, s)
		} else if err := d[i].SetSend(s); err != nil {
			return err
		}
		if err := e.VI.PostSend(t, d[i]); err != nil {
			return err
		}
		// Unreliable: the sender does not know.
		if _, err := e.VI.SendWait(t, viaPatience); err != nil {
			return fmt.Errorf("message %d: %w", i+1, err)
		}
	}
	return errors.Join(t.Barrier(2, 2), t.Barrier(3, 2))
}

// hear receives the four messages.
func (o *viaOutcome) hear(t *host.Thread, h *driver.Host) error {
	e, d, err := openVia(t, h)
	if err != nil {
		return err
	}
	if err := e.Accept(t, "wire", host.Second); err != nil {
		return err
	}
	for i := range o.receives {
		err := d[i].SetReceive(e.Buffer.Segment((2*i+1)*areaBytes, messageBytes))
		if err := errors.Join(err, e.VI.PostRecv(t, d[i])); err != nil {
			return err
		}
	}
	if err := t.Barrier(1, 2); err != nil {
		return err
	}
	for i := range o.receives {
		got, err := e.VI.RecvWait(t, viaPatience)
		if got == nil {
			return fmt.Errorf("receive %d: %w", i+1, err)
		}
		o.receives[i] = viaReceive{uint32(got.Status()), got.Length()}
	}
	// Nothing reports the last message.
	if err := errors.Join(t.Barrier(2, 2), t.Sleep(2*host.Millisecond)); err != nil {
		return err
	}
	for {
		a, err := e.NIC.ErrorWait(t, 0)
		if errors.Is(err, vipl.ErrTimeout) {
			break
		}
		if err != nil {
			return err
		}
		o.async = append(o.async, a.Code)
	}
	for i := range o.writes {
		o.writes[i] = bytes.Clone(e.Bytes()[2*i*areaBytes:][:messageBytes])
		o.sends[i] = bytes.Clone(e.Bytes()[(2*i+1)*areaBytes:][:messageBytes])
	}
	return t.Barrier(3, 2)
}

// speak plays the four messages on hosts of a device over a lossy link.
func speak(t *testing.T, device driver.Device, faults string, arguments ...string) (o viaOutcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	f, err := sim.ParseWireFaults(faults)
	require.NoError(t, err)
	err = fabric.Run(ctx, fabric.RunConfig{Seed: unit.Seed(t), Device: device, Fabric: sim.Config{Faults: f, Arguments: arguments}, Finished: func(f *sim.Fabric) (err error) {
		o.digest, err = f.Digest(ctx)
		return err
	}}, fabric.Program{Node: 0, Name: "client", Main: sayVia}, fabric.Program{Node: 1, Name: "server", Main: o.hear})
	require.NoError(t, err, "%v with %q", device, faults)
	return o
}

// When a message loses its middle frame, or receives it too late, unreliable
// delivery still writes the first frame, reports an error to the receiver, and
// writes nothing after the gap. The next message is complete.
func TestViaOnAFailingWire(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	const first = layout.MaxPayload // bytes of the first frame
	spoilt := func(what string) string {
		return fmt.Sprintf("0>1:%s,%s", fmt.Sprintf(what, 1), fmt.Sprintf(what, 2))
	}
	both := []driver.Device{driver.DeviceHvia, driver.DeviceMvia}
	for _, c := range []struct {
		faults string
		lost   bool
	}{
		{spoilt("drop=message %d frame 2"), true},
		{spoilt("corrupt=message %d frame 2"), true},
		{spoilt("corrupt=message %d frame 2 bits 1"), true},
		{spoilt("truncate=message %d frame 2 to 700"), true},
		{spoilt("truncate=message %d frame 2 to 40"), true},
		{spoilt("truncate=message %d frame 2 to 3"), true},
		{spoilt("reorder=message %d frame 2"), true},
		{spoilt("duplicate=message %d frame 2"), false},
		{spoilt("delay=message %d frame 2 by 50us"), false},
	} {
		for _, device := range both {
			o := speak(t, device, c.faults)
			name := fmt.Sprintf("%v: %s", device, c.faults)
			wire := o.digest.Wire[0]
			faults := uint64(0)
			for _, n := range wire.Faults {
				faults += n
			}
			require.EqualValues(t, 2, faults, name)
			wantWrite, wantSend := viaMessage(0), viaMessage(1)
			want := viaReceive{layout.DescriptorStatusDoneMask, messageBytes}
			var async []layout.AsyncError
			if c.lost {
				clear(wantWrite[first:])
				clear(wantSend[first:])
				want = viaReceive{layout.DescriptorStatusDoneMask | layout.DescriptorStatusPartialErrorMask, first}
				async = []layout.AsyncError{layout.AsyncErrorRDMAWriteAbort}
			}
			require.Equal(t, want.length, o.receives[0].length, name)
			require.Equal(t, want.status, o.receives[0].status&(layout.DescriptorStatusDoneMask|layout.DescriptorStatusPartialErrorMask), name)
			require.Equal(t, messageBytes, o.receives[1].length, name)
			require.Zero(t, o.receives[1].status&layout.DescriptorStatusPartialErrorMask, name)
			require.Equal(t, async, o.async, name)
			require.Equal(t, [2][]byte{wantWrite, viaMessage(2)}, o.writes, name)
			require.Equal(t, [2][]byte{wantSend, viaMessage(3)}, o.sends, name)
		}
	}
}

// The same on cards without skipped clocks, twice, and on cut-through cards,
// which know the FCS only after they have started to pass a frame on.
func TestCardOnAFailingWire(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	// The last frame is delayed for longer than everything else takes.
	const faults = "0>1:drop=message 1 frame 2,corrupt=message 2 frame 2,reorder=message 4 frame 3 within 300us"
	o := speak(t, driver.DeviceHvia, faults)
	require.Equal(t, viaMessage(3), o.sends[1])
	require.Equal(t, o, speak(t, driver.DeviceHvia, faults))
	require.Equal(t, o, speak(t, driver.DeviceHvia, faults, "--no-skip", "1"))
	require.NotEqual(t, o.digest, speak(t, driver.DeviceHvia, faults+"; seed=5").digest)

	for _, damage := range []string{"corrupt=message 1 frame 2,corrupt=message 2 frame 2", "truncate=message 1 frame 2 to 1400,truncate=message 2 frame 2 to 600"} {
		want := speak(t, driver.DeviceHvia, "0>1:"+damage)
		got := speak(t, driver.DeviceHvia, "0>1:"+damage, "--strap", fmt.Sprint(1<<layout.StrapCutThroughReceive))
		require.Equal(t, want.receives, got.receives, damage)
		require.Equal(t, want.async, got.async, damage)
		require.NotEqual(t, want.writes[0], got.writes[0], "the strap did nothing")
		for i := range want.writes {
			require.Equal(t, whole(want.writes[i]), whole(got.writes[i]), damage)
			require.Equal(t, whole(want.sends[i]), whole(got.sends[i]), damage)
		}
	}
}

// whole is the part of a message's memory that must not contain bytes with a
// bad FCS. A cut-through card may have written a part of the second frame, and
// reports that the message is damaged. After that frame it writes nothing.
func whole(b []byte) [2]string {
	return [2]string{string(b[:layout.MaxPayload]), string(b[2*layout.MaxPayload:])}
}
