// SPDX-License-Identifier: Apache-2.0

// Package vipl is the VI Provider Library in Go: NICs, virtual interfaces,
// protection tags, registered memory, descriptors, work queues, completion
// queues and connections. docs/reference/vipl.md lists the 41 functions of
// VIPL, their statuses, this provider's choices and its deviations from VIA.
// Package hvia has runnable examples; its endpoints are enough for programs
// with one connection.
//
//	nic, err := vipl.OpenNIC(t, h)
//	buffer, err := nic.Alloc(t, 4096)
//	region, err := nic.RegisterBuffer(t, buffer,
//		vipl.MemAttributes{EnableRDMAWrite: true})
//	vi, err := nic.CreateVI(t, vipl.VIAttributes{EnableRDMAWrite: true})
//	_, err = vi.ConnectRequest(t, vipl.NetAddress{},
//		vipl.At(1, "port"), host.Second)
//	d, err := region.Descriptor(0, 1)
//	err = d.SetSend(region.Segment(64, 100))
//	err = vi.PostSend(t, d)
//	d, err = vi.SendWait(t, host.Second)
//
// The thread that makes a call is its first argument. Timeouts are simulated
// time in timed mode and wall time in free mode.
//
// # Errors
//
// A Status is an error that errors.Is finds. Error adds the operation, the VI
// and the descriptor. Errors that end the run, such as bridge.ErrDeadlock or
// host.ErrClosed, have no status. Errors that no descriptor can report go to
// the handler of NIC.ErrorCallback, or to ErrorWait.
//
// # Reliability
//
// Both ends of a connection have the same ReliabilityLevel. At the reliable
// levels each message arrives once and in order, a send descriptor completes
// when its message has arrived, and any error breaks the connection: both VIs
// go to the error state, all descriptors behind the failed one complete as
// flushed, and both programs receive ConnectionLost. Disconnect makes the VI
// usable again. It does not wait for messages in flight: to be sure they
// arrived, reap their descriptors first.
//
// RDMA reads need a reliable level and EnableRDMARead of the peer's VI and
// region. Messages behind a read may overtake it unless SetFence holds them.
//
// # RDMA without a message first
//
// VI.Offer advertises regions in the connection handshake. The peer finds
// their addresses and handles in VI.RemoteRegions.
//
// # Waiting
//
// Waits poll every CostModel.PollPeriod and occupy the processor. With
// VIAttributes.Blocking or CQ.Blocking they poll once, arm the card's
// interrupt, poll again and sleep. That costs a system call, an interrupt and a
// switch, and frees the processor for other threads. Handlers of SendNotify,
// RecvNotify and CQ.Notify run inside calls of the library, once per
// registration; a thread can call NIC.NotifyWait to run them.
package vipl
