// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"slices"

	"hvia/host"
	"hvia/vipl"
)

// errorCases are the cases of asynchronous errors, management and names.
func errorCases(l *caseList) {
	handler := func(*host.Thread, vipl.ErrorDescriptor) {}
	l.onNIC("ErrorCallback", func(_ *fixture, n *vipl.NIC) error { return n.ErrorCallback(handler) })
	l.add("ErrorCallback", "a handler", success, func(f *fixture) error { return f.nic.ErrorCallback(handler) })
	l.add("ErrorCallback", "nil, for the default", success, func(f *fixture) error { return f.nic.ErrorCallback(nil) })
	l.onNIC("QuerySystemManagementInfo", func(f *fixture, n *vipl.NIC) error {
		_, _, err := n.QuerySystemManagementInfo(f.T, vipl.Autodiscovery)
		return err
	})
	l.add("QuerySystemManagementInfo", "InfoType: 1, autodiscovery", success, func(f *fixture) error {
		hops, addresses, err := f.nic.QuerySystemManagementInfo(f.T, vipl.Autodiscovery)
		f.That(fmt.Sprintf("%d, %v", hops, addresses), hops == 1 && slices.Equal(addresses, []vipl.NetAddress{vipl.At(0, ""), vipl.At(1, "")}))
		return err
	})
	for _, kind := range []int{0, 2, -1} {
		l.add("QuerySystemManagementInfo", fmt.Sprintf("InfoType: %d", kind), invalid, func(f *fixture) error {
			_, _, err := f.nic.QuerySystemManagementInfo(f.T, kind)
			return err
		})
	}
	names := []struct {
		function string
		call     func(f *fixture, n *vipl.NIC) error
	}{
		{"NSGetHostByName", func(f *fixture, n *vipl.NIC) error { _, err := n.NSGetHostByName(f.T, "node1", 0); return err }},
		{"NSGetHostByAddr", func(f *fixture, n *vipl.NIC) error { _, err := n.NSGetHostByAddr(f.T, f.there()); return err }},
		{"NSShutdown", func(f *fixture, n *vipl.NIC) error { return n.NSShutdown(f.T) }},
	}
	l.onNIC("NSInit", func(f *fixture, n *vipl.NIC) error { return n.NSInit(f.T) })
	l.add("NSInit", "twice", success, func(f *fixture) error { return errors.Join(f.nic.NSInit(f.T), f.nic.NSInit(f.T)) })
	for _, way := range names {
		l.onNIC(way.function, way.call)
		l.add(way.function, "before NSInit", vipl.ErrNameService, func(f *fixture) error { return way.call(f, f.nic) })
		l.add(way.function, "after NSInit", success, func(f *fixture) error { check(f.nic.NSInit(f.T)); return way.call(f, f.nic) })
		l.add(way.function, "after NSShutdown", vipl.ErrNameService, func(f *fixture) error {
			check(f.nic.NSInit(f.T))
			check(f.nic.NSShutdown(f.T))
			return way.call(f, f.nic)
		})
	}
	for _, c := range []struct {
		when, name string
		index      int
		want       vipl.Status
	}{
		{"no such node", "node2", 0, vipl.ErrNameService}, {"NameIndex: 1", "node1", 1, vipl.ErrNameService},
		{"NameIndex: -1", "node1", -1, invalid}, {"Name: empty", "", 0, invalid}, {"its own name", "node0", 0, success},
	} {
		l.add("NSGetHostByName", c.when, c.want, func(f *fixture) error {
			check(f.nic.NSInit(f.T))
			a, err := f.nic.NSGetHostByName(f.T, c.name, c.index)
			if err == nil && a != vipl.At(0, "") {
				err = fmt.Errorf("its address is %v", a)
			}
			return err
		})
	}
	l.add("NSGetHostByAddr", "no such node", vipl.ErrNameService, func(f *fixture) error {
		check(f.nic.NSInit(f.T))
		return errOf(f.nic.NSGetHostByAddr(f.T, vipl.At(2, "")))
	})
	l.add("NSGetHostByAddr", "with any discriminator", success, func(f *fixture) error {
		check(f.nic.NSInit(f.T))
		name, err := f.nic.NSGetHostByAddr(f.T, f.here())
		f.That(name, name == "node0")
		return err
	})
}
