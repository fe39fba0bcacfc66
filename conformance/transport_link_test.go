// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// linkEvents are the events of a NIC handle, without errors of VIs.
var linkEvents = []driver.AsyncError{{Code: layout.AsyncErrorLinkDown, VI: -1}, {Code: layout.AsyncErrorLinkUp, VI: -1}}

// events collects the reports up to an instant.
func (p *Peer) events(until host.Time) (all []driver.AsyncError, err error) {
	for p.T.Now() < until {
		e, err := p.NIC.ErrorWait(p.T, until-p.T.Now())
		if errors.Is(err, vipl.ErrTimeout) {
			break
		}
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// splitEvents returns the link events, the number of ConnectionLost of each VI,
// and the number of other reports.
func splitEvents(all []driver.AsyncError) (link []driver.AsyncError, lost map[int]int, others int) {
	lost = map[int]int{}
	for _, e := range all {
		switch {
		case e.VI < 0:
			link = append(link, e)
		case e.Code == layout.AsyncErrorConnectionLost:
			lost[e.VI]++
		default:
			others++
		}
	}
	return link, lost, others
}

// Without a link the MAC accepts frames until its FIFO is full, and sends none.
// Deregister, Disconnect and Destroy still finish, within the deadline of the
// slots.
func TestTransportWithoutLink(t *testing.T) {
	conformtest.NeedsSimulator(t)
	const n, messages = 60000, 32
	client := func(e *Env) error {
		p, to := must2(e.join(Writable))
		region := must(p.NIC.RegisterBuffer(p.T, p.buf, vipl.MemAttributes{}))
		check(p.until(cornerBegin + 10*host.Microsecond))
		for range messages {
			d := p.Next()
			d.SetRDMAWrite(to.Address, to.Handle, region.Segment(0, n))
			check(p.VI.PostSend(p.T, d))
		}
		check(p.T.Sleep(5 * host.Millisecond))
		for _, call := range []struct {
			name string
			do   func(*host.Thread) error
		}{{"deregister", region.Deregister}, {"disconnect", p.VI.Disconnect}} {
			begin := p.T.Now()
			e.Is(call.name, call.do(p.T), nil)
			took := p.T.Now() - begin
			e.That(fmt.Sprintf("%s took %v", call.name, took), took < 10*host.Millisecond)
		}
		for d := new(vipl.Descriptor); d != nil; {
			d, _ = p.VI.SendDone(p.T)
		}
		e.Is("destroy", p.VI.Destroy(p.T), nil)
		e.That("all of it without a link", p.T.Now() < cornerBegin+100*host.Millisecond)
		dropped := must(p.NIC.Counter(p.T, layout.CounterMacTransmitDropped))
		e.That("frames were dropped and counted", dropped > 0)
		all := must(p.events(cornerBegin + 110*host.Millisecond))
		link, lost, others := splitEvents(all)
		e.That(fmt.Sprintf("reported: %v", all), slices.Equal(link, linkEvents) && len(lost) == 0 && others == 0)
		q, err := p.Another(Writable, 100)
		Step(err, "with the link again")
		d := must(q.Write(0, n, to, 0))
		q.Sent("with the link again", d, outcome{operation: layout.StatusOperationRDMAWrite, length: n})
		return q.Meet(1)
	}
	server := func(e *Env) error {
		p, _ := must2(e.join(Writable))
		q := must(p.Another(Writable, 100))
		return q.Meet(0)
	}
	r := cardRun{faults: "link=down 20ms..120ms"}.must(t, client, server)
	t.Logf("frames lost on the wire: %d and %d", r.done(0, layout.WireFaultLink), r.done(1, layout.WireFaultLink))
}

// A link outage shorter than the retries breaks no reliable connection. A
// longer one breaks every connection with unacknowledged messages, and each is
// reported once.
func TestTransportLinkOutage(t *testing.T) {
	conformtest.NeedsSimulator(t)
	const n, vis = 10000, 8
	for _, c := range []struct {
		outage host.Time
		lost   int
	}{{5 * host.Millisecond, 0}, {50 * host.Millisecond, 1}} {
		t.Run(c.outage.String(), func(t *testing.T) {
			reported := func(e *Env, what string, all []driver.AsyncError, peers []*Peer) {
				link, lost, others := splitEvents(all)
				e.That(fmt.Sprintf("%s: reported %v", what, all), slices.Equal(link, linkEvents) && others == 0)
				for _, q := range peers {
					e.That(fmt.Sprintf("%s: VI %d is lost %d times", what, q.VI.Index(), lost[q.VI.Index()]), lost[q.VI.Index()] == c.lost)
				}
			}
			lines := func(e *Env) (peers []*Peer, to Remote, err error) {
				p, to, err := e.join(reliableRights(vipl.ReliableDelivery))
				peers = append(peers, p)
				for i := 1; i < vis && err == nil; i++ {
					var q *Peer
					q, err = p.Another(reliableRights(vipl.ReliableDelivery), 100*i)
					peers = append(peers, q)
				}
				return peers, to, err
			}
			const end = cornerBegin + 200*host.Millisecond
			client := func(e *Env) error {
				peers, to := must2(lines(e))
				check(peers[0].until(cornerBegin + 10*host.Microsecond))
				var posted []*vipl.Descriptor
				for _, q := range peers {
					posted = append(posted, must(q.Write(0, n, to, 0)))
				}
				all := must(peers[0].events(end))
				reported(e, "client", all, peers)
				want := outcome{operation: layout.StatusOperationRDMAWrite, length: n}
				if c.lost != 0 {
					want = outcome{operation: layout.StatusOperationRDMAWrite}.failed(transportError)
				}
				for i, q := range peers {
					q.Sent(fmt.Sprintf("VI %d", i), posted[i], want)
				}
				return peers[0].Meet(1)
			}
			server := func(e *Env) error {
				peers, _ := must2(lines(e))
				all := must(peers[0].events(end))
				reported(e, "server", all, peers)
				return peers[0].Meet(0)
			}
			cardRun{faults: fmt.Sprintf("link=down 20ms..%dms", (cornerBegin+c.outage)/host.Millisecond)}.must(t, client, server)
		})
	}
}
