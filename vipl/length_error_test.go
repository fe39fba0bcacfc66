// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"fmt"
	"strings"
	"testing"

	"hvia/conformance"
	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/host"
	"hvia/vipl"
)

// A length error is explained with the lengths of the descriptor when it was
// posted.
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
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) {
		runFake(t, d, nil, func(e *conformance.Env) error {
			p, err := e.Dial(1, conformance.Writable)
			if err != nil {
				return err
			}
			for range receives {
				if err := p.Meet(1); err != nil {
					return err
				}
				d, err := p.Send(0, 200)
				if err != nil {
					return err
				}
				p.Sent("a message", d, conformance.SentBytes(200))
			}
			d := p.Next()
			if err := d.SetSend(p.Mem.Segment(0, 10)); err != nil {
				return err
			}
			conformance.Raw(d).SetLength(9)
			if err := p.VI.PostSend(p.T, d); err != nil {
				return err
			}
			_, err = p.VI.SendWait(p.T, host.Second)
			e.Is("a send", err, vipl.ErrDescriptor)
			e.That("a send: "+conformance.Text(err), strings.Contains(conformance.Text(err), "length 9, but the segments have 10 bytes"))
			return p.Settled(1)
		}, func(e *conformance.Env) error {
			p, err := e.Serve(conformance.Writable)
			if err != nil {
				return err
			}
			for i, c := range receives {
				d := p.Next()
				if err := d.SetReceive(p.Mem.Segment(0, int(c.room))); err != nil {
					return err
				}
				conformance.Raw(d).SetLength(c.length)
				if err := p.VI.PostRecv(p.T, d); err != nil {
					return err
				}
				if err := p.Meet(0); err != nil {
					return err
				}
				_, err := p.VI.RecvWait(p.T, host.Second)
				e.Is(fmt.Sprintf("receive %d", i), err, vipl.ErrDescriptor)
				e.That(fmt.Sprintf("receive %d: %s", i, conformance.Text(err)), strings.Contains(conformance.Text(err), c.want))
			}
			return p.Settled(0)
		})
	})
}
