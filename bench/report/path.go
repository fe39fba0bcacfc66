// SPDX-License-Identifier: Apache-2.0

package report

import "hvia/host"

// PathSteps are the parts of a short message's time, in the order of the
// report.
var PathSteps = []string{
	host.LayerLibrary.String(), host.LayerTrap.String(), host.LayerCopy.String(), host.LayerProtocol.String(), StepNIC, StepBus, StepWire,
	host.LayerInterrupt.String(), host.LayerAgent.String(), StepWake, host.LayerSwitch.String(), host.LayerPoll.String(), StepRest,
}

// Steps that are no layer of a host's software.
const (
	StepNIC  = "NIC"  // its firmware, or the logic, MAC bus and MAC of the card
	StepBus  = "bus"  // the system bus, where nothing else is in progress
	StepWire = "wire" // bits, PHYs and cable
	StepWake = "wake" // the awaited data is there; the thread does not have the processor yet
	StepRest = "not accounted"
)
