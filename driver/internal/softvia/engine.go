// SPDX-License-Identifier: Apache-2.0

// Package softvia is VIA in software: the work queues of VIs, their
// descriptors, the frames that messages are cut into, and what becomes of frames
// that arrive. It is M-VIA's engine, and the protocol half of the fake card that
// tests run on. It knows neither threads nor time; what it stands in is an
// Environment.
//
// Its methods take who works as a T and hand it on to the environment. Only
// Environment.Emit may wait, and so Process and Send; other methods may be called
// meanwhile, of the same VI too. No two methods may run at the same moment.
package softvia

import (
	"hvia/layout"
	"hvia/sim/bridge"
)

// Range is a piece of physical memory inside one page.
type Range = bridge.Range

// VICount is the number of VIs, which the number on the wire has room for.
const VICount = 256

// Environment is where an engine works.
type Environment[T any] interface {
	// Translate returns where bytes at a virtual address lie, in order; false if
	// any of them may not be accessed so.
	Translate(handle uint32, va uint64, bytes uint32, tag uint16, access layout.AttAccess) ([]Range, bool)
	// Memory returns bytes of physical memory, as they are now.
	Memory(address, bytes uint32) []byte
	// Store writes to memory, and StoreWord a dword at once; those who watch it see it.
	Store(who T, address uint32, data []byte)
	StoreWord(who T, address, value uint32)
	// Emit hands a frame to the network: its headers, and its payload in memory. It
	// calls sent when that memory is not needed any more, then or later. It may
	// wait. An error ends all work. Of a reliable VI it does not wait, and has read the
	// payload when it returns.
	Emit(who T, head []byte, payload []Range, sent func(who T)) error
	// Posted says that a queue is Ready: its next descriptor can be fetched, by Process
	// or FetchReceive.
	Posted(who T, id QueueID)
	// Async is an asynchronous error.
	Async(who T, code layout.AsyncError, vi int)
	// Notify says that what was armed has come: a completion of a VI's queue, or an
	// entry of a completion queue, which is in memory by now.
	Notify(who T, kind layout.NotifyKind, index int)
	// Count counts an event.
	Count(n layout.Counter)
}

// Config is what an engine is made with.
type Config struct {
	QueueDepth       int // descriptors that may be posted on a queue and not fetched
	CompletionQueues int
	// Reliable offers the reliable levels, and RDMA read with them. The environment
	// should be a Clock then.
	Reliable bool
}

// Engine is the VIs of a NIC.
type Engine[T any] struct {
	env    Environment[T]
	config Config
	mac    [6]byte
	vis    [VICount]viState
	begun  uint64 // sends that were fetched
	cqs    []completionQueue
	armed  map[notification]bool
	clock  Clock           // nil = the environment has none
	alarms [VICount]uint64 // for when an alarm was asked, 0 = none is on its way
}

// viState is a VI.
type viState struct {
	context  [layout.VIContextSize]byte
	state    layout.VIState
	queues   [2]workQueue // by Queue
	head     receiveHead  // the receive descriptor that is next
	message  message      // that is being received
	sequence uint32
	expected uint32
	stray    stray   // frames of an unreliable VI outside of the window
	broken   bool    // a descriptor of the send queue could not be reached; since it was connected
	busy     bool    // somebody carries out the send queue
	sends    []*send // that were fetched and are not complete, in order
	ties     [2]int  // completion queues of both queues, by Queue: number plus one, 0 = none

	// Of a reliable VI.
	ledger  ledger
	refusal *refusal // a frame was refused, since it was connected
	gap     bool     // the one at hand was told
	unsaid  int      // frames accepted since the last acknowledgement
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

// Reset frees all VIs and completion queues. What was posted and armed on them is
// forgotten.
func (e *Engine[T]) Reset() {
	for i := range e.vis {
		e.vis[i] = viState{state: layout.VIStateFree}
	}
	e.cqs = make([]completionQueue, e.config.CompletionQueues)
	e.armed = map[notification]bool{}
}

// SetMAC sets the address that frames come from.
func (e *Engine[T]) SetMAC(mac [6]byte) { e.mac = mac }

// Command carries out one of the commands for VIs, as the card would. A VI that
// DisconnectVI or DestroyVI is for must not be Busy.
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

// Stop lets no more frames of a VI go out or in, as the beginning of a disconnect:
// a message that somebody sends just now ends behind the frame at hand.
func (e *Engine[T]) Stop(index int) {
	if v := &e.vis[index]; v.state == layout.VIStateConnected {
		v.state = layout.VIStateError
	}
}

// Busy says that memory of sends of a VI is still needed, or may be.
func (e *Engine[T]) Busy(index int) bool {
	v := &e.vis[index]
	return v.busy || len(v.sends) > 0
}

// Begun is the number of sends that were fetched so far.
func (e *Engine[T]) Begun() uint64 { return e.begun }

// Finished says that the sends are complete that were fetched before Begun was a number.
func (e *Engine[T]) Finished(begun uint64) bool {
	for i := range e.vis {
		if s := e.vis[i].sends; len(s) > 0 && s[0].number <= begun {
			return false
		}
	}
	return true
}

// Deregistered says that a region is gone. A descriptor in it that is under
// way cannot be completed any more.
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

// flush is what DisconnectVI does to both queues: all that was posted is
// completed in order.
func (e *Engine[T]) flush(who T, index int) {
	v := &e.vis[index]
	v.state = layout.VIStateError
	e.endMessage(who, index, layout.DescriptorStatusPartialErrorMask|layout.DescriptorStatusFlushedMask)
	// An environment may have fetched the next one by the time that one is given back.
	for v.head.valid || v.queues[ReceiveQueue].count > 0 {
		if !v.head.valid {
			e.FetchReceive(who, index)
			continue // or it could not be reached, and the queue is forgotten
		}
		e.env.Count(layout.CounterDescriptorFlushed)
		e.giveBack(who, index, completion{bits: layout.DescriptorStatusFlushedMask, echo: layout.StatusOperationReceive})
	}
	e.flushLedger(who, index)
	for v.queues[SendQueue].count > 0 {
		// Nothing is emitted for a VI in the error state, so nothing can fail.
		_ = e.Process(who, index)
	}
}
