// SPDX-License-Identifier: Apache-2.0

package host

// CostModel has the costs of the host processor's work in timed mode. The
// experiment sets the values; driver and vipl charge them. Free mode charges
// nothing, and neither does the zero value: only the card takes time.
type CostModel struct {
	// Post is a post, from the call to the doorbell's store.
	Post Time
	// Poll is the period of a polling loop and the time of an empty poll;
	// 0 means 100 ns.
	Poll Time
	// SendDone and ReceiveDone are the work of SendWait and RecvWait besides
	// polling: to reap a completed descriptor, from the poll that finds the
	// done bit to the return.
	SendDone, ReceiveDone Time
	TimeOfDay             Time // a call that reads the clock, gettimeofday
	AgentCall             Time // a call of the kernel agent and its return
	PinPage               Time // pinning or releasing one page
	// Interrupt is entry and exit of the interrupt service, which preempts
	// charges of the node's other threads.
	Interrupt Time
	Kernel    KernelCosts // of the software protocols on a plain NIC
}

// PollPeriod returns Poll. A loop that takes no time would stop the card. A
// model without a period polls once per clock of a 10 MHz bus: a compromise
// between prompt completions and fast runs.
func (c CostModel) PollPeriod() Time {
	if c.Poll == 0 {
		return 100 * Nanosecond
	}
	return c.Poll
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
	// Wake is the delay from the event that a blocked thread waits for to the
	// context switch to it (Switch). The processor is free meanwhile.
	Wake Time
}

// Copy returns the time to copy n bytes.
func (k KernelCosts) Copy(n int) Time { return k.CopyByte * Time(n) }
