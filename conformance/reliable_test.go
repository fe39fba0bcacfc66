// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/fabric"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// Frame loss is invisible to programs at the reliable levels.
func TestReliableOverALossyLink(t *testing.T) {
	for _, s := range Scenarios {
		if !isReliable(s) {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			const seed = 7
			random := rand.New(rand.NewPCG(seed, seed))
			lost := 0
			f := runFake(t, driver.DeviceHvia, func(f *drivertest.Fabric) {
				f.Lose = func(_ int, frame []byte) bool {
					lose := layout.EthernetHeader(frame).EtherType() == layout.EtherTypeVia && random.IntN(12) == 0
					if lose {
						lost++
					}
					return lose
				}
			}, MainsOf(s)...)
			t.Logf("%d frames lost, simulated %v", lost, f.Now())
		})
	}
}

// The card repeats a lost NAK, and the NAK overtakes the agent's Disconnect.
func TestLostNAK(t *testing.T) {
	for _, l := range reliableLevels {
		t.Run(l.name, func(t *testing.T) {
			a := vipl.VIAttributes{ReliabilityLevel: l.level}
			client := func(e *Env) error {
				p := must(e.Dial(1, a))
				d := must(p.Send(0, 4))
				p.Sent("the peer has no receive", d, DidSend(0).failed(descriptorError))
				p.broken("rejected", nil)
				return p.retire("rejected", 1)
			}
			server := func(e *Env) error {
				p := must(e.Serve(a))
				p.broken("no receive", []layout.AsyncError{layout.AsyncErrorReceiveQueueEmpty})
				return p.retire("no receive", 0)
			}
			lost := 0
			runFake(t, driver.DeviceHvia, func(f *drivertest.Fabric) {
				f.Lose = func(_ int, frame []byte) bool {
					if layout.EthernetHeader(frame).EtherType() != layout.EtherTypeVia {
						return false
					}
					h := layout.ViaHeader(frame[layout.EthernetHeaderSize:])
					if layout.AcknowledgeCode(h.Immediate()) != layout.AcknowledgeCodeRemoteDescriptor || lost == 2 {
						return false
					}
					lost++
					return true
				}
			}, client, server)
			require.Equal(t, 2, lost)
		})
	}
}

// The retry limit breaks a dead connection, and both sides report it.
func TestRetryLimit(t *testing.T) {
	for _, l := range reliableLevels {
		t.Run(l.name, func(t *testing.T) { retryLimit(t, l.level) })
	}
}

func retryLimit(t *testing.T, level vipl.ReliabilityLevel) {
	a := vipl.VIAttributes{ReliabilityLevel: level, EnableRDMAWrite: true, EnableRDMARead: true}
	cut := false
	client := func(e *Env) error {
		p := must(e.Dial(1, a))
		check(p.Meet(1))
		d := must(p.Send(0, 4000))
		p.Sent("before", d, DidSend(4000))
		check(p.Meet(1))
		cut = true
		var posted []*vipl.Descriptor
		for range 3 {
			posted = append(posted, must(p.Send(0, 4000)))
		}
		p.Sent("nothing comes through", posted[0], DidSend(0).failed(transportError))
		p.Sent("behind it", posted[1], DidSend(0).failed(FlushedError))
		p.Sent("behind it", posted[2], DidSend(0).failed(FlushedError))
		p.broken("nothing comes through", nil)
		return p.retire("retries", 1)
	}
	server := func(e *Env) error {
		p := must(e.Serve(a))
		d := must(p.Receive(0, 4000))
		waiting := must(p.Receive(0, 4000))
		check(p.Meet(0))
		p.Take("before", d, Received(4000))
		check(p.Meet(0))
		p.Take("nothing comes through", waiting, Received(0).failed(FlushedError))
		p.broken("nothing comes through", nil)
		return p.retire("retries", 0)
	}
	f, err := drivertest.New(2, 4)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	f.Lose = func(_ int, frame []byte) bool {
		return cut && layout.EthernetHeader(frame).EtherType() == layout.EtherTypeVia
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, fabric.RunOn(ctx, f, fabric.RunConfig{
		Seed: 1, Transport: driver.Transport{RetryLimit: 3, RetryTimeout: host.Millisecond},
	}, Programs(client, server)...))
	for i := range 2 {
		require.Zero(t, f.Node(i).InUse(), "node %d: frames are still in use", i)
	}
}
