// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"

	"hvia/att"
	"hvia/driver/card"
	"hvia/driver/internal/call"
	"hvia/host"
	"hvia/layout"
)

// Device names the device of a host's VIs.
type Device string

// Devices.
const (
	DeviceHvia Device = "hvia" // the card: VIA in hardware
	DeviceMvia Device = "mvia" // a plain Ethernet NIC: VIA in the kernel agent
)

// Check returns an error if there is no such device.
func (d Device) Check() error {
	switch d {
	case DeviceHvia, DeviceMvia:
		return nil
	}
	return fmt.Errorf("device '%s': want '%s' or '%s': %w", d, DeviceHvia, DeviceMvia, host.ErrInvalidParameter)
}

// device is the device that an agent drives: the card, or M-VIA. Its methods
// run on the agent's thread.
type device interface {
	// open identifies the device, and start brings it up.
	open() error
	start() error
	stop() error
	identity() card.Identity
	// level2Entries returns the capacity of the translation table in level-2
	// entries.
	level2Entries() uint32
	// enter publishes a registration to the device. remove ends one, in the
	// agent's table too: when it returns, nothing accesses its memory any more.
	enter(g att.Registration) error
	remove(h att.Handle) error
	// change modifies a registration's tag and rights, in the agent's table
	// too. It reports whether the region no longer exists, which is possible
	// after an error.
	change(h att.Handle, tag uint16, rights uint8) (gone bool, err error)
	viCommand(op layout.CommandOpcode, index int, fill func(layout.VIContext)) error
	// queueCommand executes a completion queue command, Create and Resize with
	// the physical address of a ring and the log2 of its entries. It returns
	// the command's Detail.
	queueCommand(op layout.CommandOpcode, index int, address, log2 uint32) (uint32, error)
	// arm requests a notification. When it returns, earlier completions are in
	// memory.
	arm(kind layout.NotifyKind, index int) error
	// send puts a frame on the wire. It may be lost.
	send(frame []byte) error
	// interrupt serves the node's interrupt. It passes connection frames to
	// take, and notifications to notified. It reports whether asynchronous
	// errors may be queued.
	interrupt(take func(frame []byte), notified func(kind layout.NotifyKind, index int)) (errors bool, err error)
	// asyncErrors takes the queued asynchronous errors, and marks of the VIs
	// whose errors were dropped.
	asyncErrors() ([]call.AsyncError, [layout.AsyncErrorDroppedWords]uint32, error)
	counter(n layout.Counter) (uint32, error)
	// deadline returns the time of the next tick. tick is called after every
	// event, due or not.
	deadline() host.Time
	tick() error
}
