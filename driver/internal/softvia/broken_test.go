// SPDX-License-Identifier: Apache-2.0

package softvia

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
	"hvia/params"
)

const (
	formatError         = layout.DescriptorStatusFormatErrorMask
	protectionError     = layout.DescriptorStatusProtectionErrorMask
	lengthError         = layout.DescriptorStatusLengthErrorMask
	partialError        = layout.DescriptorStatusPartialErrorMask
	flushed             = layout.DescriptorStatusFlushedMask
	transportError      = layout.DescriptorStatusTransportErrorMask
	rdmaProtectionError = layout.DescriptorStatusRDMAProtectionErrorMask
	remoteError         = layout.DescriptorStatusRemoteDescriptorErrorMask

	lost         = layout.AsyncErrorConnectionLost
	unreachable  = layout.AsyncErrorPostDescriptor
	queueEmpty   = layout.AsyncErrorReceiveQueueEmpty
	writeRefused = layout.AsyncErrorRDMAWriteProtection
	readRefused  = layout.AsyncErrorRDMAReadProtection

	toDescriptor = layout.AcknowledgeCodeRemoteDescriptor
	toRDMA       = layout.AcknowledgeCodeRDMAProtection
	toTransport  = layout.AcknowledgeCodeTransport

	gone = 0x77 // a handle of no region
)

func control(bits uint16) func(layout.Descriptor) {
	return func(d layout.Descriptor) { d.SetControl(d.Control() | bits) }
}

func length(n uint32) func(layout.Descriptor) {
	return func(d layout.Descriptor) { d.SetLength(n) }
}

func remote(at uint64, handle uint32) func(layout.Descriptor) {
	return func(d layout.Descriptor) {
		a := layout.AddressSegment(d[layout.DescriptorSize:])
		a.SetAddress(at)
		a.SetHandle(handle)
	}
}

func immediate(v uint32) func(layout.Descriptor) {
	return func(d layout.Descriptor) {
		control(layout.DescriptorControlImmediateMask)(d)
		d.SetImmediateData(v)
	}
}

// forbid removes rights of the VI of the second host.
func forbid(mask uint32) func(*host, layout.VIContext) {
	return func(h *host, c layout.VIContext) {
		if h == h.pair.hosts[1] {
			c.SetAttributes(c.Attributes() &^ mask)
		}
	}
}

func local(n uint32) []piece { return []piece{{pairData, localHandle, n}} }

// The NAK codes that a host has sent.
func (h *host) refusals() (codes []layout.AcknowledgeCode) {
	for _, f := range h.pair.log {
		if c := layout.AcknowledgeCode(f.header().Immediate()); f.from == h && f.acknowledges() && c > layout.AcknowledgeCodeGap {
			codes = append(codes, c)
		}
	}
	return codes
}

func (f wireFrame) acknowledges() bool {
	return f.header().OperationVersion()&layout.ViaHeaderOperationVersionOperationMask == uint8(layout.FrameOperationAcknowledge)
}

// A peer that responds does not time out: a read whose response comes after
// many timeouts, and a write with lost frames while the peer's come in order.
func TestSignsOfLife(t *testing.T) {
	onLevels(t, "", func(t *testing.T, level layout.Reliability) {
		lateResponses(t, level)
		lateWrite(t, level)
		twoWaits(t, level)
		restartedTimer(t, level)
		livelyRetransmitter(t, level)
	})
}

// Retries of an impatient pair: their number, and the clocks until the first.
const retryLimit, retryTimeout = 3, 1 << 10

func impatient(_ *host, c layout.VIContext) {
	c.SetRetryLimit(retryLimit)
	c.SetRetryTimeoutLog2(10)
}

func impatientPair(t *testing.T, level layout.Reliability) (p *pair, a, b *host) {
	p = newPair(t, level, impatient)
	return p, p.hosts[0], p.hosts[1]
}

func lateResponses(t *testing.T, level layout.Reliability) {
	p, a, b := impatientPair(t, level)
	p.lose(func(f wireFrame) bool { return f.from == b && !f.acknowledges() && p.now < 5*retryLimit*retryTimeout })
	a.post(SendQueue, opRead, local(9), nil)
	a.post(SendQueue, opRead, local(9), nil)
	p.run(forever)
	require.Equal(t, 2, a.completed[SendQueue])
	require.Empty(t, a.errors)
	require.Empty(t, b.errors)
	require.GreaterOrEqual(t, a.counts[layout.CounterRetransmitFrame], 4*retryLimit, "a request for each timeout")
	require.Equal(t, a.counts[layout.CounterRetransmitFrame], b.counts[layout.CounterReceiveOldSequence], "old by its number")
	require.Equal(t, 2, b.counts[layout.CounterReadResponse])
}

func lateWrite(t *testing.T, level layout.Reliability) {
	p, a, b := impatientPair(t, level)
	p.lose(func(f wireFrame) bool { return f.from == a && !f.acknowledges() && p.now < 5*retryLimit*retryTimeout })
	a.post(SendQueue, opWrite, local(9), nil)
	for range 5 * retryLimit {
		b.post(SendQueue, opWrite, local(9), nil)
		p.run(p.now + retryTimeout)
	}
	p.run(forever)
	require.Equal(t, 1, a.completed[SendQueue])
	require.Empty(t, a.errors)
	require.Equal(t, 5*retryLimit, b.completed[SendQueue])
}

// Progress restarts both counts: two waits together are longer than the limit.
func twoWaits(t *testing.T, level layout.Reliability) {
	p, a, b := impatientPair(t, level)
	until := uint64(0)
	p.lose(func(f wireFrame) bool { return f.from == b && !f.acknowledges() && p.now < until })
	for i := range 2 {
		until = p.now + retryLimit*retryTimeout*params.RetryAliveFactor*2/3
		a.post(SendQueue, opRead, local(9), nil)
		b.post(SendQueue, opWrite, local(9), nil) // so that both wait equally long
		p.run(forever)
		require.Equal(t, i+1, a.completed[SendQueue])
		require.Empty(t, a.errors)
	}
}

// An acknowledgement restarts the timer for the frames behind it.
func restartedTimer(t *testing.T, level layout.Reliability) {
	p, a, _ := impatientPair(t, level)
	p.wire = func(from *host, frame []byte) []uint64 {
		if f := (wireFrame{from, frame}); from != a {
			return []uint64{retryTimeout * 3 / 4}
		} else if f.header().Sequence() != 0xfffffff0 {
			return nil
		}
		return []uint64{0}
	}
	a.post(SendQueue, opWrite, local(9), nil)
	a.post(SendQueue, opWrite, local(9), nil)
	p.run(retryTimeout * 3 / 2)
	require.Equal(t, 1, a.completed[SendQueue])
	require.Zero(t, a.counts[layout.CounterRetryTimeout])
}

// A peer that retransmits is alive, too. It receives nothing, and has a larger
// limit.
func livelyRetransmitter(t *testing.T, level layout.Reliability) {
	p := newPair(t, level, func(h *host, c layout.VIContext) {
		impatient(h, c)
		if h == h.pair.hosts[1] {
			c.SetRetryLimit(60)
		}
	})
	a, b := p.hosts[0], p.hosts[1]
	p.lose(func(f wireFrame) bool { return f.from == a && p.now < 5*retryLimit*retryTimeout })
	a.post(SendQueue, opWrite, local(9), nil)
	b.post(SendQueue, opWrite, local(9), nil)
	p.run(forever)
	require.Equal(t, 1, a.completed[SendQueue])
	require.Equal(t, 1, b.completed[SendQueue])
	require.GreaterOrEqual(t, a.counts[layout.CounterReceiveOldSequence], 4*retryLimit)
}

// breakage is what breaks a connection: each side's completions and
// asynchronous errors.
type breakage struct {
	name    string
	context func(*host, layout.VIContext)
	receive func(*host)
	op      layout.DescriptorOperation
	pieces  []piece
	change  func(layout.Descriptor)

	bits     uint32 // of the descriptor
	receives *ended // nil: flushed
	peerTold []layout.AsyncError
	refusal  layout.AcknowledgeCode // of either side, 0 = none
}

func into(n uint32) []piece { return []piece{{pairTarget, localHandle, n}} }

// What breaks a connection: work behind it stops, and a NAK is repeated until
// the next connection.
func TestWhatBreaks(t *testing.T) {
	const long = 3 * layout.MaxPayload
	end := uint64(pairBytes)
	receive := func(pieces []piece, change func(layout.Descriptor)) func(*host) {
		return func(h *host) { h.post(ReceiveQueue, opSend, pieces, change) }
	}
	good := receive(into(2*long), nil)
	received := func(bits, length, immediate uint32) *ended {
		return &ended{bits: bits, length: length, echo: layout.StatusOperationReceive, immediate: immediate}
	}
	written := func(bits, length, immediate uint32) *ended {
		return &ended{bits: bits, length: length, echo: layout.StatusOperationRemoteRDMAWrite, immediate: immediate}
	}
	foreign := func(h *host) {
		good(h)
		r := h.regions[targetHandle]
		r.tag++
		h.regions[targetHandle] = r
	}
	none := func(*host) {}
	for _, tt := range []breakage{
		{"malformed", nil, good, opSend, local(9), control(1 << 15), formatError, nil, nil, 0},
		{"reserved operation", nil, good, layout.DescriptorOperationReserved, local(9), nil, formatError, nil, nil, 0},
		{"length", nil, good, opSend, local(9), length(8), lengthError, nil, nil, 0},
		{"too long", nil, good, opSend, local(1<<16 + 1), nil, lengthError, nil, nil, 0},
		{"protection", nil, good, opSend, []piece{{pairData, gone, 9}}, nil, protectionError, nil, nil, 0},
		{"protection in a later frame", nil, good, opSend, []piece{{pairData, localHandle, long - 1}, {pairData, gone, 1}}, nil, protectionError,
			received(partialError|flushed, 2*layout.MaxPayload, 0), nil, 0},
		{"write beyond all memory", nil, good, opWrite, local(9), remote(^uint64(0)-5, targetHandle), formatError, nil, nil, 0},
		{"read with immediate data", nil, good, opRead, into(9), immediate(1), formatError, nil, nil, 0},

		{"no receive descriptor", nil, none, opSend, local(9), nil, remoteError, nil, []layout.AsyncError{queueEmpty}, toDescriptor},
		{"none for a write with immediate data", nil, none, opWrite, local(9), immediate(3), remoteError, nil, []layout.AsyncError{queueEmpty}, toDescriptor},
		{"malformed receive descriptor", nil, receive(into(9), control(1<<15)), opSend, local(long), immediate(3), remoteError,
			received(formatError, 0, 3), []layout.AsyncError{lost}, toDescriptor},
		{"one above the largest transfer", nil, receive(into(1<<16+1), nil), opSend, nil, nil, remoteError, received(lengthError, 0, 0), []layout.AsyncError{lost}, toDescriptor},
		{"too small", nil, receive(into(2000), nil), opSend, local(long), nil, remoteError, received(lengthError, 2000, 0), []layout.AsyncError{lost}, toDescriptor},
		{"too few segments", nil, receive(into(2000), length(long)), opSend, local(long), nil, remoteError,
			received(lengthError, 2000, 0), []layout.AsyncError{lost}, toDescriptor},
		{"buffers NAKed", nil, receive([]piece{{pairTarget, localHandle, 100}, {pairTarget, gone, long}}, nil), opSend, local(long), nil, remoteError,
			received(protectionError, 100, 0), []layout.AsyncError{lost}, toDescriptor},
		{"malformed one for a write with immediate data", nil, receive(into(9), control(1<<15)), opWrite, local(9), immediate(3), remoteError,
			written(formatError, 0, 3), []layout.AsyncError{lost}, toDescriptor},

		{"write without the VI's right", forbid(layout.VIContextAttributesEnableRDMAWriteMask), good, opWrite, local(9), nil, rdmaProtectionError,
			nil, []layout.AsyncError{writeRefused}, toRDMA},
		{"write without the region's right", nil, good, opWrite, local(9), remote(end-100, roomHandle), rdmaProtectionError, nil, []layout.AsyncError{writeRefused}, toRDMA},
		{"write beyond the region", nil, good, opWrite, local(long), remote(end-layout.MaxPayload-1, targetHandle), rdmaProtectionError,
			nil, []layout.AsyncError{writeRefused}, toRDMA},
		{"write to another tag's region", nil, foreign, opWrite, local(9), nil, rdmaProtectionError, nil, []layout.AsyncError{writeRefused}, toRDMA},
		{"write with immediate data, NAKed", nil, good, opWrite, local(long), func(d layout.Descriptor) {
			immediate(3)(d)
			remote(end-layout.MaxPayload-1, targetHandle)(d)
		}, rdmaProtectionError, written(rdmaProtectionError, layout.MaxPayload, 3), []layout.AsyncError{lost}, toRDMA},

		{"read without the VI's right", forbid(layout.VIContextAttributesEnableRDMAReadMask), good, opRead, into(9), nil, rdmaProtectionError,
			nil, []layout.AsyncError{readRefused}, toRDMA},
		{"read of nothing without the VI's right", forbid(layout.VIContextAttributesEnableRDMAReadMask), good, opRead, nil, nil, rdmaProtectionError,
			nil, []layout.AsyncError{readRefused}, toRDMA},
		{"read without the region's right", nil, good, opRead, into(9), remote(pairData, localHandle), rdmaProtectionError, nil, []layout.AsyncError{readRefused}, toRDMA},
		{"read beyond the region", nil, good, opRead, into(long), remote(end-long+1, targetHandle), rdmaProtectionError, nil, []layout.AsyncError{readRefused}, toRDMA},
		{"read of another tag's region", nil, foreign, opRead, into(9), nil, rdmaProtectionError, nil, []layout.AsyncError{readRefused}, toRDMA},
		{"read into a segment with a bad handle", nil, good, opRead, []piece{{pairTarget, gone, 9}}, nil, protectionError, nil, []layout.AsyncError{lost}, toTransport},
		{"read into too few segments", nil, good, opRead, []piece{{pairTarget, localHandle, 1}, {pairTarget, localHandle, 1}}, length(3), lengthError,
			nil, []layout.AsyncError{lost}, toTransport},
	} {
		onLevels(t, tt.name, tt.test)
	}
}

func (tt *breakage) test(t *testing.T, level layout.Reliability) {
	p := newPair(t, level, tt.context)
	a, b := p.hosts[0], p.hosts[1]
	tt.receive(b)
	p.run(p.now + 100)
	if b.posted[ReceiveQueue] > 0 {
		b.post(ReceiveQueue, opSend, into(9), nil)
	}
	// Descriptors before, which complete; the failing one; and those
	// behind it, which are not executed.
	before := 0
	if tt.context == nil && b.regions[targetHandle].tag == pairTag {
		before = 1
		a.post(SendQueue, opWrite, local(9), nil)
	}
	one := a.post(SendQueue, tt.op, tt.pieces, tt.change)
	const behindAt = pairTarget + 1<<17
	a.memory[pairData] = 0xa5
	behind := a.post(SendQueue, opWrite, local(1), remote(behindAt, targetHandle))
	p.run(forever)

	echo := map[layout.DescriptorOperation]layout.StatusOperation{opSend: layout.StatusOperationSend, opWrite: layout.StatusOperationRDMAWrite, opRead: layout.StatusOperationRDMARead}[tt.op]
	if before > 0 {
		require.Equal(t, ended{length: 9, echo: layout.StatusOperationRDMAWrite}, a.ended(SendQueue, 0))
	}
	require.Equal(t, ended{bits: tt.bits, echo: echo}, a.ended(SendQueue, one))
	require.Equal(t, []layout.AsyncError{lost}, a.errors)
	require.Equal(t, tt.peerTold, b.errors)
	require.Equal(t, one+1, a.completed[SendQueue], "what is behind stays where it is")
	require.Zero(t, a.completed[ReceiveQueue])
	if tt.refusal == toTransport {
		tt.repeatNAK(t, level, a, b)
	} else if tt.refusal != 0 {
		tt.repeatNAK(t, level, b, a)
	}
	for _, h := range p.hosts {
		h.command(layout.CommandOpcodeDisconnectVI, nil)
	}
	require.Equal(t, ended{bits: flushed, echo: layout.StatusOperationRDMAWrite}, a.ended(SendQueue, behind))
	if tt.refusal != toTransport { // else it has overtaken the read response
		require.Zero(t, b.memory[behindAt])
	}
	want := ended{bits: flushed, echo: layout.StatusOperationReceive}
	for n := range b.posted[ReceiveQueue] {
		if n == 0 && tt.receives != nil {
			require.Equal(t, *tt.receives, b.ended(ReceiveQueue, n))
		} else {
			require.Equal(t, want, b.ended(ReceiveQueue, n))
		}
	}
}

// repeatNAK requires that a side repeats its NAK for every frame of the other
// side, until the next connection.
func (tt *breakage) repeatNAK(t *testing.T, level layout.Reliability, refuses, refused *host) {
	p := refuses.pair
	require.Subset(t, []layout.AcknowledgeCode{tt.refusal}, refuses.refusals())
	i := slices.IndexFunc(p.log, func(f wireFrame) bool { return f.from == refused && !f.acknowledges() })
	frame := p.log[i].frame
	again := func() (codes []layout.AcknowledgeCode) {
		p.log = nil
		refuses.engine.Arrive(0, frame)
		p.run(forever)
		return refuses.refusals()
	}
	require.Equal(t, []layout.AcknowledgeCode{tt.refusal}, again())
	refuses.command(layout.CommandOpcodeDisconnectVI, nil)
	require.Equal(t, []layout.AcknowledgeCode{tt.refusal}, again(), "after a disconnect, too")
	refuses.command(layout.CommandOpcodeConnectVI, refuses.context(level, func(_ *host, c layout.VIContext) { c.SetReceiveSequence(5) }))
	require.Empty(t, again(), "a new connection")
}

// An error of a descriptor is reported in its turn, when those before it are
// complete.
func TestErrorsComeInTheirTurn(t *testing.T) {
	onLevels(t, "", func(t *testing.T, level layout.Reliability) {
		for _, kind := range []string{"malformed", "unreachable"} {
			p := newPair(t, level, nil)
			h := p.hosts[0]
			held := true
			p.lose(func(wireFrame) bool { return held })
			h.post(SendQueue, opWrite, local(9), nil)
			bad := h.prepare(SendQueue, opWrite, local(9), control(1<<15))
			if kind == "unreachable" {
				layout.Descriptor(h.memory[h.place(SendQueue, 0):]).SetNextHandle(gone)
			}
			h.ring(SendQueue)
			h.post(SendQueue, opWrite, local(9), nil)
			p.run(1000)
			require.Zero(t, h.completed[SendQueue])
			require.Empty(t, h.errors)
			held = false
			p.run(forever)
			require.Equal(t, ended{length: 9, echo: layout.StatusOperationRDMAWrite}, h.ended(SendQueue, 0))
			if kind == "unreachable" {
				require.Equal(t, []layout.AsyncError{unreachable}, h.errors)
				require.Equal(t, 1, h.completed[SendQueue])
				h.command(layout.CommandOpcodeDisconnectVI, nil)
				require.Equal(t, 1, h.completed[SendQueue], "nothing is behind an unreachable one")
				continue
			}
			require.Equal(t, []layout.AsyncError{lost}, h.errors)
			require.Equal(t, ended{bits: formatError, echo: layout.StatusOperationRDMAWrite}, h.ended(SendQueue, bad))
			require.Equal(t, 2, h.completed[SendQueue])
		}
	})
}

// Nothing starts behind a descriptor that fails when it is sent.
func TestNothingBeginsBehindAnError(t *testing.T) {
	onLevels(t, "", func(t *testing.T, level layout.Reliability) {
		p := newPair(t, level, func(_ *host, c layout.VIContext) { c.SetWindow(params.AcknowledgeEvery) })
		h := p.hosts[0]
		p.lose(func(wireFrame) bool { return true })
		for range params.AcknowledgeEvery {
			h.post(SendQueue, opWrite, local(9), nil)
		}
		h.post(SendQueue, opWrite, []piece{{pairData, gone, 9}}, nil)
		h.post(SendQueue, opWrite, local(9), nil)
		p.run(1000)
		h.engine.Arrive(0, h.peer.engine.headers(0, frameHead{operation: layout.FrameOperationAcknowledge, sequence: 0xfffffff1}))
		require.Equal(t, 1, h.completed[SendQueue])
		require.Len(t, p.log, params.AcknowledgeEvery)
	})
}

// A silent peer: at one timeout in a row more than RetryLimit the oldest
// descriptor, if there is one, gets a transport error.
func TestRetryLimit(t *testing.T) {
	onLevels(t, "", func(t *testing.T, level layout.Reliability) {
		silentPeer(t, level)
		progressBetween(t, level)
		progressInFlight(t, level)
		readWithoutResponse(t, level, false)
		readWithoutResponse(t, level, true)
	})
}

func silentPeer(t *testing.T, level layout.Reliability) {
	p, h, _ := impatientPair(t, level)
	p.lose(func(wireFrame) bool { return true })
	for range 2 {
		h.post(SendQueue, opWrite, local(9), nil)
	}
	p.run((retryLimit + 1) * retryTimeout)
	require.Empty(t, h.errors)
	p.run((retryLimit+1)*retryTimeout + 100)
	require.Equal(t, []layout.AsyncError{lost}, h.errors)
	require.Equal(t, ended{bits: transportError, echo: layout.StatusOperationRDMAWrite}, h.ended(SendQueue, 0))
	require.Equal(t, 1, h.completed[SendQueue])
	require.Equal(t, 2+2*retryLimit, h.counts[layout.CounterTransmitFrame])
	require.Equal(t, 2*retryLimit, h.counts[layout.CounterRetransmitFrame])
	require.Equal(t, retryLimit+1, h.counts[layout.CounterRetryTimeout])
	require.Equal(t, 1, h.counts[layout.CounterRetryExhausted])
	p.wire = nil
	p.run(forever)
	h.command(layout.CommandOpcodeDisconnectVI, nil)
	require.Equal(t, ended{bits: flushed, echo: layout.StatusOperationRDMAWrite}, h.ended(SendQueue, 1))
}

// Progress restarts the count.
func progressBetween(t *testing.T, level layout.Reliability) {
	p, h, _ := impatientPair(t, level)
	frames := 0
	p.lose(func(f wireFrame) bool {
		if f.from == h {
			frames++
		}
		return f.from == h && frames%(retryLimit+1) != 0
	})
	for range 6 {
		n := h.post(SendQueue, opWrite, local(9), nil)
		p.run(forever)
		require.Equal(t, ended{length: 9, echo: layout.StatusOperationRDMAWrite}, h.ended(SendQueue, n))
	}
	require.Equal(t, 6*retryLimit, h.counts[layout.CounterRetryTimeout])
}

// Also while others are in flight: each frame is lost once more than the one
// before.
func progressInFlight(t *testing.T, level layout.Reliability) {
	p, h, _ := impatientPair(t, level)
	tries := map[uint32]int{}
	p.lose(func(f wireFrame) bool {
		number := f.header().Sequence() - 0xfffffff0
		tries[number]++
		return f.from == h && tries[number] <= retryLimit*int(number+1)
	})
	for range params.AcknowledgeEvery { // they fit the congestion window at its smallest
		h.post(SendQueue, opWrite, local(9), nil)
	}
	p.run(forever)
	require.Empty(t, h.errors)
	require.Equal(t, params.AcknowledgeEvery, h.completed[SendQueue])
}

// A read whose response, or else whose request, is lost.
func readWithoutResponse(t *testing.T, level layout.Reliability, response bool) {
	p, h, peer := impatientPair(t, level)
	p.lose(func(f wireFrame) bool { return (f.from == peer) == response && !f.acknowledges() })
	h.post(SendQueue, opRead, local(9), nil)
	timeouts := uint64(retryLimit + 1)
	if response { // the peer acknowledges the request repeatedly
		timeouts = retryLimit*params.RetryAliveFactor + 1
	}
	p.run(timeouts*retryTimeout - 1)
	require.Empty(t, h.errors)
	p.run(timeouts*retryTimeout + 300)
	require.Equal(t, ended{bits: transportError, echo: layout.StatusOperationRDMARead}, h.ended(SendQueue, 0))
	require.Equal(t, []layout.AsyncError{lost}, h.errors)
	p.run(forever)
	// The responder has no descriptor for it.
	if response {
		require.Equal(t, []layout.AsyncError{lost}, peer.errors)
		require.Zero(t, peer.completed[SendQueue])
	}
}

// A disconnect: messages that the peer has complete without error, failed ones
// with their bits, all others as flushed, in order.
func TestDisconnectInTheMiddle(t *testing.T) {
	onLevels(t, "", func(t *testing.T, level layout.Reliability) {
		p := newPair(t, level, nil)
		a, b := p.hosts[0], p.hosts[1]
		p.lose(func(f wireFrame) bool { // the end of a read response
			return f.from == b && f.header().Flags()&layout.ViaHeaderFlagsLastMask != 0
		})
		for i, op := range []layout.DescriptorOperation{opWrite, opRead, opWrite, opRead, opWrite} {
			a.post(SendQueue, op, local(2*layout.MaxPayload), func(d layout.Descriptor) {
				if i == 4 {
					control(1 << 15)(d)
				}
			})
		}
		a.post(SendQueue, opWrite, local(9), nil)
		p.run(1000)
		require.Equal(t, 1, a.completed[SendQueue])
		for _, h := range p.hosts {
			h.command(layout.CommandOpcodeDisconnectVI, nil)
		}
		var got []uint32
		for i := range 6 {
			got = append(got, a.ended(SendQueue, i).bits)
		}
		require.Equal(t, []uint32{0, flushed, 0, flushed, formatError, flushed}, got)
		require.Empty(t, a.errors)
		require.Empty(t, b.errors)
		p.wire = nil
		p.run(forever)
		require.Empty(t, b.errors, "the time of an answer that was forgotten")

		// Afterwards everything works again. Posts between the connections are
		// flushed.
		a.post(SendQueue, opWrite, local(9), nil)
		p.run(forever)
		require.Equal(t, uint32(flushed), a.ended(SendQueue, 6).bits)
		for _, h := range p.hosts {
			h.command(layout.CommandOpcodeConnectVI, h.context(level, nil))
		}
		a.post(SendQueue, opRead, local(9), nil)
		p.run(forever)
		require.Zero(t, a.ended(SendQueue, 7).bits)
	})
}

// A descriptor whose memory is deregistered in flight cannot be completed.
func TestDeregisteredUnderWay(t *testing.T) {
	onLevels(t, "", func(t *testing.T, level layout.Reliability) {
		p := newPair(t, level, nil)
		h := p.hosts[0]
		h.post(SendQueue, opWrite, local(9), nil)
		p.run(50)
		h.engine.Deregistered(localHandle)
		p.run(forever)
		require.Equal(t, []layout.AsyncError{layout.AsyncErrorCompletionProtection}, h.errors)
		require.Zero(t, h.completed[SendQueue])
		// It fails if it must be retransmitted, or must store a read response.
		for _, op := range []layout.DescriptorOperation{opWrite, opRead} {
			p := newPair(t, level, nil)
			h := p.hosts[0]
			p.lose(func(wireFrame) bool { return op == opWrite })
			h.post(SendQueue, op, local(9), nil)
			p.run(150)
			h.engine.Deregistered(localHandle)
			p.run(forever)
			require.Equal(t, []layout.AsyncError{layout.AsyncErrorCompletionProtection, lost}, h.errors)
			require.Zero(t, h.counts[layout.CounterRetransmitFrame])
			require.Zero(t, h.completed[SendQueue])
		}
	})
}

// An engine without reliable levels rejects VIs of them; at the unreliable one
// reads are malformed.
func TestLevelsThatAreOffered(t *testing.T) {
	b := newBench(t)
	context := make(layout.VIContext, layout.VIContextSize)
	for _, level := range levels {
		context.SetAttributes(uint32(level) << layout.VIContextAttributesReliabilityLsb)
		_, status := b.engine.Command(0, layout.CommandOpcodeCreateVI, 1, context)
		require.Equal(t, layout.CommandStatusBadArgument, status)
	}
	p := newPair(t, layout.ReliabilityUnreliable, nil)
	h := p.hosts[0]
	h.post(SendQueue, opRead, local(9), nil)
	p.run(forever)
	require.Equal(t, uint32(formatError), h.ended(SendQueue, 0).bits)
	require.Empty(t, h.errors)
}
