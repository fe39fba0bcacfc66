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

// lostCases are programs whose 256 connections break at once.
var lostCases = []Scenario{
	{Name: "fetched with ErrorWait", client: func(e *Env) error { return lostClient(e, e.fetchErrors) }, server: lostServer},
	{Name: "delivered to a handler", client: func(e *Env) error { return lostClient(e, e.handleErrors) }, server: lostServer},
	{Name: "of VIs that were destroyed", client: destroyedClient, server: lostServer},
}

// loseAll has all VIs of the card connected when the peer leaves.
func (e *Env) loseAll() (list []*vipl.VI, err error) {
	for i := range e.NIC.Query().MaxVI {
		v := must(e.NIC.CreateVI(e.T, vipl.VIAttributes{}))
		step(e.connect(v, 1), "connection %d", i)
		list = append(list, v)
	}
	check(e.T.Send(host.ThreadID{Node: 1, Rank: 1}, []byte("connected")))
	// All are lost before the first one is asked for.
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

// destroyedClient destroys what was lost before it fetches an error: what waits is
// limited all the same, and the errors dropped are counted.
func destroyedClient(e *Env) error {
	const limit = 64
	list := must(e.loseAll())
	for _, v := range list {
		e.Is("disconnect", v.Disconnect(e.T), nil)
		e.Is("destroy", v.Destroy(e.T), nil)
	}
	told := must(e.fetchErrors(nil))
	e.That(fmt.Sprintf("%d errors wait", len(told)), len(told) <= limit+1)
	e.That(fmt.Sprintf("%d errors", errorsIn(told)), errorsIn(told) == len(list))
	return nil
}

// errorsIn counts errors, those that an overflow reports included.
func errorsIn(told []driver.AsyncError) (n int) {
	for _, a := range told {
		n += max(a.Lost, 1)
	}
	return n
}

// lostClient collects the errors of lost connections: one of each VI.
func lostClient(e *Env, collect func(done func([]driver.AsyncError) bool) ([]driver.AsyncError, error)) error {
	list := must(e.loseAll())
	told := must(collect(func(told []driver.AsyncError) bool { return len(told) >= len(list) }))
	e.That(fmt.Sprintf("%d errors of %d VIs", len(told), len(list)), len(told) == len(list))
	seen := map[int]bool{}
	for _, a := range told {
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
		step(err, "connection %d", i)
		step(r.Accept(e.T, v), "connection %d", i)
	}
	if _, ok, err := e.T.Receive(host.Second); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("the client has connected: %v", ok))
	}
	return e.NIC.Close(e.T)
}

// connect connects a VI with one of a node whose program may not have got to its wait yet.
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

// fetchErrors fetches what waits.
func (e *Env) fetchErrors(func([]driver.AsyncError) bool) (told []driver.AsyncError, err error) {
	for {
		a, err := e.NIC.ErrorWait(e.T, 0)
		if errors.Is(err, vipl.ErrTimeout) {
			return told, nil
		}
		if err != nil {
			return told, err
		}
		told = append(told, a)
	}
}

// handleErrors has what waits delivered to a handler.
func (e *Env) handleErrors(done func([]driver.AsyncError) bool) (told []driver.AsyncError, err error) {
	e.Is("handler", e.NIC.ErrorCallback(func(_ *host.Thread, d vipl.ErrorDescriptor) {
		a := driver.AsyncError{Code: d.Code, VI: -1, Lost: d.Lost}
		if d.VI != nil {
			a.VI = d.VI.Index()
		}
		told = append(told, a)
	}), nil)
	for range Attempts {
		if done(told) {
			break
		}
		if _, err := e.NIC.ErrorWait(e.T, host.Microsecond); !errors.Is(err, vipl.ErrTimeout) {
			return told, err
		}
	}
	return told, nil
}

const droppedMessages = 200
