// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"bytes"
	"fmt"

	"hvia/bench/rig"
	"hvia/driver"
	"hvia/host"
)

// reader receives the messages of a channel, identifies them and counts the
// missing ones.
type reader struct {
	channel  channel
	loses    bool
	of       func(k int) (rig.Pattern, int) // the k-th message
	total    int
	patience host.Time

	next    int // expected
	lost    int
	fault   string
	scratch []byte
}

func (x *comparison) reader(c channel, wait host.Time, total int, of func(k int) (rig.Pattern, int)) *reader {
	switch {
	case x.protocol.loses:
	case x.protocol.tcp:
		wait = reliableLimit
	default:
		wait = cardLimit
	}
	return &reader{channel: c, loses: x.protocol.loses, of: of, total: total, patience: wait}
}

// take waits for a message and returns its index, or -1 if the expected one was
// given up.
func (r *reader) take(t *host.Thread) (int, error) {
	for r.next < r.total {
		p, n := r.of(r.next)
		b, err := r.channel.receive(t, p, n, r.patience)
		if err != nil {
			return -1, fmt.Errorf("message %d, of %d bytes: %w", r.next, n, err)
		}
		if b == nil {
			if !r.loses {
				return -1, fmt.Errorf("message %d, of %d bytes, did not come within %v", r.next, n, r.patience)
			}
			r.lost++
			r.next++
			return -1, nil
		}
		k, known := r.identify(b)
		if !known {
			k = r.next
			if r.fault == "" {
				r.fault = r.explain(b)
			}
		}
		if k < r.next {
			// A message given up came after all.
			if err := r.channel.replenish(t); err != nil {
				return -1, err
			}
			continue
		}
		r.lost += k - r.next
		r.next = k + 1
		return k, nil
	}
	return -1, nil
}

func (r *reader) giveUp() {
	r.lost += r.total - r.next
	r.next = r.total
}

func (r *reader) identify(b []byte) (k int, known bool) {
	for k := r.next; k < min(r.next+lostHorizon, r.total); k++ {
		if r.matches(k, b) {
			return k, true
		}
	}
	for k := r.next - 1; k >= max(0, r.next-lostHorizon); k-- {
		if r.matches(k, b) {
			return k, true
		}
	}
	return 0, false
}

func (r *reader) matches(k int, b []byte) bool {
	p, n := r.of(k)
	return len(b) == n && b[n-1] == p.Last() && bytes.Equal(b, r.want(p, n))
}

func (r *reader) want(p rig.Pattern, n int) []byte {
	if len(r.scratch) < n {
		r.scratch = make([]byte, n)
	}
	p.Fill(r.scratch[:n])
	return r.scratch[:n]
}

// explain says what is wrong with the expected message.
func (r *reader) explain(b []byte) string {
	p, n := r.of(r.next)
	if len(b) != n {
		return fmt.Sprintf("message %d: %d bytes, want %d", r.next, len(b), n)
	}
	for i, w := range r.want(p, n) {
		if b[i] != w {
			return fmt.Sprintf("message %d: byte %d of %d is %#02x, want %#02x", r.next, i, n, b[i], w)
		}
	}
	return ""
}

// nextReader is the reader that has a message, starting behind the last one; -1
// when all are complete. With one reader it does not wait: taking does.
func (x *comparison) nextReader(t *host.Thread, h *driver.Host, readers []*reader, last int) (int, error) {
	var open []int
	for i := range readers {
		if j := (last + 1 + i) % len(readers); readers[j].next < readers[j].total {
			open = append(open, j)
		}
	}
	switch len(open) {
	case 0:
		return -1, nil
	case 1:
		return open[0], nil
	}
	waits := make([]awaited, len(open))
	for i, j := range open {
		p, n := readers[j].of(readers[j].next)
		waits[i] = awaited{readers[j].channel, p, n}
	}
	i, err := x.protocol.any(t, h, waits, readers[open[0]].patience)
	if err != nil {
		return -1, err
	}
	if i < 0 {
		i = 0 // to be given up
	}
	return open[i], nil
}
