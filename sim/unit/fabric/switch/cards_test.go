// SPDX-License-Identifier: Apache-2.0

package switch_test

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
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
	"hvia/vipl"
)

const (
	rounds   = 3
	patience = host.Second
)

// text is a node's message in a round, with enough frames to meet others' in
// the switch.
func text(from, round int) []byte {
	b := make([]byte, 5000+from)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + from*31 + round*101)
	}
	return b
}

// endpoint is a VI and registered memory: a descriptor, and the buffer behind
// it.
type endpoint struct {
	nic    *vipl.NIC
	vi     *vipl.VI
	region *vipl.Region
	d      *vipl.Descriptor
}

const bufferAt = 1024

func open(t *host.Thread, h *driver.Host) (e endpoint, err error) {
	if e.nic, err = vipl.OpenNIC(t, h); err != nil {
		return e, err
	}
	b, err := e.nic.Alloc(t, 8192)
	if err != nil {
		return e, err
	}
	if e.region, err = e.nic.RegisterBuffer(t, b, vipl.MemAttributes{}); err != nil {
		return e, err
	}
	if e.d, err = e.region.Descriptor(0, 1); err != nil {
		return e, err
	}
	e.vi, err = e.nic.CreateVI(t, vipl.VIAttributes{})
	return e, err
}

// speaker connects to the next node and sends it its texts.
func speaker(next int) func(t *host.Thread, h *driver.Host) error {
	return func(t *host.Thread, h *driver.Host) error {
		e, err := open(t, h)
		if err != nil {
			return err
		}
		for {
			_, err := e.vi.ConnectRequest(t, vipl.NetAddress{}, vipl.At(next, "ring"), patience)
			if err == nil {
				break
			}
			if !errors.Is(err, vipl.ErrNoMatch) || t.Now() > patience {
				return err
			}
			if err := t.Sleep(100 * host.Microsecond); err != nil {
				return err
			}
		}
		for round := range rounds {
			n := copy(e.region.Bytes()[bufferAt:], text(t.ID().Node, round))
			if err := e.d.SetSend(e.region.Segment(bufferAt, n)); err != nil {
				return err
			}
			if err := e.vi.PostSend(t, e.d); err != nil {
				return err
			}
			if _, err := e.vi.SendWait(t, patience); err != nil {
				return err
			}
			// Lets the receiver post the next receive.
			if err := t.Sleep(host.Millisecond); err != nil {
				return err
			}
		}
		return nil
	}
}

func listener(before int) func(t *host.Thread, h *driver.Host) error {
	return func(t *host.Thread, h *driver.Host) error {
		e, err := open(t, h)
		if err != nil {
			return err
		}
		expect := func() error {
			if err := e.d.SetReceive(e.region.Segment(bufferAt, 6000)); err != nil {
				return err
			}
			return e.vi.PostRecv(t, e.d)
		}
		if err := expect(); err != nil {
			return err
		}
		r, err := e.nic.ConnectWait(t, vipl.NetAddress{Discriminator: "ring"}, patience)
		if err != nil {
			return err
		}
		if err := r.Accept(t, e.vi); err != nil {
			return err
		}
		for round := range rounds {
			d, err := e.vi.RecvWait(t, patience)
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			if got := e.region.Bytes()[bufferAt:][:d.Length()]; !bytes.Equal(got, text(before, round)) {
				return fmt.Errorf("round %d: %d bytes that node %d did not send", round, len(got), before)
			}
			if round < rounds-1 {
				if err := expect(); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// ring makes each node send to the next one and receive from the one before.
func ring(t *testing.T, nodes int, c fabric.RunConfig) bridge.Digest {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	var digest bridge.Digest
	c.Seed = 1
	c.Finished = func(f *sim.Fabric) (err error) {
		digest, err = f.Digest(ctx)
		return err
	}
	var programs []fabric.Program
	for n := range nodes {
		programs = append(programs,
			fabric.Program{Node: n, Name: fmt.Sprint("speaker ", n), Main: speaker((n + 1) % nodes)},
			fabric.Program{Node: n, Name: fmt.Sprint("listener ", n), Main: listener((n + nodes - 1) % nodes)})
	}
	require.NoError(t, fabric.Run(ctx, c, programs...))
	require.True(t, digest.Reproducible)
	for n := range nodes {
		// Three texts of four frames, a connection, and nothing lost.
		require.GreaterOrEqual(t, digest.Switch.Ports[n].Received, uint64(rounds*4+2), "from node %d", n)
		require.GreaterOrEqual(t, digest.Switch.Wire[n].Arrived, uint64(rounds*4+2), "to node %d", n)
		require.Zero(t, digest.Switch.Ports[n].NoRoom, "to node %d", n)
		require.Equal(t, digest.Wire[n].Sent, digest.Switch.Ports[n].Received, "from node %d", n)
	}
	return digest
}

// Eight cards and two programs on each, through the library.
func TestEightCards(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	start := time.Now()
	d := ring(t, 8, fabric.RunConfig{Fabric: sim.Config{MemoryBytes: 64 << 20}})
	t.Logf("simulated %v, wall %v", d.Time, time.Since(start).Round(time.Millisecond))
}

// The same over plain NICs, with the largest number of nodes, twice.
func TestRingOfPlainNICs(t *testing.T) {
	for _, nodes := range []int{3, 16} {
		c := fabric.RunConfig{Device: driver.DeviceMvia, Fabric: sim.Config{Program: unit.Simulator(t), MemoryBytes: 16 << 20}}
		require.Equal(t, ring(t, nodes, c), ring(t, nodes, c), "%d nodes", nodes)
	}
}

// stationKind is a protocol without frames: it gives a program the NIC.
type stationKind struct{}

func (stationKind) EtherTypes() []uint16             { return []uint16{0x0842} }
func (stationKind) Frame(*host.Thread, []byte) error { return nil }
func (stationKind) Deadline() host.Time              { return host.Never }
func (stationKind) Timer(*host.Thread) error         { return nil }

// A third node's frame with the address of a silent one misleads the switch for
// its ageing time, which is below the second for which programs wait for a
// connection.
func TestConnectionBehindAForgedAddress(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var digest bridge.Digest
	c := fabric.RunConfig{Device: driver.DeviceMvia, Fabric: sim.Config{Program: unit.Simulator(t), MemoryBytes: 16 << 20}}
	c.Finished = func(f *sim.Fabric) (err error) {
		digest, err = f.Digest(ctx)
		return err
	}
	here := vipl.NetAddress{Discriminator: "silent"}
	var connected host.Time
	require.NoError(t, fabric.Run(ctx, c,
		fabric.Program{Node: 0, Main: func(t *host.Thread, h *driver.Host) error {
			e, err := open(t, h)
			if err != nil {
				return err
			}
			if err := t.Sleep(10 * host.Millisecond); err != nil { // behind the forged frame
				return err
			}
			_, err = e.vi.ConnectRequest(t, vipl.NetAddress{}, vipl.At(1, here.Discriminator), patience)
			connected = t.Now()
			return err
		}},
		fabric.Program{Node: 1, Main: func(t *host.Thread, h *driver.Host) error {
			e, err := open(t, h)
			if err != nil {
				return err
			}
			r, err := e.nic.ConnectWait(t, here, 2*patience)
			if err != nil {
				return err
			}
			return errors.Join(r.Accept(t, e.vi), t.Sleep(100*host.Millisecond))
		}},
		fabric.Program{Node: 2, Main: func(t *host.Thread, h *driver.Host) error {
			link, err := h.AttachProtocol(t, stationKind{})
			if err != nil {
				return err
			}
			frame := make([]byte, layout.EthernetHeaderSize)
			header, silent := layout.EthernetHeader(frame), driver.NodeMAC(1)
			copy(header.Destination(), bytes.Repeat([]byte{0xff}, len(silent)))
			copy(header.Source(), silent[:])
			header.SetEtherType(stationKind{}.EtherTypes()[0])
			return errors.Join(t.Sleep(host.Millisecond), link.Transmit(t, frame, nil, nil), t.Sleep(patience))
		}}))
	require.EqualValues(t, 1, digest.Switch.Ports[2].Aged)
	require.Greater(t, connected, host.Time(params.SwitchAgeingTime))
	t.Logf("connected at %v", connected)
}
