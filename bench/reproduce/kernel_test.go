// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/internal/benchtest"
	"hvia/bench/report"
)

// Results of M-VIA and TCP/IP repeat bit for bit under any load of the machine
// and with any number of processors on the Go side.
func TestBaselinesRepeat(t *testing.T) {
	benchtest.TakesSeconds(t)
	c := smallConfig(t)
	c.Sizes = []int{4, 1400, 16384}
	measured := func(c Config) string {
		r := report.New(c.Profile, c.Seed, report.Hashes{})
		for _, measure := range []func(context.Context, Config) (func(*report.Report), error){measureMvia, measureTCP} {
			add, err := measure(t.Context(), c)
			require.NoError(t, err)
			add(r)
		}
		require.Len(t, r.Results.Tcp, len(c.Sizes))
		require.Empty(t, r.Faults())
		return repeatable(t, r)
	}
	runs := 2
	if benchtest.Long() {
		c.Sizes, runs = append(c.Sizes, 65536), 20
	}
	want := measured(c)
	for i := range runs {
		stop := benchtest.StartSpinners(t, i%2*2)
		procs := runtime.GOMAXPROCS(1 + i%4)
		got := measured(c)
		runtime.GOMAXPROCS(procs)
		stop()
		require.Equal(t, want, got, "run %d, replay with HVIA_SEED=%d", i, c.Seed)
	}
	c.Seed++
	require.NotEqual(t, want, measured(c), "another seed is another run")
}
