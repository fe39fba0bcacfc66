// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"hvia/conformance"
	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/host"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

// A failed Open leaves nothing: more endpoints fail than the card has
// completion queues, with more memory than the node has.
func TestFailedEndpointsLeaveNothing(t *testing.T) {
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) {
		for _, c := range []struct {
			name   string
			config endpoint.Config
			want   error
		}{
			{"no VI", endpoint.Config{Bytes: 1 << 20, ReliabilityLevel: 1 << 7}, vipl.ErrInvalidReliabilityLevel},
			{"no region", endpoint.Config{Bytes: -1}, vipl.ErrInvalidParameter},
			{"more receives than a queue has", endpoint.Config{Bytes: 1 << 20, Receives: vipl.MaxDescriptorsPerQueue + 1}, vipl.ErrOverrun},
		} {
			t.Run(c.name, func(t *testing.T) {
				runFake(t, d, nil, func(e *conformance.Env) error {
					for range e.NIC.Query().MaxCQ + 1 {
						p, err := endpoint.Open(e.T, e.H, c.config)
						e.That("no endpoint", p == nil)
						if !errors.Is(err, c.want) {
							return fmt.Errorf("something was left: %w", err)
						}
					}
					p := must(endpoint.Open(e.T, e.H, endpoint.Config{Bytes: 4096}))
					return p.Close(e.T)
				})
			})
		}
	})
}

// Messages of every length come to Recv in order, and a reliable endpoint reads
// its peer's buffer.
func TestEndpointMessages(t *testing.T) {
	lengths := []int{0, 1, 63, 1500, endpoint.MaxMessage}
	fill := func(n, seed int) []byte { return bytes.Repeat([]byte{byte(seed), byte(seed * 7), 3}, n)[:n] }
	both := func(level vipl.ReliabilityLevel, node int) conformance.Main {
		return func(e *conformance.Env) error {
			p := must(endpoint.Open(e.T, e.H, endpoint.Config{ReliabilityLevel: level, Blocking: true}))
			copy(p.Bytes(), fill(2000, node))
			if node == 0 {
				check(p.Dial(e.T, vipl.At(1, "messages"), host.Second))
			} else {
				check(p.Accept(e.T, "messages", host.Second))
			}
			for i := range 20 { // more than there are receives
				message := fill(lengths[i%len(lengths)], i)
				if i%2 == node {
					e.Is("send", p.Send(e.T, message, host.Second), nil)
					continue
				}
				got, err := p.Recv(e.T, host.Second)
				e.Is("receive", err, nil)
				e.That(fmt.Sprintf("message %d", i), bytes.Equal(got, message))
			}
			e.Is("no message", errOf(p.Recv(e.T, host.Millisecond)), vipl.ErrTimeout)
			e.Is("too long", p.Send(e.T, make([]byte, endpoint.MaxMessage+1), host.Second), vipl.ErrInvalidParameter)
			if level != vipl.Unreliable {
				e.Is("read", p.Read(e.T, 100, 1900, 2000, host.Second), nil)
				e.That("what was read", bytes.Equal(p.Bytes()[2000:3900], fill(2000, 1-node)[100:]))
				e.Is("read beyond the peer's buffer", p.Read(e.T, len(p.Bytes()), 1, 0, host.Second), vipl.ErrInvalidParameter)
			}
			// The peer's last read comes before the end.
			return errors.Join(e.T.Sleep(10*host.Millisecond), p.Close(e.T))
		}
	}
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) {
		runFake(t, d, nil, both(vipl.Unreliable, 0), both(vipl.Unreliable, 1))
	})
	runFake(t, driver.DeviceHvia, nil, both(vipl.ReliableDelivery, 0), both(vipl.ReliableDelivery, 1))
}

// A write of no bytes is valid at any offset. Negative lengths and a byte
// beyond either buffer are not.
func TestEndpointWrites(t *testing.T) {
	const own, theirs = 4096, 8192
	runFake(t, driver.DeviceHvia, nil, func(e *conformance.Env) error {
		p := must(endpoint.Open(e.T, e.H, endpoint.Config{Bytes: own}))
		check(p.Dial(e.T, vipl.At(1, "writes"), host.Second))
		for _, c := range []struct {
			from, n, to int
			want        error
		}{
			{0, 0, 0, nil}, {own, 0, theirs, nil}, {0, own, 0, nil}, {0, own, theirs - own, nil}, {own - 1, 1, theirs - 1, nil},
			{0, -1, 1, vipl.ErrInvalidParameter}, {1, -1, 1, vipl.ErrInvalidParameter}, {-1, 1, 0, vipl.ErrInvalidParameter}, {0, 1, -1, vipl.ErrInvalidParameter},
			{own, 1, 0, vipl.ErrInvalidParameter}, {own + 1, 0, 0, vipl.ErrInvalidParameter}, {0, 0, theirs + 1, vipl.ErrInvalidParameter}, {0, 1, theirs, vipl.ErrInvalidParameter},
		} {
			e.Is(fmt.Sprintf("%+v", c), p.Write(e.T, c.from, c.n, c.to, host.Second), c.want)
		}
		return p.Close(e.T)
	}, func(e *conformance.Env) error {
		p := must(endpoint.Open(e.T, e.H, endpoint.Config{Bytes: theirs}))
		check(p.Accept(e.T, "writes", host.Second))
		if _, err := e.NIC.ErrorWait(e.T, 100*host.Millisecond); !errors.Is(err, vipl.ErrTimeout) {
			return fmt.Errorf("a write arrived that should not: %w", err)
		}
		return p.Close(e.T)
	})
}
