// SPDX-License-Identifier: Apache-2.0

package softvia

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
)

// Frames that a peer cannot have sent break the connection or have no effect.
func TestContradictions(t *testing.T) {
	const first, last, both = layout.ViaHeaderFlagsFirstMask, layout.ViaHeaderFlagsLastMask, layout.ViaHeaderFlagsFirstMask | layout.ViaHeaderFlagsLastMask
	type frame = frameHead
	send := func(flags uint8, length, offset, n uint32) frame {
		return frame{operation: layout.FrameOperationSend, flags: flags, address: uint64(length)<<32 | uint64(offset), bytes: n}
	}
	write := func(flags uint8, n uint32) frame {
		return frame{operation: layout.FrameOperationRDMAWrite, flags: flags, address: pairTarget, handle: targetHandle, bytes: n}
	}
	answer := func(flags uint8, length, offset, n uint32) frame {
		f := send(flags, length, offset, n)
		f.operation = layout.FrameOperationRDMAReadResponse
		return f
	}
	request := frame{operation: layout.FrameOperationRDMAReadRequest, flags: both, address: pairTarget, handle: targetHandle, immediate: 5}
	partial := &ended{bits: partialError, length: 10, echo: layout.StatusOperationReceive}
	for _, tt := range []struct {
		name   string
		frames []frame // the last one is NAKed
		reads  bool    // a read of 20 bytes is outstanding
		ends   *ended  // of the receive descriptor
	}{
		{"the middle of a message", []frame{send(0, 30, 10, 10)}, false, nil},
		{"the end of a message", []frame{write(last, 10)}, false, nil},
		{"a message in a message", []frame{send(first, 20, 0, 10), send(first, 20, 0, 10)}, false, partial},
		{"a write in a message", []frame{send(first, 20, 0, 10), write(both, 10)}, false, partial},
		{"the rest of another kind", []frame{send(first, 20, 0, 10), write(last, 10)}, false, partial},
		{"another length", []frame{send(first, 20, 0, 10), send(last, 21, 10, 10)}, false, partial},
		{"another place", []frame{send(first, 30, 0, 10), send(last, 30, 20, 10)}, false, partial},
		{"immediate data in the rest only", []frame{send(first, 20, 0, 10), send(last|layout.ViaHeaderFlagsImmediateMask, 20, 10, 10)}, false, partial},
		{"a request in a message", []frame{send(first, 20, 0, 10), request}, false, partial},
		{"a message in a write", []frame{write(first, 10), send(both, 10, 0, 10)}, false, nil},
		{"half a request", []frame{{operation: layout.FrameOperationRDMAReadRequest, flags: first}}, false, nil},
		{"an answer that nobody waits for", []frame{answer(both, 20, 0, 20)}, false, nil},
		{"an answer of another length", []frame{answer(both, 21, 0, 20)}, true, nil},
		{"an answer from the middle", []frame{answer(first, 20, 10, 10)}, true, nil},
		{"the rest of an answer", []frame{answer(last, 20, 0, 20)}, true, nil},
		{"an answer with a hole", []frame{answer(first, 20, 0, 10), answer(last, 20, 15, 5)}, true, nil},
		{"an answer that ends too soon", []frame{answer(both, 20, 0, 10)}, true, nil},
		{"one that does not end", []frame{answer(first, 20, 0, 20)}, true, nil},
		{"one that is too long", []frame{answer(both, 20, 0, 21)}, true, nil},
		{"a second answer", []frame{answer(both, 20, 0, 20), answer(both, 20, 0, 20)}, true, nil},
		{"a message in an answer", []frame{answer(first, 20, 0, 10), send(both, 9, 0, 9)}, true, nil},
		{"an answer in a message", []frame{send(first, 20, 0, 10), answer(both, 20, 0, 20)}, true, partial},
	} {
		onLevels(t, tt.name, func(t *testing.T, level layout.Reliability) {
			p := newPair(t, level, nil)
			a, b := p.hosts[0], p.hosts[1]
			b.post(ReceiveQueue, opSend, []piece{{pairTarget, localHandle, 100}}, nil)
			if tt.reads {
				b.post(SendQueue, opRead, []piece{{pairData, localHandle, 20}}, nil)
				p.lose(func(wireFrame) bool { return true })
			}
			p.run(1000)
			p.log = nil
			for i, f := range tt.frames {
				require.Empty(t, b.errors, "frame %d", i)
				f.sequence = 0xfffffff0 + uint32(i)
				b.engine.Arrive(0, append(a.engine.headers(0, f), make([]byte, f.bytes)...))
			}
			require.Equal(t, []layout.AsyncError{lost}, b.errors)
			require.Equal(t, []layout.AcknowledgeCode{toTransport}, b.refusals())
			require.Equal(t, 0xfffffff0+uint32(len(tt.frames)-1), p.log[len(p.log)-1].header().Sequence())
			if tt.ends != nil {
				require.Equal(t, *tt.ends, b.ended(ReceiveQueue, 0))
			} else {
				require.Zero(t, b.completed[ReceiveQueue])
			}
		})
	}
}

// Impossible acknowledgements are counted and change nothing; NAKs of
// acknowledged frames break the connection at once.
func TestForgedAcknowledgements(t *testing.T) {
	onLevels(t, "", func(t *testing.T, level layout.Reliability) {
		const first = 0xfffffff0
		setup := func() (*pair, *host, func(number uint32, code uint32)) {
			p := newPair(t, level, nil)
			h := p.hosts[0]
			for range 3 {
				h.post(SendQueue, opWrite, local(9), nil)
			}
			p.lose(func(wireFrame) bool { return true })
			p.run(100)
			return p, h, func(number, code uint32) {
				h.engine.Arrive(0, h.peer.engine.headers(0, frameHead{operation: layout.FrameOperationAcknowledge, sequence: number, immediate: code}))
			}
		}
		_, h, acknowledge := setup()
		for _, number := range []uint32{first - 1, first + 4, first - 1<<31, first - 1000} {
			acknowledge(number, uint32(layout.AcknowledgeCodeOk))
			acknowledge(number, uint32(layout.AcknowledgeCodeGap))
		}
		acknowledge(first+4, uint32(toTransport))
		acknowledge(first, uint32(toTransport)+1)
		require.Equal(t, 9, h.counts[layout.CounterAcknowledgeStray])
		require.Equal(t, 1, h.counts[layout.CounterReceiveMalformed])
		require.Zero(t, h.completed[SendQueue])
		require.Equal(t, 3, h.counts[layout.CounterTransmitFrame])
		acknowledge(first+2, uint32(layout.AcknowledgeCodeOk))
		require.Equal(t, 2, h.completed[SendQueue])
		acknowledge(first, uint32(layout.AcknowledgeCodeOk))
		require.Equal(t, 2, h.completed[SendQueue])

		// A gap causes one rewind.
		_, h, acknowledge = setup()
		for range 3 {
			acknowledge(first+1, uint32(layout.AcknowledgeCodeGap))
		}
		require.Equal(t, 1, h.completed[SendQueue])
		require.Equal(t, 5, h.counts[layout.CounterTransmitFrame])
		require.Equal(t, 1, h.counts[layout.CounterRewind])

		for code, bits := range map[layout.AcknowledgeCode]uint32{toDescriptor: remoteError, toRDMA: rdmaProtectionError, toTransport: transportError} {
			_, h, acknowledge = setup()
			acknowledge(first+1, uint32(code))
			acknowledge(first+1, uint32(code))
			acknowledge(first+3, uint32(layout.AcknowledgeCodeOk))
			require.Equal(t, []layout.AsyncError{lost}, h.errors)
			require.Equal(t, 2, h.completed[SendQueue])
			require.Equal(t, ended{bits: bits, echo: layout.StatusOperationRDMAWrite}, h.ended(SendQueue, 1))
		}
		_, h, acknowledge = setup()
		acknowledge(first+2, uint32(layout.AcknowledgeCodeOk))
		acknowledge(first+1, uint32(toTransport))
		require.Equal(t, []layout.AsyncError{lost}, h.errors)
		require.Equal(t, 2, h.completed[SendQueue])
	})
}
