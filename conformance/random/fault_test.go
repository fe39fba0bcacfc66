// SPDX-License-Identifier: Apache-2.0

package random_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/layout"
)

// wireFault changes every n-th matching frame on the wire.
func wireFault(n int, fits func(layout.ViaHeader) bool, change func(frame []byte, h layout.ViaHeader) (lose bool)) func(int, []byte) bool {
	seen := 0
	return func(_ int, frame []byte) bool {
		if !conformtest.IsVIA(frame) {
			return false
		}
		h := layout.ViaHeader(frame[layout.EthernetHeaderSize:])
		if !fits(h) {
			return false
		}
		seen++
		return seen%n == 0 && change(frame, h)
	}
}

func flag(mask uint8) func(layout.ViaHeader) bool {
	return func(h layout.ViaHeader) bool { return h.Flags()&mask != 0 }
}

func isOperation(op layout.FrameOperation) func(layout.ViaHeader) bool {
	return func(h layout.ViaHeader) bool {
		return layout.FrameOperation(h.OperationVersion()&layout.ViaHeaderOperationVersionOperationMask) == op && h.PayloadLength() > 0
	}
}

// randomFault is a fault that the random runs must find: injected bugs of a
// card, a fault of the wire, or changed observations.
type randomFault struct {
	name string
	bugs bugs
	lose func(int, []byte) bool
}

func randomFaults() []randomFault {
	cards := []randomFault{
		{"regions end one byte too late", bugs{bound: true}, nil},
		{"the region's right is not checked", bugs{right: true}, nil},
		{"the protection tag is not compared", bugs{tag: true}, nil},
		{"deregistered handles stay valid", bugs{keep: true}, nil},
		{"the VI's right is not checked", bugs{rdma: true}, nil},
		{"the largest transfer size is not checked", bugs{max: true}, nil},
	}
	return slices.Concat(cards, wireFaults(), observedFaults())
}

func wireFaults() []randomFault {
	return []randomFault{
		{"a frame is lost", bugs{}, wireFault(50, flag(layout.ViaHeaderFlagsFirstMask), func([]byte, layout.ViaHeader) bool { return true })},
		{"a byte of a send is wrong", bugs{}, wireFault(20, isOperation(layout.FrameOperationSend), func(f []byte, _ layout.ViaHeader) bool {
			f[layout.HeaderBytes] ^= 0x80
			return false
		})},
		{"an RDMA write goes one byte too far", bugs{}, wireFault(20, isOperation(layout.FrameOperationRDMAWrite), func(_ []byte, h layout.ViaHeader) bool {
			h.SetAddress(h.Address() + 1)
			return false
		})},
		{"the immediate data are wrong", bugs{}, wireFault(10, flag(layout.ViaHeaderFlagsImmediateMask), func(_ []byte, h layout.ViaHeader) bool {
			h.SetImmediate(h.Immediate() ^ 1)
			return false
		})},
		{"the immediate data are missing", bugs{}, wireFault(10, flag(layout.ViaHeaderFlagsImmediateMask), func(_ []byte, h layout.ViaHeader) bool {
			h.SetFlags(h.Flags() &^ layout.ViaHeaderFlagsImmediateMask)
			return false
		})},
		{"the last byte is missing", bugs{}, wireFault(20, isOperation(layout.FrameOperationSend), func(_ []byte, h layout.ViaHeader) bool {
			h.SetPayloadLength(h.PayloadLength() - 1)
			return false
		})},
		{"a message does not end", bugs{}, wireFault(30, flag(layout.ViaHeaderFlagsLastMask), func(_ []byte, h layout.ViaHeader) bool {
			h.SetFlags(h.Flags() &^ layout.ViaHeaderFlagsLastMask)
			return false
		})},
	}
}

func observedFaults() []randomFault {
	// once changes the observations of a node, at the first opportunity.
	once := func(change func(n *randomNode) bool) func(n *randomNode) {
		done := false
		return func(n *randomNode) {
			if !done && n.node == 1 {
				done = change(n)
			}
		}
	}
	// each offers the completions of a queue to change, one after the other.
	each := func(queue int, change func(c []completion, i int) bool) func(n *randomNode) {
		return once(func(n *randomNode) bool {
			for pair := range randomPairs {
				for i := range n.seen[pair][queue] {
					if change(n.seen[pair][queue], i) {
						return true
					}
				}
			}
			return false
		})
	}
	return []randomFault{
		{"completions out of order", bugs{observed: each(0, func(c []completion, i int) bool {
			if i == 0 {
				return false
			}
			c[i], c[i-1] = c[i-1], c[i]
			return true
		})}, nil},
		{"a wrong length", bugs{observed: each(1, func(c []completion, i int) bool {
			c[i].length++
			return true
		})}, nil},
		{"an additional error bit", bugs{observed: each(0, func(c []completion, i int) bool {
			if c[i].status&layout.DescriptorStatusProtectionErrorMask == 0 {
				return false
			}
			c[i].status |= layout.DescriptorStatusLengthErrorMask
			return true
		})}, nil},
		{"a completion is missing", bugs{observed: once(func(n *randomNode) bool {
			for pair := range randomPairs {
				if s := &n.seen[pair][1]; len(*s) > 0 {
					*s = (*s)[:len(*s)-1]
					return true
				}
			}
			return false
		})}, nil},
		{"an asynchronous error is not reported", bugs{observed: once(func(n *randomNode) bool {
			if len(n.errors) == 0 {
				return false
			}
			n.errors = n.errors[1:]
			return true
		})}, nil},
		{"an asynchronous error is reported twice", bugs{observed: once(func(n *randomNode) bool {
			if len(n.errors) == 0 {
				return false
			}
			n.errors = append(n.errors, n.errors[0])
			return true
		})}, nil},
		{"a byte outside the buffers is written", bugs{observed: once(func(n *randomNode) bool {
			n.buffers[6][areaSource].Bytes()[dataBytes-1] ^= 1
			return true
		})}, nil},
		{"a VI is in another state", bugs{observed: once(func(n *randomNode) bool {
			n.states[3] = layout.VIStateError - n.states[3]
			return true
		})}, nil},
	}
}

// The random runs must find faults of cards, which check too little, of the
// wire, and of the results that a program sees.
func TestRandomOperationsFindFaults(t *testing.T) {
	conformtest.OnDevices(t, randomOperationsFindFaults)
}

func randomOperationsFindFaults(t *testing.T, d driver.Device) {
	for i, tt := range randomFaults() {
		if testing.Short() && i%11 != 0 {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			s := conformtest.Seed(t)
			ops := generate(t, s, 5000, conditions{})
			r := newRandomRun(ops, tt.bugs, conditions{})
			err := fakes(t.Context(), d, s, r, tt.lose)
			require.Error(t, err, "%d operations were verified", r.verified)
			t.Logf("found after %d operations: %v", r.verified, err)
			require.True(t, errors.As(err, new(*mismatch)), "the model did not find it: %v", err)
		})
	}
}

// The search finds the shortest failing list.
func TestShortestFailingList(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many lists")
	}
	s := conformtest.Seed(t)
	ops := generate(t, s, 1500, conditions{})
	again := generate(t, s, 1000, conditions{})
	require.Equal(t, ops[:1000], again, "lists of one seed are prefixes of each other")
	// The wire loses the n-th RDMA write.
	run := func(r *randomRun) error {
		return fakes(t.Context(), driver.DeviceHvia, s, r, wireFault(100, isOperation(layout.FrameOperationRDMAWrite), func([]byte, layout.ViaHeader) bool { return true }))
	}
	r := newRandomRun(ops, bugs{}, conditions{})
	require.Error(t, run(r))
	n, err := shortest(ops, r.verified, conditions{}, run)
	require.Error(t, err)
	require.NoError(t, run(newRandomRun(ops[:n-1], bugs{}, conditions{})))
	require.Error(t, run(newRandomRun(ops[:n], bugs{}, conditions{})))
	require.Equal(t, opPost, ops[n-1].kind)
	require.True(t, ops[n-1].d.hasRemote)
}

// The run detects an outcome of a race that is not allowed: here an injected
// bug gives a flushed send an impossible length.
func TestRaceOutcomes(t *testing.T) {
	s := conformtest.Seed(t)
	ops := generate(t, s, 6000, conditions{})
	r := newRandomRun(ops, bugs{observed: func(n *randomNode) {
		for _, all := range n.seen {
			for k, c := range all[0] {
				if c.op >= 0 && ops[c.op].kind == opRace && c.status&layout.DescriptorStatusFlushedMask != 0 {
					all[0][k].length = layout.MaxPayload / 2
				}
			}
		}
	}}, conditions{})
	require.ErrorContains(t, fakes(t.Context(), driver.DeviceHvia, s, r, nil), "no allowed outcome")
}
