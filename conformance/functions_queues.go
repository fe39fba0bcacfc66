// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"

	"hvia/driver"
	"hvia/host"
	"hvia/vipl"
)

// workQueue is one of a VI's two queues, with its functions.
type workQueue struct {
	post, done, wait, notify string
	tied                     func(c *vipl.CQ) vipl.VIAttributes
	descriptor               func(f *fixture) *vipl.Descriptor
	doPost                   func(f *fixture, v *vipl.VI, d *vipl.Descriptor) error
	doDone                   func(f *fixture, v *vipl.VI) (*vipl.Descriptor, error)
	doWait                   func(f *fixture, v *vipl.VI, timeout host.Time) (*vipl.Descriptor, error)
	doNotify                 func(f *fixture, v *vipl.VI, h func(*host.Thread, *vipl.VI, *vipl.Descriptor)) error
}

var workQueues = []workQueue{
	{
		"PostSend", "SendDone", "SendWait", "SendNotify",
		func(c *vipl.CQ) vipl.VIAttributes { return vipl.VIAttributes{SendCQ: c} }, (*fixture).send,
		func(f *fixture, v *vipl.VI, d *vipl.Descriptor) error { return v.PostSend(f.T, d) },
		func(f *fixture, v *vipl.VI) (*vipl.Descriptor, error) { return v.SendDone(f.T) },
		func(f *fixture, v *vipl.VI, timeout host.Time) (*vipl.Descriptor, error) {
			return v.SendWait(f.T, timeout)
		},
		func(f *fixture, v *vipl.VI, h func(*host.Thread, *vipl.VI, *vipl.Descriptor)) error {
			return v.SendNotify(f.T, h)
		},
	},
	{
		"PostRecv", "RecvDone", "RecvWait", "RecvNotify",
		func(c *vipl.CQ) vipl.VIAttributes { return vipl.VIAttributes{RecvCQ: c} }, (*fixture).receive,
		func(f *fixture, v *vipl.VI, d *vipl.Descriptor) error { return v.PostRecv(f.T, d) },
		func(f *fixture, v *vipl.VI) (*vipl.Descriptor, error) { return v.RecvDone(f.T) },
		func(f *fixture, v *vipl.VI, timeout host.Time) (*vipl.Descriptor, error) {
			return v.RecvWait(f.T, timeout)
		},
		func(f *fixture, v *vipl.VI, h func(*host.Thread, *vipl.VI, *vipl.Descriptor)) error {
			return v.RecvNotify(f.T, h)
		},
	},
}

// queueCases are the cases of work queues.
func queueCases(l *caseList) {
	for _, q := range workQueues {
		q.postCases(l)
		q.doneCases(l)
		q.notifyCases(l)
	}
}

func (q workQueue) postCases(l *caseList) {
	l.onVI(q.post, inAnyState(success), func(f *fixture, v *vipl.VI) error { return q.doPost(f, v, q.descriptor(f)) })
	posts := func(when string, want vipl.Status, call func(f *fixture, v *vipl.VI) error) {
		l.add(q.post, when, want, func(f *fixture) error { return call(f, f.create(vipl.VIAttributes{})) })
	}
	posts("no descriptor", invalid, func(f *fixture, v *vipl.VI) error { return q.doPost(f, v, nil) })
	posts("descriptor without memory", invalid, func(f *fixture, v *vipl.VI) error { return q.doPost(f, v, &vipl.Descriptor{}) })
	posts("descriptor not aligned to 64 bytes", invalid, func(f *fixture, v *vipl.VI) error {
		d := q.descriptor(f)
		d.Address += 32
		return q.doPost(f, v, d)
	})
	posts("handle that names no region (reported later)", success, func(f *fixture, v *vipl.VI) error {
		d := q.descriptor(f)
		d.Handle ^= 0x8000
		return q.doPost(f, v, d)
	})
	posts("MaxDescriptorsPerQueue are outstanding", noResource, func(f *fixture, v *vipl.VI) error {
		d := q.descriptor(f)
		for i := range vipl.MaxDescriptorsPerQueue {
			at := i * vipl.DescriptorBytes
			e := vipl.NewDescriptor(f.buf.Bytes()[at:at+vipl.DescriptorBytes], f.buf.Address()+uint64(at), d.Handle)
			check(e.SetReceive())
			check(q.doPost(f, v, e))
		}
		return q.doPost(f, v, d)
	})

}

// takeCases are the cases of a function that reaps a descriptor.
func (q workQueue) takeCases(l *caseList, function string, take func(f *fixture, v *vipl.VI) (*vipl.Descriptor, error)) {
	l.onVI(function, inAnyState(vipl.ErrDescriptor), func(f *fixture, v *vipl.VI) error { // of an empty queue
		d, err := take(f, v)
		if d != nil {
			return errors.New("there is a descriptor")
		}
		return err
	})
	l.add(function, "a descriptor was flushed", vipl.ErrDescriptor, func(f *fixture) error {
		v, d := f.create(vipl.VIAttributes{}), q.descriptor(f)
		check(q.doPost(f, v, d))
		check(v.Disconnect(f.T))
		got, err := take(f, v)
		f.That("it is that descriptor", got == d && d.Status()&vipl.Flushed != 0)
		return err
	})
	l.add(function, "a descriptor is complete", success, func(f *fixture) error {
		v, d := f.create(vipl.VIAttributes{}), q.descriptor(f)
		if q.post == "PostRecv" {
			check(q.doPost(f, v, d))
		}
		f.partner("accept", f.name)
		check(f.request(v))
		if q.post == "PostSend" {
			check(q.doPost(f, v, d))
		}
		check(f.T.Sleep(5 * host.Millisecond))
		got, err := take(f, v)
		f.That("it is that descriptor", got == d)
		return err
	})
}

func (q workQueue) doneCases(l *caseList) {
	q.takeCases(l, q.done, q.doDone)
	q.takeCases(l, q.wait, func(f *fixture, v *vipl.VI) (*vipl.Descriptor, error) { return q.doWait(f, v, host.Millisecond) })
	if q.post == "PostRecv" {
		l.add(q.done, "nothing has come", vipl.ErrNotDone, func(f *fixture) error {
			v := f.create(vipl.VIAttributes{})
			check(q.doPost(f, v, q.descriptor(f)))
			return errOf(q.doDone(f, v))
		})
		for _, timeout := range []host.Time{0, host.Millisecond} {
			l.add(q.wait, fmt.Sprintf("nothing comes, timeout %v", timeout), vipl.ErrTimeout, func(f *fixture) error {
				v := f.create(vipl.VIAttributes{})
				check(q.doPost(f, v, q.descriptor(f)))
				return errOf(q.doWait(f, v, timeout))
			})
		}
	} else {
		l.add(q.done, "right behind the post", vipl.ErrNotDone, func(f *fixture) error {
			v := f.in(stateConnected, vipl.VIAttributes{})
			check(q.doPost(f, v, q.descriptor(f)))
			return errOf(q.doDone(f, v))
		}).Only = driver.DeviceHvia // the kernel of M-VIA has processed it by then
		l.add(q.wait, "right behind the post, timeout 0", vipl.ErrTimeout, func(f *fixture) error {
			v := f.in(stateConnected, vipl.VIAttributes{})
			check(q.doPost(f, v, q.descriptor(f)))
			return errOf(q.doWait(f, v, 0))
		}).Only = driver.DeviceHvia
	}
}

func (q workQueue) notifyCases(l *caseList) {
	ties := func(f *fixture) *vipl.VI { return f.create(q.tied(must(f.nic.CreateCQ(f.T, 4)))) }
	l.add(q.done, "tied to a completion queue", vipl.ErrDescriptor, func(f *fixture) error { _, err := q.doDone(f, ties(f)); return err })
	l.add(q.wait, "tied to a completion queue", noResource, func(f *fixture) error { _, err := q.doWait(f, ties(f), 0); return err })
	ignore := func(*host.Thread, *vipl.VI, *vipl.Descriptor) {}
	l.onVI(q.notify, inAnyState(success), func(f *fixture, v *vipl.VI) error { return q.doNotify(f, v, ignore) })
	l.add(q.notify, "tied to a completion queue", noResource, func(f *fixture) error { return q.doNotify(f, ties(f), ignore) })
	l.add(q.notify, "no handler", invalid, func(f *fixture) error { return q.doNotify(f, f.create(vipl.VIAttributes{}), nil) })
}
