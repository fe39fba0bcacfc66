// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"

	"hvia/layout"
	"hvia/vipl"
)

// nicCases are the cases of NIC handles.
func nicCases(l *caseList) {
	l.add("OpenNic", "a host", success, func(f *fixture) error { return f.foreign(func(*vipl.NIC) error { return nil }) })
	l.add("OpenNic", "no host", invalid, func(f *fixture) error { _, err := vipl.OpenNIC(f.T, nil); return err })
	l.add("CloseNic", "with VIs, regions and tags", success, func(f *fixture) error {
		n := must(vipl.OpenNIC(f.T, f.H))
		must(n.CreateVI(f.T, vipl.VIAttributes{}))
		must(n.RegisterBuffer(f.T, f.buf, vipl.MemAttributes{}))
		must(n.CreatePtag(f.T))
		return n.Close(f.T)
	})
	l.onNIC("CloseNic", func(f *fixture, n *vipl.NIC) error { return n.Close(f.T) })
	l.add("QueryNic", "", success, func(f *fixture) error {
		if q := f.nic.Query(); q.LocalAddress != vipl.At(0, "").Host || q.MaxVI == 0 {
			return fmt.Errorf("attributes are %+v", q)
		}
		return nil
	})
}

// viCases are the cases of a VI and its attributes.
func viCases(l *caseList) {
	l.onNIC("CreateVi", func(f *fixture, n *vipl.NIC) error { _, err := n.CreateVI(f.T, vipl.VIAttributes{}); return err })
	l.add("CreateVi", "default attributes", success, func(f *fixture) error { _, err := f.nic.CreateVI(f.T, vipl.VIAttributes{}); return err })
	l.add("CreateVi", "MaxVI exist", noResource, func(f *fixture) error {
		for range f.nic.Query().MaxVI {
			f.create(vipl.VIAttributes{})
		}
		return errOf(f.nic.CreateVI(f.T, vipl.VIAttributes{}))
	})
	attributeCases(l, "CreateVi", func(f *fixture, a vipl.VIAttributes) error { _, err := f.nic.CreateVI(f.T, a); return err })
	l.onVI("DestroyVi", onlyIdle, func(f *fixture, v *vipl.VI) error { return v.Destroy(f.T) })
	l.add("DestroyVi", "a receive is posted", noResource, func(f *fixture) error {
		v := f.create(vipl.VIAttributes{})
		check(v.PostRecv(f.T, f.receive()))
		return v.Destroy(f.T)
	})
	l.add("DestroyVi", "a flushed send was not taken", noResource, func(f *fixture) error {
		v := f.create(vipl.VIAttributes{})
		check(v.PostSend(f.T, f.send()))
		return v.Destroy(f.T)
	})
	for _, s := range []struct {
		name string
		is   layout.VIState
	}{{stateIdle, vipl.Idle}, {statePending, vipl.ConnectPending}, {stateConnected, vipl.Connected}, {stateError, vipl.ErrorState}} {
		l.add("QueryVi", "VI: "+s.name, success, func(f *fixture) error {
			i, err := f.in(s.name, vipl.VIAttributes{}).Query(f.T)
			if err == nil && i.State != s.is {
				err = fmt.Errorf("the VI is %v", i.State)
			}
			return err
		})
	}
	l.onVI("QueryVi", nil, func(f *fixture, v *vipl.VI) error { _, err := v.Query(f.T); return err })
	l.onVI("SetViAttributes", onlyIdle, func(f *fixture, v *vipl.VI) error {
		return v.SetAttributes(f.T, vipl.VIAttributes{MaxTransferSize: 4096})
	})
	attributeCases(l, "SetViAttributes", func(f *fixture, a vipl.VIAttributes) error {
		return f.create(vipl.VIAttributes{}).SetAttributes(f.T, a)
	})
}

// attributeCases are the cases of a function that sets the attributes of a VI.
func attributeCases(l *caseList, function string, set func(f *fixture, a vipl.VIAttributes) error) {
	for _, c := range []struct {
		when string
		want vipl.Status
		a    func(f *fixture) vipl.VIAttributes
	}{
		{"ReliabilityLevel: two levels", vipl.ErrInvalidReliabilityLevel, func(*fixture) vipl.VIAttributes {
			return vipl.VIAttributes{ReliabilityLevel: vipl.Unreliable | vipl.ReliableDelivery}
		}},
		{"ReliabilityLevel: unknown", vipl.ErrInvalidReliabilityLevel, func(*fixture) vipl.VIAttributes { return vipl.VIAttributes{ReliabilityLevel: 0x10} }},
		{"MaxTransferSize: 65,537", vipl.ErrInvalidMTU, func(*fixture) vipl.VIAttributes { return vipl.VIAttributes{MaxTransferSize: 65537} }},
		{"MaxTransferSize: -1", vipl.ErrInvalidMTU, func(*fixture) vipl.VIAttributes { return vipl.VIAttributes{MaxTransferSize: -1} }},
		{"MaxTransferSize: 1", success, func(*fixture) vipl.VIAttributes { return vipl.VIAttributes{MaxTransferSize: 1} }},
		{"Ptag: never created", vipl.ErrInvalidPtag, func(*fixture) vipl.VIAttributes { return vipl.VIAttributes{Ptag: 0xfff0} }},
		{"Ptag: destroyed", vipl.ErrInvalidPtag, func(f *fixture) vipl.VIAttributes { return vipl.VIAttributes{Ptag: f.deadTag()} }},
		{"Ptag: of another NIC handle", vipl.ErrInvalidPtag, func(f *fixture) vipl.VIAttributes { return vipl.VIAttributes{Ptag: must(f.Env.NIC.CreatePtag(f.T))} }},
		{"Ptag: a tag", success, func(f *fixture) vipl.VIAttributes { return vipl.VIAttributes{Ptag: must(f.nic.CreatePtag(f.T))} }},
		{"EnableRDMARead: at the unreliable level", vipl.ErrInvalidRDMARead, func(*fixture) vipl.VIAttributes { return vipl.VIAttributes{EnableRDMARead: true} }},
		{"completion queue: destroyed", invalid, func(f *fixture) vipl.VIAttributes {
			c := must(f.nic.CreateCQ(f.T, 4))
			check(c.Destroy(f.T))
			return vipl.VIAttributes{RecvCQ: c}
		}},
		{"completion queue: of another NIC handle", invalid, func(f *fixture) vipl.VIAttributes {
			n := must(vipl.OpenNIC(f.T, f.H))
			c := must(n.CreateCQ(f.T, 4))
			check(n.Close(f.T))
			return vipl.VIAttributes{SendCQ: c}
		}},
	} {
		l.add(function, c.when, c.want, func(f *fixture) error { return set(f, c.a(f)) })
	}
}
