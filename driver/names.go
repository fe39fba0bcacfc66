// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"hvia/driver/internal/agent"
	"hvia/driver/internal/call"
	"hvia/layout"
	"hvia/params"
)

// Types of the kernel agent for its clients.
type (
	AsyncError    = call.AsyncError
	RemoteError   = call.RemoteError
	Device        = agent.Device
	Entry         = agent.Entry
	HostConfig    = agent.Config
	HostStatus    = agent.Status
	Link          = agent.Link
	ProcessConfig = agent.ProcessConfig
	Protocol      = agent.Protocol
	Quota         = agent.Quota
	Transport     = agent.Transport
)

// Devices of a host's VIs.
const (
	DeviceHvia = agent.DeviceHvia // the card: VIA in hardware
	DeviceMvia = agent.DeviceMvia // a plain Ethernet NIC: VIA in the kernel agent
)

// Limits and ranks of the agent.
const (
	MaxTransferSize  = agent.MaxTransferSize // largest message of a VI
	MaxTags          = agent.MaxTags         // protection tags
	MaxCQEntries     = agent.MaxCQEntries
	QueueDepth       = 1 << params.QueueDepthLog2 // descriptors posted on a queue
	MaxThreads       = agent.MaxThreads           // of a process that may call the agent
	MaxDiscriminator = layout.MaxDiscriminator
	AgentRank        = call.AgentRank    // of the agent's thread; programs have higher ranks
	ServiceRank      = agent.ServiceRank // of the thread on which the owner of a resident agent sends it orders
	NoRetries        = agent.NoRetries   // the RetryLimit at which the first timeout breaks a connection
)

// NodeMAC returns the address of a node's card.
func NodeMAC(node int) layout.MAC { return agent.NodeMAC(node) }
