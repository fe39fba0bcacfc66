// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"bytes"
	"testing"

	"hvia/driver"
	"hvia/vipl"
)

func TestWriteReachesThePeer(t *testing.T) {
	runFake(t, nil, func(e *env) error {
		p, err := e.dial(1, writable)
		if err != nil {
			return err
		}
		to, err := p.hear()
		if err != nil {
			return err
		}
		for i := range p.mem.Bytes() {
			p.mem.Bytes()[i] = byte(i * 7)
		}
		d, err := p.write(3, 70000-4465, to, 4095)
		if err != nil {
			return err
		}
		got, err := p.vi.SendWait(p.t, driver.Second)
		e.is("send wait", err, nil)
		e.that("the posted descriptor comes back", got == d)
		e.that("it says how many bytes went", d.Length() == 70000-4465)
		got, err = p.vi.SendDone(p.t)
		e.is("empty queue", err, vipl.ErrDescriptor)
		e.that("empty queue gives no descriptor", got == nil)
		return p.settled(1)
	}, func(e *env) error {
		p, err := e.serve(writable)
		if err != nil {
			return err
		}
		if err := p.tell(0); err != nil {
			return err
		}
		const n = 70000 - 4465
		b := p.mem.Bytes()
		last := byte((3 + n - 1) * 7 & 0xff)
		if err := p.mem.Poll(p.t, 4095+n-1, 1, driver.Second, func() bool { return b[4095+n-1] == last }); err != nil {
			return err
		}
		want := make([]byte, n)
		for i := range want {
			want[i] = byte((i + 3) * 7)
		}
		e.that("the bytes", bytes.Equal(b[4095:4095+n], want))
		e.that("nothing before", bytes.Count(b[:4095], []byte{0}) == 4095)
		e.that("nothing behind", bytes.Count(b[4095+n:], []byte{0}) == len(b)-4095-n)
		return p.settled(0)
	})
}
