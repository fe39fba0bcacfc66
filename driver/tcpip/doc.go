// SPDX-License-Identifier: Apache-2.0

// Package tcpip is TCP/IP for a simulated host with a plain NIC: gVisor's
// netstack in the role of the kernel, one stack for each host, driven by the
// host's virtual clock.
//
//	stack, err := tcpip.Open(t, h, tcpip.Config{})
//	to := netip.AddrPortFrom(tcpip.Address(1), 7)
//	conn, err := stack.Dial(t, to, host.Second)
//	conn.Write(request)
//
// A Conn is a net.Conn of one thread: its calls take the thread's virtual time,
// for system calls, copies and packets, by the host's cost model. Node n has
// the address 10.0.0.<n+1>.
//
// The stack's work at an instant depends only on the frames, calls and timers
// up to then: they run one at a time, each until every goroutine of the stack
// is idle. So a run is reproducible bit for bit.
//
// The stack has no delayed acknowledgements: a separate frame acknowledges
// every received segment with data, unless data in the other direction at the
// same instant carries the acknowledgement. A pure acknowledgement also costs
// the work for a received packet.
package tcpip
