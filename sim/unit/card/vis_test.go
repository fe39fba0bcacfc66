// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"testing"

	"hvia/layout"
	"hvia/sim/unit/internal/unit"
)

// stream is one VI of many, with separate memory at both ends.
type stream struct {
	vi             [2]*vi
	source, target [2]*region
	fault          int
}

// Faults of some of the VIs; the stream stores the number of its fault for
// messages of the test.
const (
	faultNone      = iota
	faultTag       // the target region has another tag than the VI
	faultRegion    // the target region has no RDMA write right
	faultVI        // the peer's VI has no RDMA write right
	faultHandle    // no region has this handle
	faultStale     // the region was deregistered
	faultLocalTag  // the source region has another tag
	faultUnlinked  // the peer's VI was never connected
	faultKinds     = iota
	faultyVIs      = 2 // of each kind: few enough for the card's asynchronous error slots
	remoteFaults   = faultStale
	messagesOfEach = 4
)

// manyVIs makes the given number of VIs in each direction send messages of
// mixed sizes at once. A fault on some of them must stop only the messages of
// those VIs.
func manyVIs(count int) func(r *rig) {
	return func(r *rig) {
		streams := make([]*stream, count)
		order := r.random.Perm(256)
		for i := range streams {
			s := &stream{}
			if i < faultKinds*faultyVIs {
				s.fault = i % faultKinds
			}
			streams[i] = s
		}
		r.both(func(m *machine) {
			n := m.thread.ID().Node
			for i, s := range streams {
				tag := uint16(1 + i)
				s.vi[n] = m.createVI(uint8(order[i]+n), tag, s.fault != faultVI)
				sourceTag, targetTag := tag, tag
				if s.fault == faultTag {
					targetTag ^= 0x8000
				}
				if s.fault == faultLocalTag {
					sourceTag ^= 0x4000
				}
				s.source[n] = m.register(m.random.IntN(pageBytes), 1+m.random.IntN(2*pageBytes), sourceTag, false)
				s.target[n] = m.register(m.random.IntN(pageBytes), s.source[n].length+m.random.IntN(1000), targetTag, s.fault != faultRegion)
				s.source[n].scramble()
				if s.fault == faultStale {
					m.withdraw(s.target[n])
				}
			}
		})
		for _, s := range streams {
			a, b := s.vi[0], s.vi[1]
			if s.fault == faultUnlinked {
				a.aim(b)
				r.b(func(*machine) { b.aim(a) })
				a.connect()
				continue
			}
			r.connect(a, b)
		}
		r.both(func(m *machine) {
			n := m.thread.ID().Node
			for k := range messagesOfEach {
				for _, i := range m.random.Perm(count) {
					s := streams[i]
					if s.fault != faultNone && s.fault <= remoteFaults && k > 0 {
						continue // one error per VI: more would exceed the card's slots
					}
					source, target := s.source[n], s.target[1-n]
					length := m.random.IntN(min(source.length, target.length) + 1)
					d := rdmaWrite(source, m.random.IntN(source.length-length+1), length, target, m.random.IntN(target.length-length+1))
					if s.fault == faultHandle {
						d.remote.handle ^= 1 << layout.AttHandleValueGenerationLsb
					}
					s.vi[n].post(d)
				}
			}
			m.finish()
		})
		r.settle()
		r.carry()
		r.both((*machine).verifyMemory)
	}
}

func TestManyVIs(t *testing.T) {
	takesSeconds(t)
	mustPlay(t, config{}, manyVIs(int(unit.Sizes{Short: 24, Normal: 50, Long: 250}.Pick())))
}

// mangles are errors in a descriptor.
var mangles = []func(r *rig, d *descriptor){
	func(r *rig, d *descriptor) { d.control ^= 1 << r.random.IntN(16) },
	func(r *rig, d *descriptor) { d.control = uint16(r.random.IntN(4)) },
	func(r *rig, d *descriptor) { d.segments = uint16(r.random.IntN(5)) },
	func(r *rig, d *descriptor) { d.segments = 1; d.length = 0 }, // no data: fine
	func(r *rig, d *descriptor) { d.segments ^= 1 << r.random.IntN(16) },
	func(r *rig, d *descriptor) { d.reserved = 1 << r.random.IntN(32) },
	func(r *rig, d *descriptor) { d.remote.length = 1 << r.random.IntN(32) },
	func(r *rig, d *descriptor) { d.length ^= 1 << r.random.IntN(32) },
	func(r *rig, d *descriptor) { d.data[0].length ^= 1 << r.random.IntN(32) },
	func(r *rig, d *descriptor) { d.data[0].length = r.random.Uint32(); d.length = d.data[0].length },
	func(r *rig, d *descriptor) { d.data[0].length++; d.length++ },
	func(r *rig, d *descriptor) { d.data[0].address ^= 1 << r.random.IntN(64) },
	func(r *rig, d *descriptor) { d.data[0].address-- },
	func(r *rig, d *descriptor) { d.data[0].handle ^= 1 << r.random.IntN(32) },
	func(r *rig, d *descriptor) { d.data[0].handle = 0 },
	func(r *rig, d *descriptor) { d.remote.address ^= 1 << r.random.IntN(64) },
	func(r *rig, d *descriptor) { d.remote.address = -uint64(r.random.IntN(5000)) },
	func(r *rig, d *descriptor) { d.remote.handle ^= 1 << r.random.IntN(32) },
}

// badDescriptors posts descriptors, most of them with errors, on several VIs.
// One VI is not connected.
func badDescriptors(rounds uint64) func(r *rig) {
	return func(r *rig) {
		var streams [6]stream
		for i := range streams {
			s := &streams[i]
			s.vi[0], s.vi[1] = r.pair([2]uint8{uint8(i), uint8(100 + i)}, [2]uint16{8, 9}, [2]bool{true, true})
			r.both(func(m *machine) {
				n := m.thread.ID().Node
				s.source[n] = m.register(m.random.IntN(pageBytes), 1+m.random.IntN(30_000), uint16(8+n), true)
				s.target[n] = m.register(m.random.IntN(pageBytes), 1+m.random.IntN(30_000), uint16(8+n), true)
				s.source[n].scramble()
			})
		}
		idle := streams[5].vi[0]
		idle.m.viCommand(layout.CommandOpcodeDisconnectVI, idle, layout.CommandStatusDone, layout.VIStateIdle)
		idle.flushed()
		seen := map[uint32]int{}
		for i := range rounds {
			for range 1 + r.random.IntN(6) {
				s := &streams[r.random.IntN(len(streams))]
				n := r.random.IntN(min(s.source[0].length, s.target[1].length) + 1)
				d := rdmaWrite(s.source[0], r.random.IntN(s.source[0].length-n+1), n, s.target[1], r.random.IntN(s.target[1].length-n+1))
				for range r.random.IntN(3) {
					mangles[r.random.IntN(len(mangles))](r, &d)
				}
				p := s.vi[0].post(d)
				_, status, _ := s.vi[0].transmit(p)
				seen[status&(errorBits|layout.DescriptorStatusFlushedMask)]++
			}
			r.node[0].finish()
			r.settle()
			r.carry()
			r.both((*machine).verifyMemory)
			r.both((*machine).verifyErrors)
			if i%8 == 7 {
				r.both((*machine).verifyCounters)
			}
		}
		for _, bit := range []uint32{0, layout.DescriptorStatusFormatErrorMask, layout.DescriptorStatusLengthErrorMask,
			layout.DescriptorStatusProtectionErrorMask, layout.DescriptorStatusFlushedMask} {
			if rounds >= 100 && seen[bit] < 10 {
				fail("the descriptors did not cover status %#x: it came %d times", bit, seen[bit])
			}
		}
		r.t.Logf("descriptors by error bits: %v", seen)
	}
}

func TestBadDescriptors(t *testing.T) {
	takesSeconds(t)
	mustPlay(t, config{}, badDescriptors(unit.Sizes{Short: 20, Normal: 60, Long: 20_000}.Pick()))
}
