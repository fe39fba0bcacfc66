// SPDX-License-Identifier: Apache-2.0

// Package card is the register level of a host's device, as its kernel agent
// drives it: a Card executes commands and has a raw port for connection frames,
// an Ethernet is a plain NIC with rings of frames.
package card

import (
	"errors"
	"fmt"

	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim/bridge"
)

// Errors of this package. Returned errors wrap one of them and name the
// operation, its object and the value.
var (
	ErrState    = errors.New("not possible in this state")
	ErrIdentity = errors.New("the driver does not support this device")
	ErrCommand  = errors.New("the device rejected a command")
	ErrDeadline = errors.New("the device did not respond in time")
)

// Limits of waits for a device, far above its slowest command. They are
// simulated time in free mode too, where the simulator's process may get no
// processor for a while.
const (
	CommandLimit = host.Second
	readyLimit   = host.Second
	transmitWait = 100 * host.Millisecond
)

// identify checks a device's ID, its register interface and its layout, and
// returns the version of the interface.
func identify(t *host.Thread, id uint32) (version uint32, err error) {
	var v [4]uint32
	for i, offset := range []uint32{
		layout.RegisterIDOffset, layout.RegisterVersionOffset, layout.RegisterLayoutHashLowOffset, layout.RegisterLayoutHashHighOffset,
	} {
		if v[i], err = t.Read(layout.PciBar0Base + offset); err != nil {
			return 0, err
		}
	}
	const major = layout.CardVersionMajor
	hash := uint64(v[3])<<32 | uint64(v[2])
	switch got := v[1] & layout.RegisterVersionMajorMask >> layout.RegisterVersionMajorLsb; {
	case v[0] != id:
		return 0, fmt.Errorf("register ID reads %#x, want %#x: %w", v[0], id, ErrIdentity)
	case got != major:
		return 0, fmt.Errorf("register interface %d.%d, this driver supports %d.x: %w", got, v[1]&layout.RegisterVersionMinorMask, major, ErrIdentity)
	case hash != layout.Hash:
		return 0, fmt.Errorf("layout hash %016x of the device, %016x of this program (rebuild both from one checkout): %w", hash, layout.Hash, ErrIdentity)
	}
	return v[1], nil
}

// await polls a register until its bits in mask read want.
func await(t *host.Thread, offset, mask, want uint32) error {
	for waited := host.Time(0); ; waited += 10 * host.Microsecond {
		v, err := t.Read(layout.PciBar0Base + offset)
		if err != nil {
			return err
		}
		if v&mask == want {
			return nil
		}
		if waited >= readyLimit {
			return fmt.Errorf("register at %#x reads %#x after %v, want %#x in bits %#x: %w", offset, v, readyLimit, want, mask, ErrDeadline)
		}
		if err := t.Pause(10 * host.Microsecond); err != nil {
			return err
		}
	}
}

// words returns the values of registers MacLow and MacHigh for an address.
func words(mac layout.MAC) []uint32 {
	return []uint32{uint32(mac[0]) | uint32(mac[1])<<8 | uint32(mac[2])<<16 | uint32(mac[3])<<24, uint32(mac[4]) | uint32(mac[5])<<8}
}

// allocate allocates memory that the device accesses until release.
func allocate(m *mem.Memory, to **mem.Buffer, bytes int, how mem.Scatter) error {
	b, err := m.Allocate(bytes, how)
	if err != nil {
		return err
	}
	if _, err := m.Pin(bridge.UseRing, b.Address(), uint64(b.Len())); err != nil {
		return errors.Join(err, b.Free())
	}
	*to = b
	return nil
}

func release(m *mem.Memory, buffers ...**mem.Buffer) error {
	for _, b := range buffers {
		if *b == nil {
			continue
		}
		if err := m.Unpin(bridge.UseRing, (*b).Address(), uint64((*b).Len())); err != nil {
			return err
		}
		if err := (*b).Free(); err != nil {
			return err
		}
		*b = nil
	}
	return nil
}
