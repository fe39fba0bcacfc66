// SPDX-License-Identifier: Apache-2.0

// Package softvia is VIA in software: the work queues of VIs, their
// descriptors, the segmentation of messages into frames, and the handling of
// received frames. It is M-VIA's engine, and the protocol half of the fake card
// of tests. It has neither threads nor time, only an Environment.
//
// Methods pass the caller as a T to the environment. Only Environment.Emit may
// wait, and so Process and Send; other methods may be called meanwhile, for the
// same VI too. No two methods may run concurrently.
package softvia

import (
	"hvia/layout"
	"hvia/sim/bridge"
)

// Range is a piece of physical memory inside one page.
type Range = bridge.Range

// VICount is the number of VIs that a number on the wire can name.
const VICount = 256

// Environment is the engine's environment.
type Environment[T any] interface {
	// Translate returns the physical ranges of bytes at a virtual address, in
	// order; false if the access is not allowed to any of them.
	Translate(handle uint32, va uint64, bytes uint32, tag uint16, access layout.AttAccess) ([]Range, bool)
	// Memory returns bytes of physical memory, as they are now.
	Memory(address, bytes uint32) []byte
	// Store writes to memory, and StoreWord a dword atomically; watchers are
	// notified.
	Store(who T, address uint32, data []byte)
	StoreWord(who T, address, value uint32)
	// Emit passes a frame to the network: its headers, and its payload in
	// memory. It calls sent, at once or later, when it no longer needs that
	// memory. It may wait. An error ends all work. For a reliable VI it does
	// not wait, and has read the payload when it returns.
	Emit(who T, head []byte, payload []Range, sent func(who T)) error
	// Posted reports that a queue is Ready: Process or FetchReceive can fetch
	// its next descriptor.
	Posted(who T, id QueueID)
	// Async reports an asynchronous error.
	Async(who T, code layout.AsyncError, vi int)
	// Notify reports an armed notification: a completion of a VI's queue, or an
	// entry of a completion queue, which is in memory by then.
	Notify(who T, kind layout.NotifyKind, index int)
	// Count counts an event.
	Count(n layout.Counter)
}

// Config configures an engine.
type Config struct {
	QueueDepth       int // descriptors that may be posted on a queue and not fetched
	CompletionQueues int
	// Reliable allows the reliable levels, and RDMA read with them. The
	// environment should then be a Clock.
	Reliable bool
}

// Engine has the VIs of a NIC.
type Engine[T any] struct {
	env     Environment[T]
	config  Config
	mac     [6]byte
	vis     [VICount]viState
	started uint64 // number of fetched sends
	cqs     []completionQueue
	armed   map[notification]bool
	clock   Clock           // nil if the environment has none
	alarms  [VICount]uint64 // time of the pending alarm, 0 = none
}

type viState struct {
	context  [layout.VIContextSize]byte
	state    layout.VIState
	queues   [2]workQueue // by Queue
	head     receiveHead  // the next receive descriptor
	message  message      // in reception
	sequence uint32
	expected uint32
	stray    stray   // frames of an unreliable VI outside of the window
	broken   bool    // a descriptor of the send queue could not be read since the VI was connected
	busy     bool    // a thread works on the send queue
	sends    []*send // fetched and not complete, in order
	ties     [2]int  // completion queues of both queues, by Queue: number plus one, 0 = none

	// Of a reliable VI.
	ledger ledger
	nak    *nak // a frame was NAKed since the VI was connected
	gap    bool // the present gap was reported
	unsaid int  // frames accepted since the last acknowledgement
}

func (v *viState) ctx() layout.VIContext { return v.context[:] }
func (v *viState) tag() uint16 {
	return uint16(v.ctx().Attributes() >> layout.VIContextAttributesTagLsb)
}
func (v *viState) number(index int) uint16 {
	return uint16(v.ctx().Attributes()&layout.VIContextAttributesGenerationMask>>layout.VIContextAttributesGenerationLsb<<8) | uint16(index)
}

// New returns an engine whose VIs are free.
func New[T any](env Environment[T], c Config) *Engine[T] {
	e := &Engine[T]{env: env, config: c}
	e.clock, _ = env.(Clock)
	e.Reset()
	return e
}

// Reset frees all VIs and completion queues, and forgets their posts and armed
// notifications.
func (e *Engine[T]) Reset() {
	for i := range e.vis {
		e.vis[i] = viState{state: layout.VIStateFree}
	}
	e.cqs = make([]completionQueue, e.config.CompletionQueues)
	e.armed = map[notification]bool{}
}

// SetMAC sets the source address of frames.
func (e *Engine[T]) SetMAC(mac [6]byte) { e.mac = mac }

// Command executes a VI command, as the card does. The VI of DisconnectVI or
// DestroyVI must not be Busy.
func (e *Engine[T]) Command(who T, op layout.CommandOpcode, index uint32, payload []byte) (detail uint32, status layout.CommandStatus) {
	if index >= VICount {
		return 0, layout.CommandStatusBadArgument
	}
	v := &e.vis[index]
	switch op {
	case layout.CommandOpcodeCreateVI, layout.CommandOpcodeConnectVI, layout.CommandOpcodeModifyVI:
		if !e.config.Reliable && (&viState{context: [layout.VIContextSize]byte(payload)}).reliable() {
			return 0, layout.CommandStatusBadArgument
		}
	}
	switch op {
	case layout.CommandOpcodeCreateVI:
		if v.state != layout.VIStateFree {
			return 0, layout.CommandStatusBadState
		}
		*v = viState{state: layout.VIStateIdle}
		copy(v.context[:], payload)
		e.tie(v)
	case layout.CommandOpcodeDestroyVI:
		if v.state != layout.VIStateIdle {
			return 0, layout.CommandStatusBadState
		}
		e.flush(who, int(index))
		v.state = layout.VIStateFree
	case layout.CommandOpcodeConnectVI, layout.CommandOpcodeModifyVI:
		if v.state != layout.VIStateIdle {
			return 0, layout.CommandStatusBadState
		}
		copy(v.context[:], payload)
		e.tie(v)
		if op == layout.CommandOpcodeConnectVI {
			v.sequence, v.expected, v.state, v.message = v.ctx().SendSequence(), v.ctx().ReceiveSequence(), layout.VIStateConnected, message{}
			v.stray = stray{}
			v.broken = false
			v.connect()
		}
	case layout.CommandOpcodeDisconnectVI:
		if v.state == layout.VIStateFree {
			return 0, layout.CommandStatusBadState
		}
		e.flush(who, int(index))
		v.state = layout.VIStateIdle
	case layout.CommandOpcodeQueryVI:
		return uint32(v.state), layout.CommandStatusDone
	case layout.CommandOpcodeResetVI:
		*v = viState{state: layout.VIStateFree}
	default:
		return 0, layout.CommandStatusBadOpcode
	}
	return 0, layout.CommandStatusDone
}

// Stop stops the frames of a VI in both directions, to start a disconnect: a
// message that a thread is sending ends behind the current frame.
func (e *Engine[T]) Stop(index int) {
	if v := &e.vis[index]; v.state == layout.VIStateConnected {
		v.state = layout.VIStateError
	}
}

// Busy reports whether memory of a VI's sends may still be needed.
func (e *Engine[T]) Busy(index int) bool {
	v := &e.vis[index]
	return v.busy || len(v.sends) > 0
}

// Started returns the number of sends fetched so far.
func (e *Engine[T]) Started() uint64 { return e.started }

// Finished reports whether all sends up to that number are complete.
func (e *Engine[T]) Finished(started uint64) bool {
	for i := range e.vis {
		if s := e.vis[i].sends; len(s) > 0 && s[0].number <= started {
			return false
		}
	}
	return true
}

// Deregistered reports the end of a region. Descriptors in flight in it can no
// longer be completed.
func (e *Engine[T]) Deregistered(handle uint32) {
	for i := range e.vis {
		if h := &e.vis[i].head; h.body.handle == handle {
			h.stale = true
		}
		for _, m := range e.vis[i].ledger.own {
			m.stale = m.stale || m.body.handle == handle
		}
	}
}

// flush is DisconnectVI for both queues: it completes all posted descriptors in
// order.
func (e *Engine[T]) flush(who T, index int) {
	v := &e.vis[index]
	v.state = layout.VIStateError
	e.endMessage(who, index, layout.DescriptorStatusPartialErrorMask|layout.DescriptorStatusFlushedMask)
	// When one is completed, the environment may have fetched the next.
	for v.head.valid || v.queues[ReceiveQueue].count > 0 {
		if !v.head.valid {
			e.FetchReceive(who, index)
			continue // or unreadable, and the queue was dropped
		}
		e.env.Count(layout.CounterDescriptorFlushed)
		e.giveBack(who, index, completion{bits: layout.DescriptorStatusFlushedMask, echo: layout.StatusOperationReceive})
	}
	e.flushLedger(who, index)
	for v.queues[SendQueue].count > 0 {
		// For a VI in the error state nothing is emitted, so nothing can fail.
		_ = e.Process(who, index)
	}
}
