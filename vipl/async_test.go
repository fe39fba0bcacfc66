// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"hvia/driver"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// lostCases are programs whose 256 connections break at once.
var lostCases = []scenario{
	{"fetched with NextError", func(e *env) error { return lostClient(e, e.fetchErrors) }, lostServer},
	{"delivered to a handler", func(e *env) error { return lostClient(e, e.handleErrors) }, lostServer},
	{"of VIs that were destroyed", destroyedClient, lostServer},
}

func TestEveryLostConnectionIsReported(t *testing.T) {
	onDevices(t, func(t *testing.T, d driver.Device) {
		for _, s := range lostCases {
			t.Run(s.name, func(t *testing.T) { runFake(t, d, nil, mainsOf(s)...) })
		}
	})
}

func TestEveryLostConnectionIsReportedOnTheCard(t *testing.T) {
	needsCards(t)
	start := time.Now()
	runCard(t, seed(t), mainsOf(lostCases[0])...)
	t.Logf("wall %v", time.Since(start).Round(time.Millisecond))
}

// loseAll has all VIs of the card connected when the peer leaves.
func (e *env) loseAll() (list []*vipl.VI, err error) {
	for i := range e.nic.Query().MaxVI {
		v, err := e.nic.CreateVI(e.t, vipl.VIAttributes{})
		if err != nil {
			return nil, err
		}
		if err := e.connect(v, 1); err != nil {
			return nil, fmt.Errorf("connection %d: %w", i, err)
		}
		list = append(list, v)
	}
	if err := e.t.Send(host.ThreadID{Node: 1, Rank: 1}, []byte("connected")); err != nil {
		return nil, err
	}
	// All are lost before the first one is asked for.
	for _, v := range list {
		for {
			i, err := v.Query(e.t)
			if err != nil {
				return nil, err
			}
			if i.State == vipl.ErrorState {
				break
			}
			if err := e.t.Sleep(100 * host.Microsecond); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// destroyedClient destroys what was lost before it fetches an error: what waits is
// limited all the same, and the errors dropped are counted.
func destroyedClient(e *env) error {
	const limit = 64
	list, err := e.loseAll()
	if err != nil {
		return err
	}
	for _, v := range list {
		e.is("disconnect", v.Disconnect(e.t), nil)
		e.is("destroy", v.Destroy(e.t), nil)
	}
	told, err := e.fetchErrors(nil)
	if err != nil {
		return err
	}
	e.that(fmt.Sprintf("%d errors wait", len(told)), len(told) <= limit+1)
	e.that(fmt.Sprintf("%d errors", errorsIn(told)), errorsIn(told) == len(list))
	return nil
}

// errorsIn counts errors, those that an overflow reports included.
func errorsIn(told []vipl.AsyncError) (n int) {
	for _, a := range told {
		n += max(a.Lost, 1)
	}
	return n
}

// lostClient collects the errors of lost connections: one of each VI.
func lostClient(e *env, collect func(done func([]vipl.AsyncError) bool) ([]vipl.AsyncError, error)) error {
	list, err := e.loseAll()
	if err != nil {
		return err
	}
	told, err := collect(func(told []vipl.AsyncError) bool { return len(told) >= len(list) })
	if err != nil {
		return err
	}
	e.that(fmt.Sprintf("%d errors of %d VIs", len(told), len(list)), len(told) == len(list))
	seen := map[int]bool{}
	for _, a := range told {
		e.that(fmt.Sprintf("a VI's lost connection, once: %+v", a), a.Code == layout.AsyncErrorConnectionLost && a.VI >= 0 && !seen[a.VI])
		seen[a.VI] = true
	}
	_, err = e.nic.NextError(e.t)
	e.is("nothing more", err, vipl.ErrNotDone)
	return nil
}

func lostServer(e *env) error {
	for i := range e.nic.Query().MaxVI {
		v, err := e.nic.CreateVI(e.t, vipl.VIAttributes{})
		if err != nil {
			return err
		}
		r, err := e.nic.ConnectWait(e.t, vipl.NetAddress{Discriminator: "test"}, host.Second)
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		if err := r.Accept(e.t, v); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	if _, ok, err := e.t.Receive(host.Second); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("the client has connected: %v", ok))
	}
	return e.nic.Close(e.t)
}

// connect connects a VI with one of a node whose program may not have got to its wait yet.
func (e *env) connect(v *vipl.VI, node int) (err error) {
	for range attempts {
		_, err = v.ConnectRequest(e.t, vipl.NetAddress{}, vipl.NetAddress{Host: vipl.HostAddress(node), Discriminator: "test"}, host.Second)
		if !errors.Is(err, vipl.ErrNoMatch) {
			return err
		}
		if err := e.t.Sleep(200 * host.Microsecond); err != nil {
			return err
		}
	}
	return err
}

// fetchErrors fetches what waits.
func (e *env) fetchErrors(func([]vipl.AsyncError) bool) (told []vipl.AsyncError, err error) {
	for {
		a, err := e.nic.NextError(e.t)
		if errors.Is(err, vipl.ErrNotDone) {
			return told, nil
		}
		if err != nil {
			return told, err
		}
		told = append(told, a)
	}
}

// handleErrors has what waits delivered to a handler.
func (e *env) handleErrors(done func([]vipl.AsyncError) bool) (told []vipl.AsyncError, err error) {
	e.is("handler", e.nic.ErrorCallback(func(_ *host.Thread, d vipl.ErrorDescriptor) {
		a := vipl.AsyncError{Code: d.Code, VI: -1, Lost: d.Lost}
		if d.VI != nil {
			a.VI = d.VI.Index()
		}
		told = append(told, a)
	}), nil)
	for range attempts {
		if done(told) {
			break
		}
		if _, err := e.nic.ErrorWait(e.t, host.Microsecond); !errors.Is(err, vipl.ErrTimeout) {
			return told, err
		}
	}
	return told, nil
}

const droppedMessages = 200

// Errors that repeat without a limit, here messages without a receive descriptor,
// are dropped while many wait. Their number is reported where they are missing.
func TestDroppedErrorsAreReported(t *testing.T) {
	onDevices(t, func(t *testing.T, d driver.Device) {
		for _, handled := range []bool{false, true} {
			t.Run(fmt.Sprintf("handler %v", handled), func(t *testing.T) {
				runFake(t, d, nil, func(e *env) error {
					p, err := e.dial(1, writable)
					if err != nil {
						return err
					}
					for range 2 {
						if err := p.meet(1); err != nil {
							return err
						}
						for range droppedMessages {
							d, err := p.send(0, 4)
							if err != nil {
								return err
							}
							p.sent("a message", d, outcome{operation: layout.StatusOperationSend, length: 4})
						}
						if err := p.meet(1); err != nil {
							return err
						}
					}
					return p.settled(1)
				}, func(e *env) error {
					p, err := e.serve(writable)
					if err != nil {
						return err
					}
					for range 2 { // it overflows again after it was fetched
						for range 2 {
							if err := p.meet(0); err != nil {
								return err
							}
						}
						if err := p.quiet(); err != nil {
							return err
						}
						collect := e.fetchErrors
						if handled {
							collect = e.handleErrors
						}
						told, err := collect(func(told []vipl.AsyncError) bool { return errorsIn(told) >= droppedMessages })
						if err != nil {
							return err
						}
						e.is("default", e.nic.ErrorCallback(nil), nil)
						e.that(fmt.Sprintf("%d errors, those dropped included", errorsIn(told)), errorsIn(told) == droppedMessages)
						if len(told) == 0 {
							return nil
						}
						last := told[len(told)-1]
						e.that(fmt.Sprintf("the last one reports the overflow: %+v", last), last.Code == layout.AsyncErrorOverflow && last.VI == -1 && last.Lost > 1)
						for _, a := range told[:len(told)-1] {
							e.that(fmt.Sprintf("an empty queue: %+v", a), a.Code == layout.AsyncErrorReceiveQueueEmpty && a.VI == p.vi.Index() && a.Lost == 0)
						}
					}
					p.inState("the VI goes on", vipl.Connected)
					return p.settled(0)
				})
			})
		}
	})
}
