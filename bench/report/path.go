// SPDX-License-Identifier: Apache-2.0

package report

import "hvia/driver"

// PathSteps are the names of what the way of a short message goes into, in the
// order in which the report has them.
var PathSteps = []string{
	driver.LayerLibrary.String(), driver.LayerTrap.String(), driver.LayerCopy.String(), driver.LayerProtocol.String(), StepNIC, StepBus, StepWire,
	driver.LayerInterrupt.String(), driver.LayerAgent.String(), StepWake, driver.LayerSwitch.String(), driver.LayerPoll.String(), StepRest,
}

// What is no layer of a host's software.
const (
	StepNIC  = "NIC"  // its firmware, or the logic, MAC bus and MAC of the card
	StepBus  = "bus"  // the system bus, where nothing else is under way
	StepWire = "wire" // bits, PHYs and cable
	StepWake = "wake" // what was waited for is there; the thread does not have the processor yet
	StepRest = "not accounted"
)
