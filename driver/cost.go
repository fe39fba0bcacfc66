// SPDX-License-Identifier: Apache-2.0

package driver

// CostModel says what the host processor's work takes in timed mode. The
// values belong to who runs an experiment; driver and vipl only say where
// time is spent. In free mode nothing is charged.
type CostModel interface {
	// Post is a post, from the call to the doorbell's store.
	Post() Time
	// PollPeriod is the distance of the looks of a polling loop, and what a
	// look that finds nothing takes. It must not be 0: a loop that takes no
	// time would never let the card go on.
	PollPeriod() Time
	// Done is taking a completed descriptor from its queue.
	Done() Time
	// AgentCall is the way into the kernel agent and back.
	AgentCall() Time
	// PinPage is pinning or releasing one page.
	PinPage() Time
	// Interrupt is entering and leaving the interrupt service.
	Interrupt() Time
}

// NoCosts charges nothing, for functional work: what passes is the card's
// time. Its polling loops look at every clock of a 10 MHz bus, which is often
// enough to see, and seldom enough to run fast.
type NoCosts struct{}

var _ CostModel = NoCosts{}

func (NoCosts) Post() Time       { return 0 }
func (NoCosts) PollPeriod() Time { return 100 * Nanosecond }
func (NoCosts) Done() Time       { return 0 }
func (NoCosts) AgentCall() Time  { return 0 }
func (NoCosts) PinPage() Time    { return 0 }
func (NoCosts) Interrupt() Time  { return 0 }
