// SPDX-License-Identifier: Apache-2.0

package driver

import "fmt"

// Device names what the VIs of a host are on.
type Device string

// Devices.
const (
	DeviceHvia Device = "hvia" // the card: VIA in hardware
	DeviceMvia Device = "mvia" // a plain Ethernet NIC: VIA in the kernel agent
)

func (d Device) check() error {
	switch d {
	case DeviceHvia, DeviceMvia:
		return nil
	}
	return fmt.Errorf("device '%s': want '%s' or '%s': %w", d, DeviceHvia, DeviceMvia, ErrInvalidParameter)
}

// kind is the simulator's kind of node that a device needs.
func (d Device) kind() string {
	if d == DeviceMvia {
		return "nic"
	}
	return "card"
}
