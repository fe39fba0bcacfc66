// SPDX-License-Identifier: Apache-2.0

// Package tcpip is TCP/IP for a simulated host with a plain NIC: gVisor's
// netstack in the role of the kernel, one stack for each host, driven by the
// host's virtual clock.
//
//	stack, err := tcpip.Open(t, h, tcpip.Config{})
//	conn, err := stack.Dial(t, netip.AddrPortFrom(tcpip.Address(1), 7), host.Second)
//	conn.Write(request)
//
// A Conn is a net.Conn of one thread: its calls take the thread's virtual time,
// for system calls, copies and packets, by the host's cost model. Node n has the
// address 10.0.0.<n+1>.
//
// What the stack does at an instant depends on nothing but the frames, calls and
// timers up to then: one of them is carried out at a time, and it is over when
// every goroutine of the stack is at rest. So a run repeats to the bit.
//
// The stack has no delayed acknowledgements: every segment with data that is
// received is acknowledged by a frame of its own, unless data that goes the
// other way at the same instant carries the acknowledgement. It is the work for a received packet that a pure
// acknowledgement costs as well.
package tcpip
