// SPDX-License-Identifier: Apache-2.0

// Package vipl is the VI Provider Library as a Go package: NICs, virtual
// interfaces, protection tags, registered memory, descriptors, work queues,
// completion queues and connections. Calls that act take the host.Thread that acts as their first
// argument; timeouts are simulated time in timed mode and wall time in free mode.
//
//	nic, _ := vipl.OpenNIC(t, h)
//	buf, _ := nic.Alloc(t, 4096)
//	mem, _ := nic.RegisterBuffer(t, buf, vipl.MemAttributes{EnableRDMAWrite: true})
//	vi, _ := nic.CreateVI(t, vipl.VIAttributes{EnableRDMAWrite: true})
//
// Endpoint bundles these for programs that need one connection.
//
// # Errors
//
// Every status of VIPL has a sentinel (ErrNotDone, ErrTimeout, ErrDescriptor
// and so on), found with errors.Is; Error carries operation, VI, descriptor and
// the descriptor's status bits. Errors that end the whole run, such as
// bridge.ErrDeadlock or host.ErrClosed, carry no status.
//
// # Descriptors
//
// A Descriptor is a view of registered memory. Region.Descriptor gives one
// with room for up to MaxSegments (252) data segments. SetSend, SetReceive and SetRDMAWrite fill it,
// AttachImmediate adds immediate data, PostSend and PostRecv hand it to the NIC.
// When it comes back, Status tells what became of it, Length how
// many bytes it moved, Immediate what came with the message.
//
//	d, _ := mem.Descriptor(0, 2)
//	_ = d.SetReceive(header.Segment(0, 64), body.Segment(0, 4096))
//	_ = vi.PostRecv(t, d)
//	d, err := vi.RecvWait(t, host.Second)
//
// A message may have 65,536 bytes (MaxTransferSize of NIC.Query), which is also
// the most that the buffers of a receive may add up to.
//
// # Asynchronous errors
//
// What cannot be written into a descriptor is told to the handler of
// NIC.ErrorCallback, or waits for NextError and ErrorWait.
//
// # Reliability
//
// VIAttributes.ReliabilityLevel is Unreliable, ReliableDelivery or
// ReliableReception, the same at both ends; NIC.Query's ReliabilityLevelSupport says
// which the NIC offers. At the reliable levels each message arrives once and in
// order, a descriptor of the send queue completes when its message has arrived, and
// any error breaks the connection: both VIs go to the error state, everything
// behind the failed descriptor completes as flushed, and both programs are told
// ConnectionLost, once, behind the error that says why if there is one. Disconnect
// makes such a VI usable again. Window, limit and time of repetitions are set by
// fabric.RunConfig.Transport. Disconnect does not wait for messages under way:
// who wants them to arrive takes their descriptors first.
//
// SetRDMARead makes RDMA reads, of reliable VIs only
// (RDMAReadSupport): the peer's VI and region need EnableRDMARead. Messages behind a
// read may overtake it, unless SetFence holds them; completion stays in order.
//
// # Offers
//
// To write or read a peer's memory, its address and handle must be known. VI.Offer has
// the frames of the VI's next connections tell them, of up to MaxOfferedRegions regions;
// ConnectionRequest.RemoteRegions and VI.RemoteRegions are what the peer offered. So the
// first RDMA write needs no exchange of messages before it.
//
//	_ = vi.Offer(t, mem)
//	_, _ = vi.ConnectRequest(t, local, remote, host.Second)
//	theirs := vi.RemoteRegions()
//	d.SetRDMAWrite(theirs[0].Address, theirs[0].Handle, own.Segment(0, 64))
//
// # Completion queues
//
// NIC.CreateCQ makes one, VIAttributes.SendCQ and RecvCQ tie work queues of new VIs to
// it. Each completion has one entry there, those of a disconnect too. CQ.Done and
// CQ.Wait return VI and queue of the oldest, then SendDone or RecvDone takes the
// descriptor. An entry that finds no room is lost, and an asynchronous error of
// resource CQ says so; the descriptor is complete all the same. CQ.Resize works under traffic.
//
//	cq, _ := nic.CreateCQ(t, 256)
//	vi, _ := nic.CreateVI(t, vipl.VIAttributes{SendCQ: cq, RecvCQ: cq})
//	completion, err := cq.Wait(t, host.Second)
//	d, err := completion.Done(t)
//
// # Waiting
//
// Waits poll: they look every CostModel.PollPeriod and hold the processor in between.
// With VIAttributes.Blocking, or CQ.SetBlocking, they look once, have the kernel agent
// arm the card, look again and sleep; the interrupt of the completion wakes them.
// That costs a system call (KernelCosts.Trap), the interrupt service
// (CostModel.Interrupt) and a switch (KernelCosts.Switch), and leaves the processor to others.
//
// VI.SendNotify, VI.RecvNotify and CQ.Notify have a handler called for one
// completion each; NIC.NotifyWait is for a thread that runs them.
//
// # Decisions where VIA leaves room
//
//   - A protection tag of 0, and nil memory attributes, stand for a tag that
//     belongs to the NIC handle. Regions of other tags need a VI with that tag.
//   - PostSend and PostRecv refuse a descriptor that is not aligned to 64 bytes
//     with ErrInvalidParameter. VIA lets the post succeed and reports an
//     asynchronous error; the link to such a descriptor would mislead the card.
//   - More than MaxDescriptorsPerQueue outstanding descriptors: the post returns
//     ErrResource (and ErrOverrun), nothing is lost. Posted and not handed back
//     counts as outstanding, for each queue by itself. A doorbell that is rung
//     without the library can still overrun the card: VIOverrun.
//   - A descriptor that the card cannot reach (wrong handle or tag) takes effect
//     when those posted before it on that queue are complete, or, on a receive
//     queue, used up. The asynchronous error PostDescriptor is reported and the VI
//     goes to the error state, also at the unreliable level. It and what is posted
//     behind it on that queue completes as flushed; so does what is not complete by
//     then on the other queue.
//   - A completion that the card cannot write (the host bus refuses it, or the
//     memory of the descriptor was deregistered) is reported as
//     CompletionProtection and breaks the VI in the same way.
//   - The card keeps a limited number of asynchronous errors. When more come than
//     fit before the agent looks, it still knows whose they were: such a VI, unless
//     it is broken already, is reported as Catastrophic and goes to the error
//     state. Other VIs go on.
//   - For a NIC handle the first asynchronous error of each kind of each VI waits
//     until NextError or the handler gets it, however many VIs fail at once. While
//     64 or more wait, errors that repeat a waiting one are dropped, and destroying
//     a VI drops its waiting errors. Then an error of code Overflow waits behind
//     them: it is about no VI, and Lost says how many were dropped.
//   - LinkDown and LinkUp are asynchronous errors of the NIC and of no VI (VIPL has
//     no code for them). Every NIC handle of a card gets them; M-VIA's NIC does not
//     see its link.
//   - Disconnect reports what the card had to say of the connection before it
//     returns; errors that come up on a VI that is destroyed are forgotten.
//   - A send on a VI that is not connected succeeds and completes as flushed. A
//     receive stays queued while the VI is idle or about to be connected, and
//     serves the connection to come; in the error state it completes as flushed.
//   - A connection that was made and could not be confirmed, so that Accept
//     fails, has flushed the receives like any other that ended.
//   - Wait ends when its descriptor completes, also by a Disconnect of another
//     thread. On an empty queue Done and Wait return ErrDescriptor without a
//     descriptor at once.
//   - When the peer disconnects, the VI goes to the error state and the error
//     ConnectionLost is reported, at every reliability level.
//   - SendWait, RecvWait and the Notify calls on a queue that is tied to a completion
//     queue return ErrResource. SendDone and RecvDone work as ever.
//   - EnableRDMARead on a VI of the unreliable level is refused with ErrInvalidRDMARead.
//   - Entries of a VI that is destroyed are taken out of its completion queues. The
//     queues that a VI is tied to stay the same for its life.
//   - Destroying a VI or a completion queue ends waits for it and cancels the
//     handlers of Notify calls. A handler gets flushed descriptors, too.
//   - An asynchronous error names the VI, not the descriptor. Error handlers run
//     inside calls of the library, see ErrorCallback.
//   - CloseNIC takes back what was made through the handle.
//   - DestroyVI with descriptors that were not taken: ErrResource; in a state other than
//     idle: ErrInvalidState.
//   - DestroyPtag of a tag that is not the NIC handle's: ErrInvalidPtag.
//   - A timeout of 0 looks once in ConnectWait and the Wait calls. ConnectRequest and
//     ConnectPeerRequest refuse it.
//   - No route to a host and a host that is switched off are the same: ErrTimeout.
//     ErrNotReachable is of the own host only, at once: VIs of one host cannot be
//     connected with each other.
//   - RegisterMem of no bytes, or outside of memory of NIC.Alloc: ErrInvalidParameter.
//   - A peer that has not asked yet is waited for until the timeout of ConnectPeerRequest:
//     ErrTimeout, never ErrNoMatch. Peers whose attributes differ are both told which. A peer
//     that gave up while the other's request was on its way: ErrReject. The result stays for
//     ConnectPeerDone until the VI's next attempt or Disconnect.
//   - Of several requests of peers with the same two addresses, each is connected with
//     one of the other side, in the order in which they were made.
//   - SetMemAttributes has the card withdraw the handle and take it back with the new tag and
//     rights, while work is outstanding. An access in the microseconds between fails as after
//     DeregisterMem, and so does the completion of a receive descriptor in the region that
//     the card has fetched before; whatever comes later goes by the new attributes.
//   - The name service knows the fabric's nodes: node0, node1 and so on, or the names that
//     they were given. NSInit may be called twice; the other calls need it. A node has one address, of index 0.
//   - Autodiscovery lists all nodes, this one included. NumberOfHops counts cables to the farthest.
//   - An InfoType that is not autodiscovery: ErrInvalidParameter.
//
// # Deviations from VIPL
//
//   - Memory is simulated: it comes from NIC.Alloc, its addresses are those of Region and
//     not Go's, and a Descriptor is a view of it.
//   - Names are Go's: VipPostSend is VI.PostSend. A call takes the host.Thread that makes
//     it, and returns an error in the place of VIP_RETURN; out parameters are results.
//   - OpenNIC takes the driver.Host in the place of a device name: a host has one NIC.
//   - Handlers are closures, so they have no context parameter. When they run: see ErrorCallback.
//   - There is no quality of service, and so no VIP_INVALID_QOS.
//   - Completion queues are attributes of a VI, in the place of parameters of VipCreateVI.
//   - Beyond VIPL: ErrorWait, NextError, NotifyWait, Offer, RemoteRegions, Poll, Blocking, Counter, Endpoint.
//
// # M-VIA
//
// The same programs run on hosts with a plain NIC, when the run's device is
// driver.DeviceMvia: VIA is in the kernel then, with the same descriptors, statuses,
// errors and limits. NIC.Query's Name says which it is. What differs:
//
//   - A post is a system call. It returns when the last frame is in the NIC's ring, so
//     what was posted before a Disconnect has left; a message that another thread
//     is posting just then ends behind the frame at hand, as on the card.
//   - A send completes when the kernel has seen that the NIC has read its last frame: in
//     the next interrupt, post, or SendDone or SendWait that looks in vain.
//   - SendWait and RecvWait block in the kernel if there is nothing at the first look.
//     Who is woken gets the processor later than who polls with SendDone and RecvDone.
//   - There are no doorbell registers, so a doorbell cannot be malformed, nor overrun.
//   - The kernel keeps all asynchronous errors until the agent looks, so none is
//     replaced by Catastrophic.
//   - Counters count what M-VIA and the NIC count; those of other blocks of the card are 0.
//   - It needs timed mode: its kernel counts on threads that take turns.
//
// # Status words
//
// Which bits a completed descriptor has at the unreliable level. The VI stays
// connected in all cases but the flush. At the reliable levels the first error
// breaks the connection, and the sender is told, too.
//
//	send queue     malformed                                      FormatError      nothing sent
//	               segments do not add up to Length               LengthError      nothing sent, or, found behind the first 64 bytes, the frames before
//	               above MaxTransferSize                          LengthError      nothing sent
//	               segment or further part of it not reachable    ProtectionError  the frames before
//	receive queue  malformed, RDMA operation                      FormatError      message is lost
//	               Length above MaxTransferSize                   LengthError      message is lost
//	               message longer than Length or the buffers      LengthError      what fits is written
//	               buffer or further part of it not reachable     ProtectionError  what came before it is written
//	               frame missing, or no end before the next       PartialError     what came is written
//	               RDMA write with immediate data refused         RDMAProtectionError
//	both           disconnected, or the VI is broken              Flushed          with PartialError when a message had begun
//
// At the reliable levels only:
//
//	send queue     the peer had no receive, or one at fault       RemoteDescriptorError
//	               RDMA write or read refused by the peer         RDMAProtectionError
//	               local memory of an RDMA read at fault          ProtectionError or LengthError
//	               nothing came through for the retry limit       TransportError
//
// Length of a completed receive is the number of bytes in memory, for an RDMA
// write with immediate data too; that of a failed send counts the frames that
// left. Segments of 0 bytes are not looked at: neither address nor handle mean
// anything. A receive descriptor that an RDMA write with immediate data uses up
// is checked for its format, its buffers are not looked at.
package vipl
