// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"

	"hvia/layout"
)

// FrameBytes is the size of a frame of host memory.
const FrameBytes = layout.BridgeFrameBytes

// UseKind is a reason for the use of a frame.
type UseKind int

// Kinds of use. A card may touch a frame while any count is above 0.
const (
	UseRegion          UseKind = iota // registered regions
	UseRing                           // descriptor rings, command blocks, a translation table in host memory
	UseCompletionQueue                // completion queues
)

var useFields = [...]struct {
	name string
	lsb  uint
	mask uint32
}{
	{"region", layout.BridgeFrameUseCountRegionLsb, layout.BridgeFrameUseCountRegionMask},
	{"ring", layout.BridgeFrameUseCountRingLsb, layout.BridgeFrameUseCountRingMask},
	{"completion queue", layout.BridgeFrameUseCountCompletionQueueLsb, layout.BridgeFrameUseCountCompletionQueueMask},
}

func (k UseKind) String() string { return useFields[k].name }

// Errors of frame use.
var (
	ErrFrameRange    = errors.New("no such frame of host memory")
	ErrUseOverflow   = errors.New("frame is in use too often")
	ErrUseUnderflow  = errors.New("frame is not in use")
	ErrNoUseTable    = errors.New("a guest does not count uses of frames")
	ErrNodeNotMapped = errors.New("node's host memory is not mapped by this process")
)

// Memory is the host memory of one node: a file of frames, which may be mapped
// in any order, and the table of frames that a card may touch. A guest's Memory
// is its bank, without the table.
type Memory struct {
	Node   int
	FD     int // file of Frames * FrameBytes bytes; the connection closes it
	First  int // number of the first frame in the file: above 0 only in a guest's bank
	Frames int

	use  []byte
	view []byte
}

// Linear is a view of all memory in physical order: byte n is the byte at
// physical address n + First * FrameBytes. It is valid until the connection is
// closed. The owner of the fabric sees its guests' banks in it.
func (m *Memory) Linear() []byte { return m.view }

// UseTable is the frame-use table, one word for each frame. Access it with
// sync/atomic only, until the connection is closed. A guest has no table:
// UseTable is empty, Use returns 0, and Acquire fails.
func (m *Memory) UseTable() []uint32 { return words(m.use) }

// Use returns the frame-use word of a frame, 0 if it does not exist.
func (m *Memory) Use(frame int) uint32 {
	if frame < 0 || frame >= len(m.use)/layout.BridgeFrameUseSize {
		return 0
	}
	return word(m.use, frame*layout.BridgeFrameUseSize).Load()
}

// Acquire counts one more use of a frame. The card may touch it from the next
// command on.
func (m *Memory) Acquire(frame int, kind UseKind) error { return m.count(frame, kind, true) }

// Release counts one use less.
func (m *Memory) Release(frame int, kind UseKind) error { return m.count(frame, kind, false) }

func (m *Memory) count(frame int, kind UseKind, up bool) error {
	if m.use == nil {
		return fmt.Errorf("bridge: count a use of frame %d of node %d as %s: %w", frame, m.Node, kind, ErrNoUseTable)
	}
	if frame < 0 || frame >= m.Frames {
		return fmt.Errorf("bridge: frame %d of node %d (it has %d): %w", frame, m.Node, m.Frames, ErrFrameRange)
	}
	f := useFields[kind]
	w := word(m.use, frame*layout.BridgeFrameUseSize)
	for {
		old := w.Load()
		n := old & f.mask >> f.lsb
		switch {
		case up && n == f.mask>>f.lsb:
			return fmt.Errorf("bridge: frame %d of node %d, %d uses as %s: %w", frame, m.Node, n, kind, ErrUseOverflow)
		case !up && n == 0:
			return fmt.Errorf("bridge: frame %d of node %d as %s: %w", frame, m.Node, kind, ErrUseUnderflow)
		case up:
			n++
		default:
			n--
		}
		if w.CompareAndSwap(old, old&^f.mask|n<<f.lsb) {
			return nil
		}
	}
}
