// SPDX-License-Identifier: Apache-2.0

package host

// CostModel has the costs of the host processor's work in timed mode. The
// experiment sets the values; driver and vipl only name where time is spent.
// Free mode charges nothing.
type CostModel interface {
	// Post is a post, from the call to the doorbell's store.
	Post() Time
	// PollPeriod is the period of a polling loop and the time of an empty poll.
	// It must not be 0: a loop that takes no time would stop the card.
	PollPeriod() Time
	// SendDone and ReceiveDone are the work of SendWait and RecvWait besides
	// polling: to reap a completed descriptor, from the poll that finds the
	// done bit to the return.
	SendDone() Time
	ReceiveDone() Time
	// TimeOfDay is a call that reads the clock, gettimeofday.
	TimeOfDay() Time
	// AgentCall is a call of the kernel agent and its return.
	AgentCall() Time
	// PinPage is pinning or releasing one page.
	PinPage() Time
	// Interrupt is entry and exit of the interrupt service, which preempts
	// charges of the node's other threads.
	Interrupt() Time
	// Kernel has the costs of the software protocols on a plain NIC.
	Kernel() KernelCosts
}

// KernelCosts are the processor times of a protocol in the kernel, over a plain
// NIC.
type KernelCosts struct {
	Trap       Time // a system call, entry and return
	Switch     Time // a context switch to a woken thread
	SendPacket Time // work for a packet sent: header, ring entry, tail
	CopyByte   Time // copying one byte between user memory and the kernel

	Mvia ProtocolCosts // M-VIA
	Tcp  ProtocolCosts // TCP/IP
}

// ProtocolCosts are the two fitted costs of a protocol.
type ProtocolCosts struct {
	// ReceivePacket is the interrupt service's work for a received packet,
	// without the copy of its payload.
	ReceivePacket Time
	// Wake is the delay from the event that a blocked thread waits for until
	// the thread starts to get the processor. It occupies no processor.
	Wake Time
}

// Copy returns the time to copy n bytes.
func (k KernelCosts) Copy(n int) Time { return k.CopyByte * Time(n) }

// NoCosts charges nothing, for functional work: only the card takes time. Its
// polling loops poll once per clock of a 10 MHz bus, often enough for prompt
// completions and seldom enough to run fast.
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
