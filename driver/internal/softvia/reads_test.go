// SPDX-License-Identifier: Apache-2.0

package softvia

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
	"hvia/params"
)

// A NAKed read is reported behind earlier responses, and its error waits for
// earlier reads; a send's error does too.
func TestNAKsBehindReads(t *testing.T) {
	onLevels(t, "", func(t *testing.T, level layout.Reliability) {
		for _, op := range []layout.DescriptorOperation{opRead, opSend} {
			p := newPair(t, level, nil)
			a, b := p.hosts[0], p.hosts[1]
			p.lose(func(f wireFrame) bool { return f.from == b && !f.acknowledges() && p.now < 3000 })
			copy(b.memory[pairTarget:], "what is read")
			const n = layout.MaxPayload + 1 // so that all responses may be in flight at a time
			a.post(SendQueue, opRead, local(n), nil)
			a.post(SendQueue, opRead, local(n), nil)
			a.post(SendQueue, op, local(5), func(d layout.Descriptor) {
				if op == opRead {
					remote(0, gone)(d)
				}
			})
			p.run(forever)
			for i := range 2 {
				require.Equal(t, ended{length: n, echo: layout.StatusOperationRDMARead}, a.ended(SendQueue, i))
			}
			bits := uint32(rdmaProtectionError)
			if op == opSend {
				bits = remoteError
			} else {
				answered := slices.IndexFunc(p.log, func(f wireFrame) bool {
					return f.from == a && f.acknowledges() && f.header().Sequence() == 0xfffffff4 // both responses
				})
				refused := slices.IndexFunc(p.log, func(f wireFrame) bool {
					return f.from == b && f.acknowledges() && f.header().Immediate() == uint32(toRDMA)
				})
				require.Less(t, answered, refused)
				require.NotEqual(t, -1, answered)
			}
			require.Equal(t, bits, a.ended(SendQueue, 2).bits)
			require.Equal(t, "what is read", string(a.memory[pairData:][:12]))
			require.Equal(t, []layout.AsyncError{lost}, a.errors)
		}
	})
}

// Reads: at most ReadLimit are outstanding; a fence delays what is behind it;
// without one a later message may overtake a response.
func TestReadLimitAndFence(t *testing.T) {
	onLevels(t, "", func(t *testing.T, level layout.Reliability) {
		for limit := 1; limit <= params.LedgerResponses; limit++ {
			p := newPair(t, level, func(_ *host, c layout.VIContext) { c.SetReadLimit(uint8(limit)) })
			h := p.hosts[0]
			requests := 0
			p.lose(func(f wireFrame) bool {
				if f.from == h && f.header().Flags() != 0 {
					requests++
				}
				return f.from != h && !f.acknowledges()
			})
			for range params.LedgerResponses + 3 {
				h.post(SendQueue, opRead, local(9), nil)
			}
			p.run(3000)
			require.Equal(t, limit, requests)
			require.Zero(t, h.completed[SendQueue])
			p.wire = nil
			p.run(forever)
			require.Equal(t, params.LedgerResponses+3, h.completed[SendQueue])
			require.Empty(t, h.errors)
		}
		for _, fence := range []bool{false, true} {
			p := newPair(t, level, nil)
			a, b := p.hosts[0], p.hosts[1]
			p.lose(func(f wireFrame) bool { return f.from == b && !f.acknowledges() })
			a.post(SendQueue, opRead, local(9), nil)
			a.memory[pairData+100] = 7
			a.post(SendQueue, opWrite, []piece{{pairData + 100, localHandle, 1}}, func(d layout.Descriptor) {
				if fence {
					control(layout.DescriptorControlQueueFenceMask)(d)
				}
			})
			p.run(3000)
			require.Equal(t, fence, b.memory[pairTarget] == 0)
			require.Zero(t, a.completed[SendQueue], "completion is in order")
			p.wire = nil
			p.run(forever)
			require.Equal(t, 2, a.completed[SendQueue])
			require.Equal(t, byte(7), b.memory[pairTarget])
			require.Equal(t, fence, a.memory[pairData] == 0, "read before, or again from memory that had changed")
		}
	})
}

// A peer that exceeds the limit of reads waits; no read is lost or answered
// twice.
func TestRequestsBeyondTheLimit(t *testing.T) {
	onLevels(t, "", func(t *testing.T, level layout.Reliability) {
		p := newPair(t, level, func(_ *host, c layout.VIContext) { c.SetReadLimit(3 * params.LedgerResponses) })
		a, b := p.hosts[0], p.hosts[1]
		lost := 0
		p.lose(func(f wireFrame) bool {
			loses := f.from == a && f.acknowledges() && lost < 5
			if loses {
				lost++
			}
			return loses
		})
		for range 3 * params.LedgerResponses {
			a.post(SendQueue, opRead, local(9), nil)
		}
		p.run(forever)
		require.Equal(t, 3*params.LedgerResponses, a.completed[SendQueue])
		require.NotZero(t, b.counts[layout.CounterReceiveReadLimit])
		require.Equal(t, 3*params.LedgerResponses, b.counts[layout.CounterReadResponse])
		require.Empty(t, a.errors)
	})
}

// One frame answers a read of 0 bytes, and no handle is checked.
func TestReadOfNothing(t *testing.T) {
	onLevels(t, "", func(t *testing.T, level layout.Reliability) {
		p := newPair(t, level, nil)
		h := p.hosts[0]
		h.post(SendQueue, opRead, []piece{{pairData, gone, 0}}, remote(1, gone))
		h.post(SendQueue, opRead, nil, remote(1, gone))
		p.run(forever)
		for i := range 2 {
			require.Equal(t, ended{echo: layout.StatusOperationRDMARead}, h.ended(SendQueue, i))
		}
		require.Empty(t, h.errors)
		require.Empty(t, p.hosts[1].errors)
	})
}
