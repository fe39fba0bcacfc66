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
			p := must(e.Dial(1, conformance.Writable))
			for range receives {
				check(p.Meet(1))
				d := must(p.Send(0, 200))
				p.Sent("a message", d, conformance.SentBytes(200))
			}
			d := p.Next()
			check(d.SetSend(p.Mem.Segment(0, 10)))
			conformance.Raw(d).SetLength(9)
			check(p.VI.PostSend(p.T, d))
			_, err := p.VI.SendWait(p.T, host.Second)
			e.Is("a send", err, vipl.ErrDescriptor)
			e.That("a send: "+conformance.Text(err), strings.Contains(conformance.Text(err), "length 9, but the segments have 10 bytes"))
			return p.Settled(1)
		}, func(e *conformance.Env) error {
			p := must(e.Serve(conformance.Writable))
			for i, c := range receives {
				d := p.Next()
				check(d.SetReceive(p.Mem.Segment(0, int(c.room))))
				conformance.Raw(d).SetLength(c.length)
				check(p.VI.PostRecv(p.T, d))
				check(p.Meet(0))
				_, err := p.VI.RecvWait(p.T, host.Second)
				e.Is(fmt.Sprintf("receive %d", i), err, vipl.ErrDescriptor)
				e.That(fmt.Sprintf("receive %d: %s", i, conformance.Text(err)), strings.Contains(conformance.Text(err), c.want))
			}
			return p.Settled(0)
		})
	})
}
