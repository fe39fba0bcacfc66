// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"

	"hvia/vipl"
)

// tagCases are the cases of protection tags.
func tagCases(l *caseList) {
	l.onNIC("CreatePtag", func(f *fixture, n *vipl.NIC) error { _, err := n.CreatePtag(f.T); return err })
	l.add("CreatePtag", "a NIC handle", success, func(f *fixture) error { _, err := f.nic.CreatePtag(f.T); return err })
	allTags := func(f *fixture) (err error) {
		for err == nil {
			_, err = f.nic.CreatePtag(f.T)
		}
		return err
	}
	l.add("CreatePtag", "MaxPtags exist", noResource, func(f *fixture) error { return allTags(f) }).slow = true
	l.add("OpenNic", "MaxPtags exist, and each handle needs one", noResource, func(f *fixture) error {
		if err := allTags(f); !errors.Is(err, vipl.ErrResource) {
			check(err)
		}
		return errOf(vipl.OpenNIC(f.T, f.H))
	}).slow = true
	l.onNIC("DestroyPtag", func(f *fixture, n *vipl.NIC) error { return n.DestroyPtag(f.T, 1) })
	l.add("DestroyPtag", "a tag", success, func(f *fixture) error { return f.nic.DestroyPtag(f.T, must(f.nic.CreatePtag(f.T))) })
	l.add("DestroyPtag", "the NIC handle's own", invalid, func(f *fixture) error {
		r := f.region()
		return f.nic.DestroyPtag(f.T, must(f.nic.QueryMem(f.T, r.Address(), r.Handle())).Ptag)
	})
	l.add("DestroyPtag", "destroyed before", vipl.ErrInvalidPtag, func(f *fixture) error { return f.nic.DestroyPtag(f.T, f.deadTag()) })
	l.add("DestroyPtag", "0", vipl.ErrInvalidPtag, func(f *fixture) error { return f.nic.DestroyPtag(f.T, 0) })
	l.add("DestroyPtag", "of another NIC handle", vipl.ErrInvalidPtag, func(f *fixture) error {
		tag := must(f.nic.CreatePtag(f.T))
		return f.foreign(func(n *vipl.NIC) error { return n.DestroyPtag(f.T, tag) })
	})
	l.add("DestroyPtag", "a VI has it", noResource, func(f *fixture) error {
		tag := must(f.nic.CreatePtag(f.T))
		f.create(vipl.VIAttributes{Ptag: tag})
		return f.nic.DestroyPtag(f.T, tag)
	})
	l.add("DestroyPtag", "a region has it", noResource, func(f *fixture) error {
		tag := must(f.nic.CreatePtag(f.T))
		must(f.nic.RegisterBuffer(f.T, f.buf, vipl.MemAttributes{Ptag: tag}))
		return f.nic.DestroyPtag(f.T, tag)
	})
}

var memAttributes = []struct {
	when  string
	want  vipl.Status
	needs *Need
	a     func(f *fixture) vipl.MemAttributes
}{
	{"Ptag: never created", vipl.ErrInvalidPtag, nil, func(*fixture) vipl.MemAttributes { return vipl.MemAttributes{Ptag: 0xfff0} }},
	{"Ptag: destroyed", vipl.ErrInvalidPtag, nil, func(f *fixture) vipl.MemAttributes { return vipl.MemAttributes{Ptag: f.deadTag()} }},
	{"Ptag: of another NIC handle", vipl.ErrInvalidPtag, nil, func(f *fixture) vipl.MemAttributes {
		return vipl.MemAttributes{Ptag: must(f.Env.NIC.CreatePtag(f.T))}
	}},
	{"EnableRDMARead", success, needRead, func(*fixture) vipl.MemAttributes {
		return vipl.MemAttributes{EnableRDMARead: true}
	}},
}

// registerCases are the cases of RegisterMem.
func registerCases(l *caseList) {
	l.onNIC("RegisterMem", func(f *fixture, n *vipl.NIC) error {
		return errOf(n.RegisterMem(f.T, f.buf.Address(), 16, vipl.MemAttributes{}))
	})
	register := func(when string, want vipl.Status, address func(f *fixture) uint64, length uint64, a func(f *fixture) vipl.MemAttributes) *Case {
		return l.add("RegisterMem", when, want, func(f *fixture) error {
			r, err := f.nic.RegisterMem(f.T, address(f), length, a(f))
			if err == nil && r.Handle() == 0 {
				err = errors.New("the handle is 0")
			}
			return err
		})
	}
	at := func(offset uint64) func(f *fixture) uint64 {
		return func(f *fixture) uint64 { return f.buf.Address() + offset }
	}
	plain := func(*fixture) vipl.MemAttributes { return vipl.MemAttributes{} }
	register("MemAttribs nil", success, at(0), 4096, plain)
	register("any byte address and length", success, at(4095), 2, plain)
	l.add("RegisterMem", "the same range twice", success, func(f *fixture) error {
		one := f.region()
		two, err := f.nic.RegisterBuffer(f.T, f.buf, vipl.MemAttributes{})
		if err == nil && one.Handle() == two.Handle() {
			err = errors.New("both have the same handle")
		}
		return err
	})
	register("length 0", invalid, at(0), 0, plain)
	register("address 0", invalid, func(*fixture) uint64 { return 0 }, 4096, plain)
	register("beyond the allocated memory", invalid, at(0), bufferBytes+1, plain)
	register("beyond the address space", invalid, func(*fixture) uint64 { return ^uint64(0) - 5 }, 100, plain)
	register("length 2^64-1", invalid, at(0), ^uint64(0), plain)
	l.add("RegisterMem", "MaxRegisterRegions exist", noResource, func(f *fixture) error {
		for range f.nic.Query().MaxRegisterRegions {
			must(f.nic.RegisterMem(f.T, f.buf.Address(), 1, vipl.MemAttributes{}))
		}
		return errOf(f.nic.RegisterMem(f.T, f.buf.Address(), 1, vipl.MemAttributes{}))
	})
	for _, c := range memAttributes {
		register(c.when, c.want, at(0), 64, c.a).Needs = c.needs
	}
}

// regionCases are the cases of registered memory.
func regionCases(l *caseList) {
	for _, way := range []struct {
		function string
		call     func(f *fixture, n *vipl.NIC, address uint64, h vipl.MemHandle) error
	}{
		{"DeregisterMem", func(f *fixture, n *vipl.NIC, address uint64, h vipl.MemHandle) error {
			return n.DeregisterMem(f.T, address, h)
		}},
		{"QueryMem", func(f *fixture, n *vipl.NIC, address uint64, h vipl.MemHandle) error {
			return errOf(n.QueryMem(f.T, address, h))
		}},
		{"SetMemAttributes", func(f *fixture, n *vipl.NIC, address uint64, h vipl.MemHandle) error {
			return n.SetMemAttributes(f.T, address, h, vipl.MemAttributes{EnableRDMAWrite: true})
		}},
	} {
		l.onNIC(way.function, func(f *fixture, n *vipl.NIC) error { return way.call(f, n, f.buf.Address(), f.region().Handle()) })
		l.add(way.function, "a region", success, func(f *fixture) error { return way.call(f, f.nic, f.buf.Address(), f.region().Handle()) })
		l.add(way.function, "handle 0", invalid, func(f *fixture) error { f.region(); return way.call(f, f.nic, f.buf.Address(), 0) })
		l.add(way.function, "handle out of range", invalid, func(f *fixture) error { return way.call(f, f.nic, f.buf.Address(), 0xffffffff) })
		l.add(way.function, "another address", invalid, func(f *fixture) error { return way.call(f, f.nic, f.buf.Address()+1, f.region().Handle()) })
		l.add(way.function, "deregistered before", invalid, func(f *fixture) error {
			r := f.region()
			check(r.Deregister(f.T))
			return way.call(f, f.nic, r.Address(), r.Handle())
		})
		l.add(way.function, "a region of another NIC handle", invalid, func(f *fixture) error {
			r := f.region()
			return f.foreign(func(n *vipl.NIC) error { return way.call(f, n, r.Address(), r.Handle()) })
		})
	}
	for _, c := range memAttributes {
		l.add("SetMemAttributes", c.when, c.want, func(f *fixture) error {
			r := f.region()
			return f.nic.SetMemAttributes(f.T, r.Address(), r.Handle(), c.a(f))
		}).Needs = c.needs
	}
	l.add("SetMemAttributes", "a tag that nothing else has, and back", success, func(f *fixture) error {
		r, tag := f.region(), must(f.nic.CreatePtag(f.T))
		old := must(f.nic.QueryMem(f.T, r.Address(), r.Handle()))
		check(f.nic.SetMemAttributes(f.T, r.Address(), r.Handle(), vipl.MemAttributes{Ptag: tag, EnableRDMAWrite: true}))
		got := must(f.nic.QueryMem(f.T, r.Address(), r.Handle()))
		f.That(fmt.Sprintf("attributes are %+v", got), got == vipl.MemAttributes{Ptag: tag, EnableRDMAWrite: true})
		f.Is("destroy the tag", f.nic.DestroyPtag(f.T, tag), vipl.ErrResource)
		check(f.nic.SetMemAttributes(f.T, r.Address(), r.Handle(), vipl.MemAttributes{}))
		got = must(f.nic.QueryMem(f.T, r.Address(), r.Handle()))
		f.That(fmt.Sprintf("attributes are %+v", got), got == old)
		return f.nic.DestroyPtag(f.T, tag)
	})
}
