// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"hvia/att"
	"hvia/driver/internal/softvia"
	"hvia/host"
	"hvia/layout"
	"hvia/params"
)

func (c *Card) doorbell(offset uint32, data []uint32) {
	of, known := map[uint32]softvia.Queue{layout.DoorbellSend: softvia.SendQueue, layout.DoorbellReceive: softvia.ReceiveQueue}[offset%layout.DoorbellPageBytes]
	if !known || len(data) != layout.DoorbellDwords {
		c.count(layout.CounterDoorbellMalformed)
		return
	}
	id := softvia.QueueID{VI: int(offset / layout.DoorbellPageBytes), Of: of}
	c.engine.Ring(nobody{}, id, uint64(data[1])<<32|uint64(data[0]), data[2])
}

// list adds a queue to the ready list if it has a descriptor to fetch.
func (c *Card) list(id softvia.QueueID) {
	if c.engine.Ready(id) && !c.listed[id] {
		if c.listed == nil {
			c.listed = map[softvia.QueueID]bool{}
		}
		c.listed[id] = true
		c.ready = append(c.ready, id)
	}
	c.kick()
}

func (c *Card) kick() {
	if c.busy || len(c.ready) == 0 {
		return
	}
	c.busy = true
	c.f.after(deviceDelay, func() {
		c.busy = false
		if len(c.ready) == 0 {
			return
		}
		id := c.ready[0]
		c.ready = c.ready[1:]
		delete(c.listed, id)
		switch {
		case !c.engine.Ready(id): // flushed, or already fetched by a message
		case id.Of == softvia.SendQueue:
			_ = c.engine.Process(nobody{}, id.VI) // a card's Emit never fails
		default:
			c.engine.FetchReceive(nobody{}, id.VI)
		}
		c.list(id)
	})
}

type engineCard struct{ c *Card }

var (
	_ softvia.Environment[nobody] = engineCard{}
	_ softvia.Clock               = engineCard{}
)

func (e engineCard) Translate(handle uint32, va uint64, n uint32, tag uint16, access layout.AttAccess) (pa []softvia.Range, ok bool) {
	for first := true; first || n > 0; first = false {
		t, err := att.Translate(&e.c.table, e.c.limit, att.Handle(handle), va, n, tag, access)
		if err != nil {
			return nil, false
		}
		l := min(n, t.Bytes)
		if l > 0 {
			pa = append(pa, softvia.Range{Address: t.Address, Length: l})
		}
		va, n = va+uint64(l), n-l
	}
	return pa, true
}

// clock is the clock period of the card's core.
const clock = host.Time(params.SystemClockPeriod)

// Now counts from 1, so that a time is never 0.
func (e engineCard) Now() uint64 { return uint64(e.c.f.now/clock) + 1 }

// Alarm calls Expire at the start of that clock.
func (e engineCard) Alarm(index int, at uint64) {
	e.c.f.after(host.Time(at-1)*clock-e.c.f.now, func() { e.c.engine.Expire(nobody{}, index) })
}

func (e engineCard) Memory(address, n uint32) []byte { return e.c.dma(address, n) }

func (e engineCard) Store(_ nobody, address uint32, data []byte) {
	e.c.f.store(e.c.node, address, data)
}

func (e engineCard) StoreWord(_ nobody, address, v uint32) { e.c.f.storeWord(e.c.node, address, v) }

func (e engineCard) Emit(_ nobody, head []byte, payload []softvia.Range, sent func(nobody)) error {
	frame := append([]byte(nil), head...)
	for _, r := range payload {
		frame = append(frame, e.c.dma(r.Address, r.Length)...)
	}
	e.c.f.emit(e.c.node, frame)
	sent(nobody{})
	return nil
}

func (e engineCard) Posted(_ nobody, id softvia.QueueID) { e.c.list(id) }

func (e engineCard) Async(_ nobody, code layout.AsyncError, vi int) { e.c.async(code, vi) }

func (e engineCard) Notify(_ nobody, kind layout.NotifyKind, index int) { e.c.notify(kind, index) }

func (e engineCard) Count(n layout.Counter) { e.c.count(n) }
