// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"bytes"
	"encoding/binary"

	"hvia/layout"
)

func (m *machine) hearRaw(frame []byte) {
	ring := &m.receive
	if len(ring.filled) == 0 {
		m.counts[layout.CounterRawReceiveDropped]++
		return
	}
	b := ring.filled[0]
	ring.filled = ring.filled[1:]
	status := layout.RawEntryStatusDoneMask | uint32(len(frame))<<layout.RawEntryStatusLengthLsb
	if len(frame) > b.capacity {
		status |= layout.RawEntryStatusErrorMask
		m.counts[layout.CounterRawReceiveError]++
	} else {
		m.counts[layout.CounterRawReceive]++
		m.expect(b.address, frame)
	}
	m.expectWord(ring.base+uint32(b.entry)*layout.RawEntrySize+layout.RawEntryStatusOffset, status)
}

// inject sends frames unchanged. It returns when the card has taken them from
// memory.
func (m *machine) inject(frames ...[]byte) { m.sentRaw(m.place(frames...)) }

// sentRaw waits until the card has returned an entry of the transmit ring.
func (m *machine) sentRaw(status uint32) {
	m.await("raw frame", status, func(s uint32) bool { return s != 0 })
}

// place puts frames into the transmit ring and rings the doorbell. It returns
// the address of the last frame's status.
func (m *machine) place(frames ...[]byte) (status uint32) {
	ring := &m.transmit
	if len(frames) >= len(ring.buffers) {
		m.fail("%d frames for a ring of %d entries", len(frames), len(ring.buffers))
	}
	last := uint32(0)
	for _, f := range frames {
		room := pageBytes - len(f)
		b := rawBuffer{entry: ring.tail, address: ring.buffers[ring.tail]}
		if room > 0 {
			b.address += m.random.Uint32N(uint32(room + 1))
		}
		m.put(b.address, f)
		last = m.fillEntry(ring, b, len(f))
		bad := len(f) < layout.EthernetHeaderSize || len(f) > layout.MaxFrame
		m.counts[layout.CounterRawTransmit]++
		if bad {
			m.counts[layout.CounterRawTransmit]--
			m.counts[layout.CounterRawTransmitError]++
			m.expectWord(last, layout.RawEntryStatusDoneMask|layout.RawEntryStatusErrorMask)
			continue
		}
		m.counts[layout.CounterMacTransmitFrame]++
		m.expectWord(last, layout.RawEntryStatusDoneMask)
	}
	m.write(layout.RegisterRawTransmitTailOffset, uint32(ring.tail))
	return last
}

// seeRaw is the arrival of a raw frame after others. Only the card knows
// whether it had read the next entry of the ring by then. The frame is in the
// next buffer, or was dropped.
func (m *machine) seeRaw(frame []byte) (stored bool) {
	ring := &m.receive
	if len(ring.filled) > 0 {
		e := ring.filled[0]
		status := binary.LittleEndian.Uint32(m.memo[ring.base+uint32(e.entry)*layout.RawEntrySize+layout.RawEntryStatusOffset:])
		if status != 0 && bytes.Equal(m.memo[e.address:e.address+uint32(len(frame))], frame) {
			m.hear(frame)
			return true
		}
	}
	m.counts[layout.CounterMacReceiveFrame]++
	m.counts[layout.CounterRawReceiveDropped]++
	return false
}

func (m *machine) offer(capacities ...int) {
	ring := &m.receive
	for _, n := range capacities {
		if len(ring.filled) == ringEntries-1 {
			m.fail("the receive ring is full")
		}
		b := rawBuffer{entry: ring.tail, address: ring.buffers[ring.tail], capacity: n}
		if n < pageBytes {
			b.address += m.random.Uint32N(uint32(pageBytes - n + 1))
		}
		m.fillEntry(ring, b, n)
		ring.filled = append(ring.filled, b)
	}
	m.write(layout.RegisterRawReceiveTailOffset, uint32(ring.tail))
}

func (m *machine) fillEntry(ring *rawRing, b rawBuffer, length int) (status uint32) {
	e := layout.RawEntry(make([]byte, layout.RawEntrySize))
	e.SetAddress(b.address)
	e.SetLength(uint32(length))
	at := ring.base + uint32(b.entry)*layout.RawEntrySize
	m.put(at, e)
	ring.tail = (ring.tail + 1) % len(ring.buffers)
	return at + layout.RawEntryStatusOffset
}
