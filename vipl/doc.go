// SPDX-License-Identifier: Apache-2.0

// Package vipl is the VI Provider Library as a Go package: NICs, virtual
// interfaces, protection tags, registered memory, descriptors, work queues and
// connections. Calls that act take the driver.Thread that acts as their first
// argument; timeouts are simulated time in timed mode and wall time in free mode.
//
//	nic, _ := vipl.OpenNic(t, h)
//	buf, _ := nic.Alloc(t, 4096)
//	mem, _ := nic.RegisterBuffer(t, buf, &vipl.MemAttributes{EnableRdmaWrite: true})
//	vi, _ := nic.CreateVi(t, vipl.ViAttributes{EnableRdmaWrite: true})
//
// Endpoint bundles these for programs that need one connection.
//
// # Errors
//
// Every status of VIPL has a sentinel (ErrNotDone, ErrTimeout, ErrDescriptor
// and so on), found with errors.Is; Error carries operation, VI, descriptor and
// the descriptor's status bits. Errors that end the whole run, such as
// bridge.ErrDeadlock or driver.ErrClosed, carry no status.
//
// # Decisions where VIA leaves room
//
//   - A protection tag of 0, and nil memory attributes, stand for a tag that
//     belongs to the NIC handle. Regions of other tags need a VI with that tag.
//   - PostSend refuses a descriptor that is not aligned to 64 bytes with
//     ErrInvalidParameter. VIA lets the post succeed and reports an asynchronous
//     error; the link to such a descriptor would mislead the card.
//   - More than MaxDescriptorsPerQueue outstanding descriptors: PostSend returns
//     ErrResource (and ErrOverrun), nothing is lost.
//   - A descriptor that the card cannot reach (wrong handle or tag) hides what
//     was posted behind it. The asynchronous error PostDescriptor is reported and
//     the VI goes to the error state, also at the unreliable level; all of them
//     complete as flushed.
//   - A completion that the card cannot write (the host bus refuses it) is
//     reported as CompletionProtection and breaks the VI in the same way.
//   - The card keeps a limited number of asynchronous errors. When more come than
//     fit before the agent looks, it still knows whose they were: such a VI, unless
//     it is broken already, is reported as Catastrophic and goes to the error
//     state. Other VIs go on.
//   - Disconnect reports what the card had to say of the connection before it
//     returns; errors that come up on a VI that is destroyed are forgotten.
//   - A post on a VI that is not connected succeeds and completes as flushed.
//   - When the peer disconnects, the VI goes to the error state and the error
//     ConnectionLost is reported, at every reliability level.
//   - CloseNic takes back what was made through the handle.
package vipl
