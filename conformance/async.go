// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"

	"hvia/driver"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// lostCases break all 256 connections at once.
var lostCases = []Scenario{
	{Name: "lost connections fetched with ErrorWait", client: func(e *Env) error { return lostClient(e, e.fetchErrors) }, server: lostServer},
	{Name: "lost connections delivered to a handler", client: func(e *Env) error { return lostClient(e, e.handleErrors) }, server: lostServer},
	{Name: "lost connections of VIs that were destroyed", client: destroyedClient, server: lostServer},
}

// loseAll connects all VIs of the card and waits until the peer leaves.
func (e *Env) loseAll() (list []*vipl.VI, err error) {
	for i := range e.NIC.Query().MaxVI {
		v := must(e.NIC.CreateVI(e.T, vipl.VIAttributes{}))
		Step(e.connect(v, 1), "connection %d", i)
		list = append(list, v)
	}
	check(e.T.Send(host.ThreadID{Node: 1, Rank: 1}, []byte("connected")))
	// All connections are lost before the first query.
	for _, v := range list {
		for {
			i := must(v.Query(e.T))
			if i.State == vipl.ErrorState {
				break
			}
			check(e.T.Sleep(100 * host.Microsecond))
		}
	}
	return list, nil
}

// destroyedClient destroys the broken VIs before it fetches an error. The queue
// stays within its limit, and an overflow report counts the dropped errors.
func destroyedClient(e *Env) error {
	const limit = 64
	list := must(e.loseAll())
	for _, v := range list {
		e.Is("disconnect", v.Disconnect(e.T), nil)
		e.Is("destroy", v.Destroy(e.T), nil)
	}
	reported := must(e.fetchErrors(nil))
	e.That(fmt.Sprintf("%d errors wait", len(reported)), len(reported) <= limit+1)
	e.That(fmt.Sprintf("%d errors", errorsIn(reported)), errorsIn(reported) == len(list))
	return nil
}

// errorsIn counts errors, including those that an overflow report counts.
func errorsIn(reported []driver.AsyncError) (n int) {
	for _, a := range reported {
		n += max(a.Lost, 1)
	}
	return n
}

// lostClient collects one error of each broken VI.
func lostClient(e *Env, collect func(done func([]driver.AsyncError) bool) ([]driver.AsyncError, error)) error {
	list := must(e.loseAll())
	reported := must(collect(func(reported []driver.AsyncError) bool { return len(reported) >= len(list) }))
	e.That(fmt.Sprintf("%d errors of %d VIs", len(reported), len(list)), len(reported) == len(list))
	seen := map[int]bool{}
	for _, a := range reported {
		e.That(fmt.Sprintf("a VI's lost connection, once: %+v", a), a.Code == layout.AsyncErrorConnectionLost && a.VI >= 0 && !seen[a.VI])
		seen[a.VI] = true
	}
	e.Is("nothing more", errOf(e.NIC.ErrorWait(e.T, 0)), vipl.ErrTimeout)
	return nil
}

func lostServer(e *Env) error {
	for i := range e.NIC.Query().MaxVI {
		v := must(e.NIC.CreateVI(e.T, vipl.VIAttributes{}))
		r, err := e.NIC.ConnectWait(e.T, vipl.NetAddress{Discriminator: "test"}, host.Second)
		Step(err, "connection %d", i)
		Step(r.Accept(e.T, v), "connection %d", i)
	}
	if _, ok, err := e.T.Receive(host.Second); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("the client has connected: %v", ok))
	}
	return e.NIC.Close(e.T)
}

// connect retries, because the node's program may not wait yet.
func (e *Env) connect(v *vipl.VI, node int) (err error) {
	for range Attempts {
		_, err = v.ConnectRequest(e.T, vipl.NetAddress{}, vipl.At(node, "test"), host.Second)
		if !errors.Is(err, vipl.ErrNoMatch) {
			return err
		}
		check(e.T.Sleep(200 * host.Microsecond))
	}
	return err
}

// fetchErrors fetches the queued errors.
func (e *Env) fetchErrors(func([]driver.AsyncError) bool) (reported []driver.AsyncError, err error) {
	for {
		a, err := e.NIC.ErrorWait(e.T, 0)
		if errors.Is(err, vipl.ErrTimeout) {
			return reported, nil
		}
		if err != nil {
			return reported, err
		}
		reported = append(reported, a)
	}
}

// handleErrors collects the queued errors with a handler.
func (e *Env) handleErrors(done func([]driver.AsyncError) bool) (reported []driver.AsyncError, err error) {
	e.Is("handler", e.NIC.ErrorCallback(func(_ *host.Thread, d vipl.ErrorDescriptor) {
		a := driver.AsyncError{Code: d.Code, VI: -1, Lost: d.Lost}
		if d.VI != nil {
			a.VI = d.VI.Index()
		}
		reported = append(reported, a)
	}), nil)
	for range Attempts {
		if done(reported) {
			break
		}
		if _, err := e.NIC.ErrorWait(e.T, host.Microsecond); !errors.Is(err, vipl.ErrTimeout) {
			return reported, err
		}
	}
	return reported, nil
}

const droppedMessages = 200
