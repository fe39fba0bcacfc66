// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"

	"hvia/driver"
	"hvia/host"
	"hvia/vipl"
)

// cqCases are the cases of completion queues.
func cqCases(l *caseList) {
	l.onNIC("CreateCQ", func(f *fixture, n *vipl.NIC) error { _, err := n.CreateCQ(f.T, 4); return err })
	for _, c := range []struct {
		entries int
		want    vipl.Status
	}{{1, success}, {driver.MaxCQEntries, success}, {0, invalid}, {-1, invalid}, {driver.MaxCQEntries + 1, noResource}} {
		l.add("CreateCQ", fmt.Sprintf("EntryCount: %d", c.entries), c.want, func(f *fixture) error {
			q, err := f.nic.CreateCQ(f.T, c.entries)
			if err == nil && q.Entries() < c.entries {
				err = fmt.Errorf("its capacity is %d entries", q.Entries())
			}
			return err
		})
		l.add("ResizeCQ", fmt.Sprintf("EntryCount: %d", c.entries), c.want, func(f *fixture) error {
			return must(f.nic.CreateCQ(f.T, 4)).Resize(f.T, c.entries)
		})
	}
	l.add("CreateCQ", "MaxCQ exist", noResource, func(f *fixture) error {
		for range f.nic.Query().MaxCQ {
			must(f.nic.CreateCQ(f.T, 1))
		}
		return errOf(f.nic.CreateCQ(f.T, 1))
	})
	entry := func(*host.Thread, vipl.Completion) {}
	for _, way := range []struct {
		function string
		empty    vipl.Status
		call     func(f *fixture, c *vipl.CQ) error
	}{
		{"DestroyCQ", success, func(f *fixture, c *vipl.CQ) error { return c.Destroy(f.T) }},
		{"ResizeCQ", success, func(f *fixture, c *vipl.CQ) error { return c.Resize(f.T, 8) }},
		{"CQDone", vipl.ErrNotDone, func(f *fixture, c *vipl.CQ) error { _, err := c.Done(f.T); return err }},
		{"CQWait", vipl.ErrTimeout, func(f *fixture, c *vipl.CQ) error { _, err := c.Wait(f.T, host.Millisecond); return err }},
		{"CQNotify", success, func(f *fixture, c *vipl.CQ) error { return c.Notify(f.T, entry) }},
	} {
		l.add(way.function, "no completion queue", invalid, func(f *fixture) error { return way.call(f, nil) })
		l.add(way.function, "destroyed", invalid, func(f *fixture) error {
			c := must(f.nic.CreateCQ(f.T, 4))
			check(c.Destroy(f.T))
			return way.call(f, c)
		})
		l.add(way.function, "its NIC handle was closed", invalid, func(f *fixture) error {
			n := must(vipl.OpenNIC(f.T, f.H))
			c := must(n.CreateCQ(f.T, 4))
			check(n.Close(f.T))
			return way.call(f, c)
		})
		l.add(way.function, "no entry, no VI", way.empty, func(f *fixture) error { return way.call(f, must(f.nic.CreateCQ(f.T, 4))) })
		tied := success
		if way.function == "DestroyCQ" {
			tied = noResource
		}
		l.add(way.function, "an entry waits", tied, func(f *fixture) error {
			c := must(f.nic.CreateCQ(f.T, 4))
			v := f.create(vipl.VIAttributes{RecvCQ: c})
			check(v.PostRecv(f.T, f.receive()))
			check(v.Disconnect(f.T))
			return way.call(f, c)
		})
	}
	l.add("CQNotify", "no handler", invalid, func(f *fixture) error { return must(f.nic.CreateCQ(f.T, 4)).Notify(f.T, nil) })
}
