// SPDX-License-Identifier: Apache-2.0

package card

import (
	"errors"
	"fmt"
	"sync"

	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

const (
	nicRingLog2    = 8
	nicRingEntries = 1 << nicRingLog2  // a ring fills a page
	nicBuffer      = mem.PageBytes / 2 // of a received frame, or of a head
	nicReturn      = 16                // received entries returned to the NIC with one write
)

const nicCauses = layout.RegisterInterruptStatusRawReceiveMask | layout.RegisterInterruptStatusRawTransmitMask

// Ethernet is a plain NIC as its kernel agent drives it: registers and rings.
// Any thread of the node may call Transmit, Reap and Counter; one thread makes
// all other calls. In timed mode a node's threads take turns; in free mode a
// lock guards the rings, and is never held during a wait.
type Ethernet struct {
	memory *mem.Memory
	costs  host.CostModel

	mu      sync.Mutex
	mac     layout.MAC
	started bool
	serving *host.Thread // in Service

	transmit struct {
		entries, heads *mem.Buffer
		base           uint32   // physical address of entry 0
		frames         []queued // not yet known to be read, in order
		next, tail     uint32   // entries returned and entries filled, both ever increasing
		told           uint32   // tail as last written to the NIC
		telling        bool     // a thread is writing the tail
	}
	receive struct {
		entries, frames *mem.Buffer
		next            uint32 // next entry that the NIC completes, ever increasing
		back            int    // entries taken since the last write of the tail
		failed          uint64 // entries completed with Error
	}
}

type queued struct {
	entries uint32
	done    func(t *host.Thread)
}

// OpenEthernet checks that this driver supports the node's plain NIC.
func OpenEthernet(t *host.Thread, m *mem.Memory, costs host.CostModel) (*Ethernet, error) {
	if _, err := identify(t, layout.NICID); err != nil {
		return nil, fmt.Errorf("driver: open the plain NIC of node %d: %w", t.ID().Node, err)
	}
	return &Ethernet{memory: m, costs: costs}, nil
}

// Address returns the NIC's MAC address.
func (e *Ethernet) Address() layout.MAC {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mac
}

// Counter reads one of the NIC's counters.
func (e *Ethernet) Counter(t *host.Thread, n layout.NICCounter) (uint32, error) {
	return t.Read(layout.PciBar0Base + layout.CounterBase + 4*uint32(n))
}

func (e *Ethernet) write(t *host.Thread, offset uint32, values ...uint32) error {
	return t.Write(layout.PciBar0Base+offset, values...)
}

// Start waits for the NIC, sets its address and its rings, and enables it.
func (e *Ethernet) Start(t *host.Thread, mac layout.MAC) error {
	if err := e.start(t, mac); err != nil {
		return fmt.Errorf("driver: start the plain NIC of node %d: %w", t.ID().Node, err)
	}
	return nil
}

func (e *Ethernet) start(t *host.Thread, mac layout.MAC) error {
	if e.started {
		return fmt.Errorf("it is already started: %w", ErrState)
	}
	if err := await(t, layout.RegisterStateOffset, layout.RegisterStateReadyMask, layout.RegisterStateReadyMask); err != nil {
		return err
	}
	if err := e.allocate(); err != nil {
		return errors.Join(err, e.release())
	}
	e.mu.Lock()
	e.mac, e.started = mac, true
	e.mu.Unlock()
	tx, rx := &e.transmit, &e.receive
	tx.base = tx.entries.Physical(nil, 0, 1)[0].Address
	for i := range nicRingEntries {
		entry := ringEntry(rx.entries, i)
		entry.SetAddress(rx.frames.Physical(nil, i*nicBuffer, 1)[0].Address)
		entry.SetLength(nicBuffer)
	}
	// The driver leaves one entry unused: a full ring would look empty.
	for _, w := range []struct {
		offset uint32
		values []uint32
	}{
		{layout.RegisterMacLowOffset, words(mac)},
		{layout.RegisterRawTransmitBaseOffset, []uint32{tx.base, nicRingLog2}},
		{layout.RegisterRawReceiveBaseOffset, []uint32{rx.entries.Physical(nil, 0, 1)[0].Address, nicRingLog2, nicRingEntries - 1}},
		{layout.RegisterInterruptEnableOffset, []uint32{nicCauses | layout.RegisterInterruptStatusBusErrorMask}},
		{layout.RegisterControlOffset, []uint32{layout.RegisterControlEnableMask}},
	} {
		if err := e.write(t, w.offset, w.values...); err != nil {
			return err
		}
	}
	return nil
}

func (e *Ethernet) allocate() error {
	for _, p := range []struct {
		to    **mem.Buffer
		bytes int
		how   mem.Scatter
	}{
		{&e.transmit.entries, mem.PageBytes, mem.Single}, {&e.receive.entries, mem.PageBytes, mem.Single},
		{&e.transmit.heads, nicRingEntries * nicBuffer, mem.Runs}, {&e.receive.frames, nicRingEntries * nicBuffer, mem.Runs},
	} {
		if err := allocate(e.memory, p.to, p.bytes, p.how); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends the NIC's accesses to host memory and frees its rings. Unread
// frames are lost; Stop calls their done, because their memory is free.
func (e *Ethernet) Stop(t *host.Thread) error {
	err := e.write(t, layout.RegisterControlOffset, layout.RegisterControlSoftResetMask)
	if err == nil {
		err = await(t, layout.RegisterControlOffset, layout.RegisterControlSoftResetMask, 0)
	}
	if err == nil {
		err = e.Release(t)
	}
	if err != nil {
		return fmt.Errorf("driver: stop the plain NIC of node %d: %w", t.ID().Node, err)
	}
	return nil
}

// Release is Stop for a NIC that Thread.ResetBus has reset.
func (e *Ethernet) Release(t *host.Thread) error {
	e.mu.Lock()
	frames := e.transmit.frames
	e.transmit.frames = nil
	e.started = false
	err := e.release()
	e.mu.Unlock()
	for _, f := range frames {
		if f.done != nil {
			f.done(t)
		}
	}
	return err
}

func (e *Ethernet) release() error {
	tx, rx := &e.transmit, &e.receive
	if err := release(e.memory, &tx.entries, &rx.entries, &tx.heads, &rx.frames); err != nil {
		return err
	}
	tx.next, tx.tail, tx.told = 0, 0, 0
	rx.next, rx.back = 0, 0
	return nil
}

func ringEntry(b *mem.Buffer, i int) layout.RawEntry {
	return layout.RawEntry(b.Bytes()[i*layout.RawEntrySize : (i+1)*layout.RawEntrySize])
}

// Transmit sends one frame, as Link.Transmit does. The ranges must be in frames
// that are in use (pinned). In the interrupt service it charges its work to the
// service. It returns an error if the NIC reads nothing for 100 ms while the
// ring is full: the wire takes a frame every 12 us, so the NIC must be broken.
func (e *Ethernet) Transmit(t *host.Thread, head []byte, body []mem.Range, done func(t *host.Thread)) error {
	if err := e.queue(t, head, body, done); err != nil {
		return fmt.Errorf("driver: send a frame through the plain NIC of node %d: %w", t.ID().Node, err)
	}
	return nil
}

func (e *Ethernet) queue(t *host.Thread, head []byte, body []mem.Range, done func(t *host.Thread)) error {
	var pieces []mem.Range
	sum := uint64(len(head))
	for _, r := range body {
		sum += uint64(r.Length)
		if sum > layout.MaxFrame {
			break
		}
		for r.Length > 0 {
			n := min(r.Length, mem.PageBytes-r.Address%mem.PageBytes)
			pieces = append(pieces, mem.Range{Address: r.Address, Length: n})
			r.Address, r.Length = r.Address+n, r.Length-n
		}
	}
	entries := uint32(len(pieces))
	if len(head) > 0 {
		entries++
	}
	if sum < layout.EthernetHeaderSize || sum > layout.MaxFrame || entries >= nicRingEntries {
		return fmt.Errorf("%d bytes of head and %d ranges, %d bytes and %d pages' pieces together: %w: want %d to %d bytes in fewer than %d pieces",
			len(head), len(body), sum, entries, host.ErrInvalidParameter, layout.EthernetHeaderSize, layout.MaxFrame, nicRingEntries)
	}
	if err := e.spend(t, e.costs.Kernel.SendPacket); err != nil {
		return err
	}
	for {
		if err := e.reap(t); err != nil {
			return err
		}
		full, err := e.fill(entries, head, pieces, done)
		if err != nil {
			return err
		}
		if full == nil {
			return e.tell(t)
		}
		ok, err := t.Poll(host.Poll{Ranges: []mem.Range{full.at}, Period: e.costs.PollPeriod(), Timeout: transmitWait, Simulated: true}, full.read)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("the ring is full and no entry came back within %v: %w", transmitWait, ErrDeadline)
		}
	}
}

func (e *Ethernet) spend(t *host.Thread, span host.Time) error {
	e.mu.Lock()
	service := e.serving == t
	e.mu.Unlock()
	if service {
		return t.SpendInService(host.LayerProtocol, span)
	}
	return t.Spend(host.LayerProtocol, span)
}

// oldest is the last entry of a full ring's first frame.
type oldest struct {
	at     mem.Range
	status []byte
}

func (o *oldest) read() bool { return mem.LoadUint32(o.status)&layout.RawEntryStatusDoneMask != 0 }

// fill enters a frame into the ring, or returns the entry to wait for.
func (e *Ethernet) fill(entries uint32, head []byte, body []mem.Range, done func(t *host.Thread)) (*oldest, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	tx := &e.transmit
	if !e.started {
		return nil, fmt.Errorf("it is not started: %w", ErrState)
	}
	if tx.tail-tx.next+entries >= nicRingEntries {
		i := int(tx.next+tx.frames[0].entries-1) % nicRingEntries
		return &oldest{
			at:     mem.Range{Address: tx.base + uint32(i*layout.RawEntrySize+layout.RawEntryStatusOffset), Length: 4},
			status: ringEntry(tx.entries, i)[layout.RawEntryStatusOffset:],
		}, nil
	}
	put := func(r mem.Range) {
		entry := ringEntry(tx.entries, int(tx.tail%nicRingEntries))
		if entries--; entries > 0 {
			r.Length |= layout.RawEntryLengthMoreMask
		}
		entry.SetAddress(r.Address)
		entry.SetLength(r.Length)
		mem.StoreUint32(entry[layout.RawEntryStatusOffset:], 0)
		tx.tail++
	}
	tx.frames = append(tx.frames, queued{entries: entries, done: done})
	if len(head) > 0 {
		slot := int(tx.tail%nicRingEntries) * nicBuffer
		copy(tx.heads.Bytes()[slot:], head)
		put(mem.Range{Address: tx.heads.Physical(nil, slot, 1)[0].Address, Length: uint32(len(head))})
	}
	for _, r := range body {
		put(r)
	}
	return nil, nil
}

// tell writes the ring's tail to the NIC. If another thread is writing it, tell
// leaves the write to that thread, so that the tail never decreases.
func (e *Ethernet) tell(t *host.Thread) error {
	tx := &e.transmit
	e.mu.Lock()
	defer e.mu.Unlock()
	for !tx.telling && tx.told != tx.tail {
		tail := tx.tail
		tx.telling = true
		e.mu.Unlock()
		err := e.write(t, layout.RegisterRawTransmitTailOffset, tail%nicRingEntries)
		e.mu.Lock()
		tx.telling = false
		if err != nil {
			return err
		}
		tx.told = tail
	}
	return nil
}

// Reap completes the frames that the NIC has read, and calls their done.
func (e *Ethernet) Reap(t *host.Thread) error {
	if err := e.reap(t); err != nil {
		return fmt.Errorf("driver: poll the transmit ring of node %d: %w", t.ID().Node, err)
	}
	return nil
}

func (e *Ethernet) reap(t *host.Thread) error {
	for {
		f, ok, err := e.read()
		if f.done != nil {
			f.done(t)
		}
		if err != nil || !ok {
			return err
		}
	}
}

func (e *Ethernet) read() (f queued, ok bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	tx := &e.transmit
	if len(tx.frames) == 0 {
		return f, false, nil
	}
	f = tx.frames[0]
	i := int(tx.next+f.entries-1) % nicRingEntries
	status := mem.LoadUint32(ringEntry(tx.entries, i)[layout.RawEntryStatusOffset:])
	if status&layout.RawEntryStatusDoneMask == 0 {
		return queued{}, false, nil
	}
	tx.frames = tx.frames[1:]
	tx.next += f.entries
	if status&layout.RawEntryStatusErrorMask != 0 {
		err = fmt.Errorf("the NIC could not read the frame of %d entries that ends in entry %d (check that its ranges are in host memory): %w", f.entries, i, ErrCommand)
	}
	return f, true, err
}

// Service is the interrupt service without the cost of its entry. It reads and
// clears the causes, completes the frames that the NIC has read, and passes
// received frames to take until there are none. take must not keep the bytes;
// its error ends the service.
func (e *Ethernet) Service(t *host.Thread, take func(frame []byte) error) error {
	e.serve(t)
	defer e.serve(nil)
	if err := e.service(t, take); err != nil {
		return fmt.Errorf("driver: interrupt service of the plain NIC of node %d: %w", t.ID().Node, err)
	}
	return nil
}

func (e *Ethernet) serve(t *host.Thread) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.serving = t
}

func (e *Ethernet) service(t *host.Thread, take func(frame []byte) error) error {
	// The read completes after the write, so the NIC has cleared the causes: a
	// frame stored later raises one again, an earlier one is found below.
	if err := e.write(t, layout.RegisterInterruptStatusOffset, nicCauses); err != nil {
		return err
	}
	causes, err := t.Read(layout.PciBar0Base + layout.RegisterInterruptStatusOffset)
	if err != nil {
		return err
	}
	if causes&layout.RegisterInterruptStatusBusErrorMask != 0 {
		return fmt.Errorf("cause BusError: the NIC has read or written an address without memory (check the rings and the ranges of frames): %w", ErrCommand)
	}
	if err := e.reap(t); err != nil {
		return err
	}
	rx := &e.receive
	for {
		i := int(rx.next % nicRingEntries)
		status := mem.LoadUint32(ringEntry(rx.entries, i)[layout.RawEntryStatusOffset:])
		if status&layout.RawEntryStatusDoneMask == 0 {
			return e.giveBack(t)
		}
		var taken error
		if status&layout.RawEntryStatusErrorMask != 0 {
			rx.failed++
		} else {
			n := int(status & layout.RawEntryStatusLengthMask >> layout.RawEntryStatusLengthLsb)
			frame := rx.frames.Bytes()[i*nicBuffer : (i+1)*nicBuffer]
			taken = take(frame[:min(n, nicBuffer)])
		}
		mem.StoreUint32(ringEntry(rx.entries, i)[layout.RawEntryStatusOffset:], 0)
		rx.next++
		rx.back++
		if rx.back == nicReturn || taken != nil {
			if err := errors.Join(taken, e.giveBack(t)); err != nil {
				return err
			}
		}
	}
}

func (e *Ethernet) giveBack(t *host.Thread) error {
	rx := &e.receive
	if rx.back == 0 {
		return nil
	}
	rx.back = 0
	return e.write(t, layout.RegisterRawReceiveTailOffset, (rx.next+nicRingEntries-1)%nicRingEntries)
}

// ReceiveErrors returns the number of received entries with Error.
func (e *Ethernet) ReceiveErrors() uint64 { return e.receive.failed }
