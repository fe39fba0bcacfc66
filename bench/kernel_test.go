// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is measured of M-VIA and TCP/IP is the same to the last bit however the machine
// is loaded and however many processors the Go side has.
func TestBaselinesRepeat(t *testing.T) {
	takesSeconds(t)
	c := smallConfig(t)
	c.Sizes = []int{4, 1400, 16384, 65536}
	measured := func(c ReproduceConfig) string {
		r := NewReport(c.Profile, c.Seed, Hashes{})
		require.NoError(t, r.measureBaselines(t.Context(), c))
		require.Len(t, r.Results.Tcp, len(c.Sizes))
		require.Empty(t, r.Faults())
		return repeatable(t, r)
	}
	want := measured(c)
	runs := 4
	if long() {
		runs = 20
	}
	for i := range runs {
		stop := startSpinners(t, i%2*2)
		procs := runtime.GOMAXPROCS(1 + i%4)
		got := measured(c)
		runtime.GOMAXPROCS(procs)
		stop()
		require.Equal(t, want, got, "run %d, replay with HVIA_SEED=%d", i, c.Seed)
	}
	c.Seed++
	require.NotEqual(t, want, measured(c), "another seed is another run")
}

// A message whose bytes arrive wrong is told, with the protocol.
func TestFaultsOfBaselines(t *testing.T) {
	r := sample()
	r.Results.Mvia = []PingPongResult{{Size: 4, Verified: true}, {Size: 64, Fault: "byte 3"}}
	r.Results.Tcp = []PingPongResult{{Size: 16, Fault: "byte 0"}}
	r.Results.Prediction = &Prediction{Tcp: []PingPongResult{{Size: 256, Fault: "byte 9"}}}
	require.Subset(t, r.Faults(), []string{"64 bytes by M-VIA: byte 3", "16 bytes by TCP/IP: byte 0", "256 bytes by TCP/IP before the fit: byte 9"})
	require.Len(t, r.Faults(), 3)
	require.False(t, r.Verified())
}
