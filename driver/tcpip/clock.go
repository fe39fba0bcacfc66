// SPDX-License-Identifier: Apache-2.0

package tcpip

import (
	"container/heap"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"

	"hvia/host"
)

// Epoch is the time.Time of virtual time 0, for deadlines.
var Epoch = time.Date(2001, time.October, 8, 0, 0, 0, 0, time.UTC)

// At returns the time.Time of an instant of virtual time, for Conn.SetDeadline.
// It rounds up to nanoseconds, so a deadline is never before its instant.
func At(t host.Time) time.Time {
	return Epoch.Add(time.Duration((t-1)/host.Nanosecond + 1))
}

// instant is the inverse of At; it returns Never for the zero time.Time and for
// times out of range.
func instant(t time.Time) host.Time {
	if t.IsZero() {
		return host.Never
	}
	d := t.Sub(Epoch)
	if d > time.Duration(host.Never/host.Nanosecond) {
		return host.Never
	}
	return host.Time(max(d, 0)) * host.Nanosecond
}

// clock is the time of a stack. It does not advance while the stack works. The
// callbacks of its timers run one at a time, in fire.
type clock struct {
	mu     sync.Mutex
	now    time.Duration // since Epoch
	timers timerQueue
	serial uint64
}

var _ tcpip.Clock = (*clock)(nil)

// Now returns the time of day of the simulated host.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Epoch.Add(c.now)
}

func (c *clock) NowMonotonic() tcpip.MonotonicTime {
	c.mu.Lock()
	defer c.mu.Unlock()
	return tcpip.MonotonicTime{}.Add(c.now)
}

// AfterFunc creates a timer. Timers due at the same instant run in the order in
// which they were set.
func (c *clock) AfterFunc(d time.Duration, f func()) tcpip.Timer {
	t := &timer{clock: c, f: f, at: -1}
	t.Reset(d)
	return t
}

// advance sets the clock to an instant; it never goes backwards.
func (c *clock) advance(to host.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = max(c.now, time.Duration(to/host.Nanosecond))
}

func (c *clock) next() host.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.timers) == 0 || c.timers[0].due > time.Duration(host.Never/host.Nanosecond) {
		return host.Never
	}
	return host.Time(c.timers[0].due) * host.Nanosecond
}

// fire runs the callback of the earliest timer if it is due, and reports
// whether it was.
func (c *clock) fire() bool {
	c.mu.Lock()
	if len(c.timers) == 0 || c.timers[0].due > c.now {
		c.mu.Unlock()
		return false
	}
	t := heap.Pop(&c.timers).(*timer)
	c.mu.Unlock()
	t.f()
	return true
}

func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.timers {
		t.at = -1
	}
	c.timers = nil
}

// timer is one timer, guarded by the clock's lock.
type timer struct {
	clock  *clock
	f      func()
	due    time.Duration
	serial uint64
	at     int // index in the queue, -1 when not set
}

func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	if t.at < 0 {
		return false
	}
	heap.Remove(&t.clock.timers, t.at)
	return true
}

func (t *timer) Reset(d time.Duration) {
	c := t.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	t.serial = c.serial
	if t.due = c.now + max(d, 0); t.due < 0 {
		t.due = 1<<63 - 1
	}
	if t.at < 0 {
		heap.Push(&c.timers, t)
	} else {
		heap.Fix(&c.timers, t.at)
	}
}

type timerQueue []*timer

func (q timerQueue) Len() int { return len(q) }
func (q timerQueue) Less(i, j int) bool {
	if q[i].due != q[j].due {
		return q[i].due < q[j].due
	}
	return q[i].serial < q[j].serial
}
func (q timerQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}
func (q *timerQueue) Push(x any) {
	t := x.(*timer)
	t.at = len(*q)
	*q = append(*q, t)
}
func (q *timerQueue) Pop() any {
	old := *q
	t := old[len(old)-1]
	t.at = -1
	*q = old[:len(old)-1]
	return t
}
