// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"

	"hvia/att"
	"hvia/host"
	"hvia/layout"
)

// Device names what the VIs of a host are on.
type Device string

// Devices.
const (
	DeviceHvia Device = "hvia" // the card: VIA in hardware
	DeviceMvia Device = "mvia" // a plain Ethernet NIC: VIA in the kernel agent
)

// Check reports whether there is such a device.
func (d Device) Check() error {
	switch d {
	case DeviceHvia, DeviceMvia:
		return nil
	}
	return fmt.Errorf("device '%s': want '%s' or '%s': %w", d, DeviceHvia, DeviceMvia, host.ErrInvalidParameter)
}

// device is what an agent drives: the card, or M-VIA. Its methods are for the
// agent's thread.
type device interface {
	// open finds out what there is, and start brings it up.
	open() error
	start() error
	stop() error
	identity() Identity
	// level2Entries is the number of level-2 entries that the translation table has
	// room for.
	level2Entries() uint32
	// enter makes a registration known. remove ends one, in the agent's table too:
	// when it returns nothing touches its memory any more.
	enter(g att.Registration) error
	remove(h att.Handle) error
	// change gives a registration another tag and other rights, in the agent's table
	// too. It reports whether the region is gone, which it may be after an error.
	change(h att.Handle, tag uint16, rights Rights) (gone bool, err error)
	// viCommand carries out one of the commands for VIs.
	viCommand(op layout.CommandOpcode, index int, fill func(layout.VIContext)) error
	// queueCommand carries out one of the commands for completion queues: for Create
	// and Resize with the physical address of a ring and the log2 of its entries. It
	// returns the command's Detail.
	queueCommand(op layout.CommandOpcode, index int, address, log2 uint32) (uint32, error)
	// arm asks for a notification. When it returns, what had come by then is in
	// memory.
	arm(kind layout.NotifyKind, index int) error
	// send puts a frame on the wire. It may be lost.
	send(frame []byte) error
	// interrupt serves the node's interrupt; connection frames go to take, what was
	// armed and has come to notified. It says whether asynchronous errors may wait.
	interrupt(take func(frame []byte), notified func(kind layout.NotifyKind, index int)) (errors bool, err error)
	// asyncErrors takes asynchronous errors that wait, and marks of the VIs of which
	// others were dropped.
	asyncErrors() ([]AsyncError, [layout.AsyncErrorDroppedWords]uint32, error)
	counter(n layout.Counter) (uint32, error)
	// deadline is when tick wants to be called next. It is called after every event,
	// due or not.
	deadline() host.Time
	tick() error
}
