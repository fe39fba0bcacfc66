// SPDX-License-Identifier: Apache-2.0

package host

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
	// SendDone and ReceiveDone are what SendWait and RecvWait do besides
	// looking: taking a completed descriptor from its queue and handing it
	// back, from the look that finds the done bit to the return.
	SendDone() Time
	ReceiveDone() Time
	// TimeOfDay is a call that reads the clock, gettimeofday.
	TimeOfDay() Time
	// AgentCall is the way into the kernel agent and back.
	AgentCall() Time
	// PinPage is pinning or releasing one page.
	PinPage() Time
	// Interrupt is entering and leaving the interrupt service, which interrupts
	// what other threads of the node have charged.
	Interrupt() Time
	// Kernel is what the software protocols on a plain NIC cost.
	Kernel() KernelCosts
}

// KernelCosts is what the host processor's work takes in a protocol that runs
// in the kernel, over a plain NIC.
type KernelCosts struct {
	Trap       Time // a system call: into the kernel and out of it
	Switch     Time // giving the processor to a thread that was woken
	SendPacket Time // work for a packet on its way out: header, ring entry, tail
	CopyByte   Time // copying one byte between user memory and the kernel's

	Mvia ProtocolCosts // M-VIA
	Tcp  ProtocolCosts // TCP/IP
}

// ProtocolCosts are the two costs of a protocol that are fitted.
type ProtocolCosts struct {
	// ReceivePacket is the interrupt service's work for a received packet,
	// without copying its payload.
	ReceivePacket Time
	// Wake is the delay from the instant at which what a blocked thread waits
	// for is there to the instant at which the thread begins to get the
	// processor. It holds no processor.
	Wake Time
}

// Copy is the time that copying n bytes takes.
func (k KernelCosts) Copy(n int) Time { return k.CopyByte * Time(n) }

// NoCosts charges nothing, for functional work: what passes is the card's
// time. Its polling loops look at every clock of a 10 MHz bus, which is often
// enough to see, and seldom enough to run fast.
type NoCosts struct{}

var _ CostModel = NoCosts{}

func (NoCosts) Post() Time        { return 0 }
func (NoCosts) PollPeriod() Time  { return 100 * Nanosecond }
func (NoCosts) SendDone() Time    { return 0 }
func (NoCosts) ReceiveDone() Time { return 0 }
func (NoCosts) TimeOfDay() Time   { return 0 }
func (NoCosts) AgentCall() Time   { return 0 }
func (NoCosts) PinPage() Time     { return 0 }
func (NoCosts) Interrupt() Time   { return 0 }
func (NoCosts) Kernel() KernelCosts {
	return KernelCosts{}
}
