// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"

	"hvia/att"
	"hvia/driver/card"
	"hvia/driver/internal/call"
	"hvia/host"
	"hvia/layout"
)

type cardDevice struct {
	agent    *Agent
	card     *card.Card
	linkDown bool // by the card's events
}

var _ device = (*cardDevice)(nil)

func (d *cardDevice) open() (err error) {
	d.card, err = card.Open(d.agent.thread, d.agent.memory, d.agent.costs, d.agent.frames)
	return err
}

func (d *cardDevice) start() error                   { return d.card.Start(d.agent.mac, int(d.agent.table.Limit())) }
func (d *cardDevice) enter(g att.Registration) error { return d.card.Enter(g) }
func (d *cardDevice) stop() error                    { return d.card.Stop() }
func (d *cardDevice) identity() card.Identity        { return d.card.Identity() }
func (d *cardDevice) level2Entries() uint32          { return d.card.Level2Entries() }

func (d *cardDevice) remove(h att.Handle) error {
	if err := d.card.Remove(h); err != nil {
		return err
	}
	if err := d.agent.table.Deregister(h); err != nil {
		return fmt.Errorf("%w: %w", err, host.ErrInvalidParameter)
	}
	return nil
}

// change deregisters the handle, which drains every access that the old entry
// allowed and drops cached copies, and enters it again. In between nothing
// translates.
func (d *cardDevice) change(h att.Handle, tag uint16, rights uint8) (bool, error) {
	if err := d.card.Remove(h); err != nil {
		return false, err
	}
	g, err := d.agent.table.Modify(h, tag, allowsWrite(rights), allowsRead(rights))
	if err == nil {
		err = d.card.Enter(g)
	}
	if err != nil {
		return true, errors.Join(err, d.agent.table.Deregister(h))
	}
	return false, nil
}

func (d *cardDevice) viCommand(op layout.CommandOpcode, index int, fill func(layout.VIContext)) error {
	_, err := d.card.Command(op, func(b layout.Command) {
		b.SetIndex(uint32(index))
		if fill != nil {
			fill(layout.VIContext(b.Payload()))
		}
	})
	return err
}

func (d *cardDevice) queueCommand(op layout.CommandOpcode, index int, address, log2 uint32) (uint32, error) {
	return d.card.Command(op, func(b layout.Command) {
		b.SetIndex(uint32(index))
		b.SetListAddress(address)
		b.SetListCount(log2)
	})
}

// arm reads a register after the write: the read completes after the card's
// earlier writes.
func (d *cardDevice) arm(kind layout.NotifyKind, index int) error {
	if err := d.card.Write(layout.RegisterNotifyArmOffset,
		uint32(kind)<<layout.RegisterNotifyArmKindLsb|uint32(index)<<layout.RegisterNotifyArmIndexLsb); err != nil {
		return err
	}
	_, err := d.card.Read(layout.RegisterStateOffset)
	return err
}

func (d *cardDevice) send(frame []byte) error { return d.card.Send(frame) }

func (d *cardDevice) counter(n layout.Counter) (uint32, error) { return d.card.Counter(n) }

func (d *cardDevice) deadline() host.Time { return host.Never }
func (d *cardDevice) tick() error         { return nil }

// interrupt clears the causes before it polls for work, so that later work
// raises the interrupt again.
func (d *cardDevice) interrupt(take func(frame []byte), notified func(layout.NotifyKind, int)) (bool, error) {
	if err := d.agent.thread.SpendInService(host.LayerInterrupt, d.agent.costs.Interrupt); err != nil {
		return false, err
	}
	causes, err := d.card.Read(layout.RegisterInterruptStatusOffset)
	if err != nil {
		return false, err
	}
	if err := d.card.Write(layout.RegisterInterruptStatusOffset, causes); err != nil {
		return false, err
	}
	if causes&layout.RegisterInterruptStatusRawReceiveMask != 0 {
		if err := d.card.Receive(take); err != nil {
			return false, err
		}
	}
	if causes&layout.RegisterInterruptStatusNotifyMask != 0 {
		if err := d.notifications(notified); err != nil {
			return false, err
		}
	}
	if causes&layout.RegisterInterruptStatusBusErrorMask != 0 {
		d.agent.log.Error("the card met a host bus error")
	}
	return causes&layout.RegisterInterruptStatusAsyncErrorMask != 0, nil
}

// notifications takes at most as many as the card can hold, as asyncErrors
// does.
func (d *cardDevice) notifications(notified func(layout.NotifyKind, int)) error {
	for range 2*d.card.Identity().VICount + d.card.Identity().CompletionQueues {
		info, err := d.card.Read(layout.RegisterNotifyInfoOffset)
		if err != nil || info&layout.RegisterNotifyInfoValidMask == 0 {
			return err
		}
		notified(layout.NotifyKind(info&layout.RegisterNotifyInfoKindMask>>layout.RegisterNotifyInfoKindLsb),
			int(info&layout.RegisterNotifyInfoIndexMask>>layout.RegisterNotifyInfoIndexLsb))
	}
	return nil
}

// link records the state of the link and returns its event, which has no VI.
func (d *cardDevice) link(down bool) call.AsyncError {
	d.linkDown = down
	if down {
		return call.AsyncError{Code: layout.AsyncErrorLinkDown, VI: -1}
	}
	return call.AsyncError{Code: layout.AsyncErrorLinkUp, VI: -1}
}

// asyncErrors takes at most as many as the card can hold: later ones came after
// the causes were cleared and raise the interrupt again. So a process that
// causes errors endlessly cannot hold the agent here.
func (d *cardDevice) asyncErrors() (waiting []call.AsyncError, dropped [layout.AsyncErrorDroppedWords]uint32, err error) {
	overflow := false
	// Handling the first one frees slots for more, so take all before.
	for len(waiting) < layout.AsyncErrorSlots {
		info, err := d.card.Read(layout.RegisterAsyncErrorInfoOffset)
		if err != nil {
			return nil, dropped, err
		}
		overflow = overflow || info&layout.RegisterAsyncErrorInfoOverflowMask != 0
		if info&layout.RegisterAsyncErrorInfoValidMask == 0 {
			break
		}
		e := call.AsyncError{
			Code: layout.AsyncError(info & layout.RegisterAsyncErrorInfoCodeMask >> layout.RegisterAsyncErrorInfoCodeLsb),
			VI:   int(info & layout.RegisterAsyncErrorInfoVIMask >> layout.RegisterAsyncErrorInfoVILsb),
		}
		if e.Code == layout.AsyncErrorLinkDown || e.Code == layout.AsyncErrorLinkUp {
			e = d.link(e.Code == layout.AsyncErrorLinkDown)
		}
		waiting = append(waiting, e)
	}
	if overflow {
		// A link event may be among the dropped ones.
		state, err := d.card.Read(layout.RegisterStateOffset)
		if err != nil {
			return nil, dropped, err
		}
		if down := state&layout.RegisterStateLinkDownMask != 0; down != d.linkDown {
			waiting = append(waiting, d.link(down))
		}
		for i := range dropped {
			if dropped[i], err = d.card.Read(layout.AsyncErrorDroppedBase + 4*uint32(i)); err != nil {
				return nil, dropped, err
			}
		}
	}
	return waiting, dropped, nil
}
