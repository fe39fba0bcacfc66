// SPDX-License-Identifier: Apache-2.0

package drivertest_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/fabric"
	"hvia/host"
)

// The entries of a run cover every account, with their instants. (On the fake
// fabric no thread waits for the processor.)
func TestSpendingIsTold(t *testing.T) {
	f, err := drivertest.New(1, 2)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	var mu sync.Mutex
	told := map[host.ThreadID][]host.Spending{}
	accounts := map[host.ThreadID]host.Account{}
	const ns = host.Nanosecond
	main := func(after host.Time, l host.Layer, spans ...host.Time) func(*host.Thread, *driver.Host) error {
		return func(th *host.Thread, h *driver.Host) error {
			// The agent's start is over at 1 ms.
			if err := th.Sleep(host.Millisecond + after - th.Now()); err != nil {
				return err
			}
			for _, s := range spans {
				if err := th.Spend(l, s); err != nil {
					return err
				}
			}
			if _, err := th.Poll(host.Poll{Period: 10 * ns, Timeout: 100 * ns}, func() bool { return false }); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			accounts[th.ID()] = th.Spent()
			accounts[host.ThreadID{Node: 0, Rank: driver.AgentRank}] = h.Spent()
			return nil
		}
	}
	require.NoError(t, fabric.RunOn(t.Context(), f, fabric.RunConfig{Spending: func(s host.Spending) {
		mu.Lock()
		defer mu.Unlock()
		told[s.Thread] = append(told[s.Thread], s)
	}},
		fabric.Program{Name: "first", Main: main(0, host.LayerLibrary, 500*ns, 0, 200*ns)},
		fabric.Program{Name: "second", Main: main(100*ns, host.LayerTrap, 300*ns)}))

	first, second := host.ThreadID{Node: 0, Rank: 1}, host.ThreadID{Node: 0, Rank: 2}
	const at = host.Millisecond
	require.Equal(t, []host.Spending{
		{Thread: first, Layer: host.LayerLibrary, Asked: at, End: at + 500*ns, Span: 500 * ns},
		{Thread: first, Layer: host.LayerLibrary, Asked: at + 500*ns, End: at + 700*ns, Span: 200 * ns},
		{Thread: first, Layer: host.LayerPoll, Asked: at + 700*ns, End: at + 800*ns, Span: 100 * ns},
	}, told[first])
	require.Equal(t, host.Spending{Thread: second, Layer: host.LayerTrap, Asked: at + 100*ns, End: at + 400*ns, Span: 300 * ns}, told[second][0])
	for id, want := range accounts {
		var sum host.Account
		for _, s := range told[id] {
			sum[s.Layer] += s.Span
		}
		require.Equal(t, want, sum, "%v", id)
	}
	require.Equal(t, 700*ns, accounts[first].Total())
	require.Equal(t, 100*ns, accounts[first][host.LayerPoll])
}
