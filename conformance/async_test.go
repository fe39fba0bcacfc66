// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"testing"
	"time"

	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/layout"
	"hvia/vipl"
)

func TestEveryLostConnectionIsReported(t *testing.T) {
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) {
		for _, s := range lostCases {
			t.Run(s.Name, func(t *testing.T) { runFake(t, d, nil, MainsOf(s)...) })
		}
	})
}

func TestEveryLostConnectionIsReportedOnTheCard(t *testing.T) {
	conformtest.NeedsSimulator(t)
	start := time.Now()
	runCard(t, conformtest.Seed(t), MainsOf(lostCases[0])...)
	t.Logf("wall %v", time.Since(start).Round(time.Millisecond))
}

// Messages without a receive descriptor raise errors without a limit. The
// library drops errors when its queue is full and reports their number in their
// position.
func TestDroppedErrorsAreReported(t *testing.T) {
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) {
		for _, handled := range []bool{false, true} {
			t.Run(fmt.Sprintf("handler %v", handled), func(t *testing.T) {
				runFake(t, d, nil, func(e *Env) error {
					p := must(e.Dial(1, Writable))
					for range 2 {
						check(p.Meet(1))
						for range droppedMessages {
							d := must(p.Send(0, 4))
							p.Sent("a message", d, outcome{operation: layout.StatusOperationSend, length: 4})
						}
						check(p.Meet(1))
					}
					return p.Settled(1)
				}, func(e *Env) error {
					p := must(e.Serve(Writable))
					for range 2 { // the queue overflows again after the fetch
						for range 2 {
							check(p.Meet(0))
						}
						check(p.Quiet())
						collect := e.fetchErrors
						if handled {
							collect = e.handleErrors
						}
						reported := must(collect(func(reported []driver.AsyncError) bool { return errorsIn(reported) >= droppedMessages }))
						e.Is("default", e.NIC.ErrorCallback(nil), nil)
						e.That(fmt.Sprintf("%d errors, those dropped included", errorsIn(reported)), errorsIn(reported) == droppedMessages)
						if len(reported) == 0 {
							return nil
						}
						last := reported[len(reported)-1]
						e.That(fmt.Sprintf("the last one reports the overflow: %+v", last), last.Code == layout.AsyncErrorOverflow && last.VI == -1 && last.Lost > 1)
						for _, a := range reported[:len(reported)-1] {
							e.That(fmt.Sprintf("an empty queue: %+v", a), a.Code == layout.AsyncErrorReceiveQueueEmpty && a.VI == p.VI.Index() && a.Lost == 0)
						}
					}
					p.InState("the VI goes on", vipl.Connected)
					return p.Settled(0)
				})
			})
		}
	})
}
