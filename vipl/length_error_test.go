// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"fmt"
	"strings"
	"testing"

	"hvia/driver"
	"hvia/host"
	"hvia/vipl"
)

// A length error is explained with the numbers at fault, those of the descriptor as
// it was posted.
func TestLengthErrorsSayWhy(t *testing.T) {
	receives := []struct {
		room, length uint32
		want         string
	}{
		{100, 100, "the message is longer than its buffers: 100 bytes of it are in memory"},
		{300, 100, "the message is longer than the descriptor takes: its length is 100, its segments have 300 bytes; 100 bytes of the message are in memory"},
		{100, 300, "the message is longer than the descriptor takes: its length is 300, its segments have 100 bytes; 100 bytes of the message are in memory"},
		{100, 70000, "length 70000 > max transfer size 65536"},
	}
	onDevices(t, func(t *testing.T, d driver.Device) {
		runFake(t, d, nil, func(e *env) error {
			p, err := e.dial(1, writable)
			if err != nil {
				return err
			}
			for range receives {
				if err := p.meet(1); err != nil {
					return err
				}
				d, err := p.send(0, 200)
				if err != nil {
					return err
				}
				p.sent("a message", d, sentBytes(200))
			}
			d := p.next()
			if err := d.SetSend(p.mem.Segment(0, 10)); err != nil {
				return err
			}
			raw(d).SetLength(9)
			if err := p.vi.PostSend(p.t, d); err != nil {
				return err
			}
			_, err = p.vi.SendWait(p.t, host.Second)
			e.is("a send", err, vipl.ErrDescriptor)
			e.that("a send: "+text(err), strings.Contains(text(err), "length 9, but the segments have 10 bytes"))
			return p.settled(1)
		}, func(e *env) error {
			p, err := e.serve(writable)
			if err != nil {
				return err
			}
			for i, c := range receives {
				d := p.next()
				if err := d.SetReceive(p.mem.Segment(0, int(c.room))); err != nil {
					return err
				}
				raw(d).SetLength(c.length)
				if err := p.vi.PostRecv(p.t, d); err != nil {
					return err
				}
				if err := p.meet(0); err != nil {
					return err
				}
				_, err := p.vi.RecvWait(p.t, host.Second)
				e.is(fmt.Sprintf("receive %d", i), err, vipl.ErrDescriptor)
				e.that(fmt.Sprintf("receive %d: %s", i, text(err)), strings.Contains(text(err), c.want))
			}
			return p.settled(0)
		})
	})
}
