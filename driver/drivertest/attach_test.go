// SPDX-License-Identifier: Apache-2.0

package drivertest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/fabric"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim/bridge"
)

// echo is a protocol that returns its frames, and records its timers.
type echo struct {
	kinds    []uint16
	link     driver.Link
	got      [][]byte
	deadline host.Time
	fired    []host.Time
	sent     int // frames whose memory is free again
	answer   bool
	fail     error
}

func (p *echo) EtherTypes() []uint16 { return p.kinds }

func (p *echo) Frame(t *host.Thread, frame []byte) error {
	p.got = append(p.got, bytes.Clone(frame))
	if !p.answer {
		return p.fail
	}
	e := layout.EthernetHeader(bytes.Clone(frame))
	copy(e.Destination(), layout.EthernetHeader(frame).Source())
	own := p.link.Address()
	copy(e.Source(), own[:])
	return errors.Join(p.fail, p.link.Transmit(t, e, nil, func(*host.Thread) { p.sent++ }))
}

func (p *echo) Deadline() host.Time { return p.deadline }

func (p *echo) Timer(t *host.Thread) error {
	p.fired = append(p.fired, t.Now())
	p.deadline = host.Never
	return nil
}

const (
	kindA = 0x0800
	kindB = 0x0806
)

func header(to, from layout.MAC, kind uint16) []byte {
	b := make([]byte, layout.EthernetHeaderSize)
	e := layout.EthernetHeader(b)
	copy(e.Destination(), to[:])
	copy(e.Source(), from[:])
	e.SetEtherType(kind)
	return b
}

func runNICs(t *testing.T, mains ...func(*host.Thread, *driver.Host) error) error {
	t.Helper()
	f, err := drivertest.NewOf(driver.DeviceMvia, len(mains), 2*len(mains))
	require.NoError(t, err)
	t.Cleanup(f.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var list []fabric.Program
	for i, m := range mains {
		list = append(list, fabric.Program{Node: i, Main: m})
	}
	return fabric.RunOn(ctx, f, fabric.RunConfig{Device: driver.DeviceMvia}, list...)
}

// Frames go to the protocol of their EtherType, from a thread and from the
// interrupt service, and timers run when they are due.
func TestAttachedProtocols(t *testing.T) {
	const at = 5 * host.Millisecond
	client := &echo{kinds: []uint16{kindA, kindB}, deadline: host.Never}
	server := &echo{kinds: []uint16{kindA}, deadline: host.Never, answer: true}
	other := &echo{kinds: []uint16{kindB}, deadline: host.Never}
	body := bytes.Repeat([]byte("body "), 200)
	require.NoError(t, runNICs(t, func(th *host.Thread, h *driver.Host) error {
		var err error
		if client.link, err = h.AttachProtocol(th, client); err != nil {
			return err
		}
		if client.link.Address() != driver.NodeMAC(0) {
			return fmt.Errorf("address %v", client.link.Address())
		}
		b, err := h.Allocate(th, 2*mem.PageBytes, mem.Single)
		if err != nil {
			return err
		}
		if _, err := h.Memory().Pin(bridge.UseRing, b.Address(), uint64(b.Len())); err != nil {
			return err
		}
		const offset = mem.PageBytes - 300 // so that the body is in two pieces
		copy(b.Bytes()[offset:], body)
		if err := th.Sleep(host.Millisecond); err != nil {
			return err
		}
		for _, kind := range []uint16{kindA, kindB, 0x9999} {
			if err := client.link.Transmit(th, header(driver.NodeMAC(1), driver.NodeMAC(0), kind), b.Physical(nil, offset, len(body)),
				func(*host.Thread) { client.sent++ }); err != nil {
				return err
			}
		}
		// A deadline that the agent does not know yet.
		client.deadline = at
		if err := client.link.Reschedule(th); err != nil {
			return err
		}
		if err := th.Sleep(10 * host.Millisecond); err != nil {
			return err
		}
		return h.Memory().Unpin(bridge.UseRing, b.Address(), uint64(b.Len()))
	}, func(th *host.Thread, h *driver.Host) error {
		var err error
		if server.link, err = h.AttachProtocol(th, server); err != nil {
			return err
		}
		if other.link, err = h.AttachProtocol(th, other); err != nil {
			return err
		}
		return th.Sleep(10 * host.Millisecond)
	}))
	want := append(header(driver.NodeMAC(1), driver.NodeMAC(0), kindA), body...)
	require.Equal(t, [][]byte{want}, server.got)
	require.Equal(t, [][]byte{append(header(driver.NodeMAC(1), driver.NodeMAC(0), kindB), body...)}, other.got)
	require.Equal(t, [][]byte{append(header(driver.NodeMAC(0), driver.NodeMAC(1), kindA), body...)}, client.got)
	require.Equal(t, []host.Time{at}, client.fired)
	require.Equal(t, 3, client.sent)
	require.Equal(t, 1, server.sent)
	require.Empty(t, server.fired)
}

// Protocols that cannot be attached.
func TestProtocolsThatAreRefused(t *testing.T) {
	require.NoError(t, runNICs(t, func(th *host.Thread, h *driver.Host) error {
		if _, err := h.AttachProtocol(th, &echo{kinds: []uint16{kindA}, deadline: host.Never}); err != nil {
			return err
		}
		for _, kind := range []uint16{kindA, layout.EtherTypeVia, layout.EtherTypeConnection} {
			if _, err := h.AttachProtocol(th, &echo{kinds: []uint16{kindB, kind}, deadline: host.Never}); !errors.Is(err, host.ErrInUse) {
				return fmt.Errorf("EtherType %#x: %w", kind, errors.Join(err, errors.New("expected: in use")))
			}
		}
		// A rejected protocol holds no EtherType.
		_, err := h.AttachProtocol(th, &echo{kinds: []uint16{kindB}, deadline: host.Never})
		return err
	}))
	_, err := run(t, nil, func(th *host.Thread, h *driver.Host) error {
		_, err := h.AttachProtocol(th, &echo{kinds: []uint16{kindA}})
		return err
	})
	require.ErrorIs(t, err, driver.ErrUnsupported)
	require.ErrorContains(t, err, "device is 'hvia'")
}

// A protocol that fails ends the run with its error.
func TestProtocolThatFails(t *testing.T) {
	mine := errors.New("my own failure")
	err := runNICs(t, func(th *host.Thread, h *driver.Host) error {
		link, err := h.AttachProtocol(th, &echo{kinds: []uint16{kindA}, deadline: host.Never})
		if err != nil {
			return err
		}
		if err := th.Sleep(host.Millisecond); err != nil {
			return err
		}
		if err := link.Transmit(th, header(driver.NodeMAC(1), driver.NodeMAC(0), kindA), nil, nil); err != nil {
			return err
		}
		return th.Sleep(10 * host.Millisecond)
	}, func(th *host.Thread, h *driver.Host) error {
		if _, err := h.AttachProtocol(th, &echo{kinds: []uint16{kindA}, deadline: host.Never, fail: mine}); err != nil {
			return err
		}
		if err := th.Sleep(10 * host.Millisecond); err != nil {
			return err
		}
		_, err := h.OpenNIC(th)
		return err
	})
	require.ErrorIs(t, err, mine)
}
