// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/sim"
	"hvia/sim/bridge"
	benchbridge "hvia/sim/unit/fabric/bridge"
)

// transfer is both ends of transfers from left (node 0) to right (node 1), for
// tests of exact times.
type transfer struct {
	left, right *host.Thread
	sender      *worker
	memory      [2][]byte
}

func newTransfer(t *testing.T, ctx context.Context, f *sim.Fabric) *transfer {
	t.Helper()
	x := &transfer{left: attach(t, ctx, f, 0, 0, "left"), right: attach(t, ctx, f, 1, 0, "right")}
	for node := range 2 {
		m, err := f.Conn().Memory(node)
		require.NoError(t, err)
		require.NoError(t, useAreas(m))
		x.memory[node] = m.Linear()
	}
	x.sender = &worker{t: x.left, memory: x.memory[0]}
	return x
}

// send makes left start one transfer that ends with the mark.
func (x *transfer) send(bytes int, mark uint32) error {
	fill(x.memory[0][areaOf(0).source():][:bytes], 1, uint64(mark), mark)
	return x.sender.start(0, areaOf(0).target(int(mark)%streamSlots), bytes, false)
}

// flag is the offset of the mark of a transfer of 64 bytes.
func (x *transfer) flag(mark uint32) uint32 { return areaOf(0).target(int(mark)%streamSlots) + 60 }

func (x *transfer) arrived(mark uint32) bool {
	return atomic.LoadUint32(benchbridge.WordAt(x.memory[1], x.flag(mark))) == mark
}

// await lets thread right poll with the given period, for up to 1 ms, until it
// finds the mark of a 64-byte transfer. It returns the time of that poll.
// Afterwards both threads are at the end of that millisecond.
func (x *transfer) await(mark uint32, period host.Time) (at host.Time, err error) {
	end := x.right.Now() + host.Millisecond
	errL, errR := both(func() error { return x.left.Sleep(end - x.left.Now()) }, func() error {
		ok, err := x.right.Poll(host.Poll{Ranges: []bridge.Range{{Address: x.flag(mark), Length: 4}}, Period: period, Timeout: host.Millisecond},
			func() bool { return x.arrived(mark) })
		if at = x.right.Now(); err != nil {
			return err
		}
		if !ok {
			err = fmt.Errorf("mark %d did not come by %v", mark, at)
		}
		return errors.Join(err, x.right.Sleep(end-at))
	})
	return at, errors.Join(errL, errR)
}
