// SPDX-License-Identifier: Apache-2.0

package report

import "hvia/host"

// PathSteps are the names of what the way of a short message goes into, in the
// order in which the report has them.
var PathSteps = []string{
	host.LayerLibrary.String(), host.LayerTrap.String(), host.LayerCopy.String(), host.LayerProtocol.String(), StepNIC, StepBus, StepWire,
	host.LayerInterrupt.String(), host.LayerAgent.String(), StepWake, host.LayerSwitch.String(), host.LayerPoll.String(), StepRest,
}

// What is no layer of a host's software.
const (
	StepNIC  = "NIC"  // its firmware, or the logic, MAC bus and MAC of the card
	StepBus  = "bus"  // the system bus, where nothing else is under way
	StepWire = "wire" // bits, PHYs and cable
	StepWake = "wake" // what was waited for is there; the thread does not have the processor yet
	StepRest = "not accounted"
)
