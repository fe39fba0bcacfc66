// SPDX-License-Identifier: Apache-2.0

// Package hvia is the import of programs that use the RDMA NIC. It only renames
// what simple programs need of other packages.
//
// Run starts a simulated fabric and runs a Program on a thread of each host;
// Join joins a fabric that "hvia up" started. An Endpoint connects two programs
// with one call each. The rest of the VI Provider Library is in hvia/vipl.
package hvia

import (
	"context"

	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

// Arguments of Run and Join, and of a program.
type (
	Config     = fabric.RunConfig
	Program    = fabric.Program
	JoinConfig = fabric.JoinConfig
	Process    = fabric.Process
	Device     = driver.Device
	Thread     = host.Thread // makes the calls, and has the virtual clock
	Host       = driver.Host
	Time       = host.Time // simulated
)

// Devices of Config.
const (
	DeviceHvia = driver.DeviceHvia
	DeviceMvia = driver.DeviceMvia
)

// Units of Time. Infinite is the timeout that never ends.
const (
	Nanosecond  = host.Nanosecond
	Microsecond = host.Microsecond
	Millisecond = host.Millisecond
	Second      = host.Second
	Infinite    = vipl.Infinite
)

// Run starts a fabric, runs each program on a thread of its node, and closes
// everything when all have returned. When one fails, the others are stopped.
func Run(ctx context.Context, c Config, programs ...Program) error {
	return fabric.Run(ctx, c, programs...)
}

// Join joins a fabric that a service runs, as a program of one of its nodes.
func Join(ctx context.Context, c JoinConfig) (*Process, error) { return fabric.Join(ctx, c) }

// The library.
type (
	Endpoint       = endpoint.Endpoint
	EndpointConfig = endpoint.Config
	NIC            = vipl.NIC
	VI             = vipl.VI
	VIAttributes   = vipl.VIAttributes
	Address        = vipl.NetAddress
	Region         = vipl.Region
	MemAttributes  = vipl.MemAttributes
	Descriptor     = vipl.Descriptor
	CQ             = vipl.CQ
	Completion     = vipl.Completion
	Error          = vipl.Error
)

// Reliability levels.
const (
	Unreliable        = vipl.Unreliable
	ReliableDelivery  = vipl.ReliableDelivery
	ReliableReception = vipl.ReliableReception
)

// Statuses for errors.Is. The others are in package vipl.
const (
	ErrNotDone    = vipl.ErrNotDone
	ErrTimeout    = vipl.ErrTimeout
	ErrNoMatch    = vipl.ErrNoMatch
	ErrReject     = vipl.ErrReject
	ErrDescriptor = vipl.ErrDescriptor
)

// OpenEndpoint opens the NIC of the thread's host, with one VI and one buffer
// that the peer may write.
func OpenEndpoint(t *Thread, h *Host, c EndpointConfig) (*Endpoint, error) {
	return endpoint.Open(t, h, c)
}

// OpenNIC opens the NIC of the thread's host.
func OpenNIC(t *Thread, h *Host) (*NIC, error) { return vipl.OpenNIC(t, h) }

// At returns the address of a discriminator at a node of the fabric.
func At(node int, discriminator string) Address { return vipl.At(node, discriminator) }
