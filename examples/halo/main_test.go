// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/fabric"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var devices = []driver.Device{driver.DeviceHvia, driver.DeviceMvia}

func play(t *testing.T, args ...string) string {
	t.Helper()
	o, err := parse(args, os.Stderr)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, o))
	return out.String()
}

// Four hosts compute the same result as one, and a second run prints the same
// bytes.
func TestOnTheFabric(t *testing.T) {
	for _, d := range devices {
		t.Run(string(d), func(t *testing.T) {
			got := play(t, "-device", string(d), "-points", "20", "-steps", "30")
			require.Contains(t, got, "Heat on 20 x 20 points, 4 nodes, 30 steps over "+string(d))
			require.Contains(t, got, "240 halos of 80 bytes")
			require.Contains(t, got, "equal to the serial computation bit by bit")
			require.Equal(t, got, play(t, "-device", string(d), "-points", "20", "-steps", "30"))
		})
	}
}

func fake(t *testing.T, o options) (*job, error) {
	t.Helper()
	f, err := drivertest.NewOf(o.device, nodes, 2*nodes)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	j, programs := newJob(o)
	if err := fabric.RunOn(context.Background(), f, fabric.RunConfig{Device: o.device}, programs...); err != nil {
		return j, err
	}
	for i := range nodes {
		require.Zero(t, f.Node(i).InUse(), "node %d", i)
	}
	return j, j.check()
}

// The programs run on fake cards and fake plain NICs, without a simulator, with
// halos of one frame and of several. They leave nothing behind.
func TestOnFakes(t *testing.T) {
	for _, d := range devices {
		for _, points := range []int{2, 4, 64, 600} {
			_, err := fake(t, options{device: d, points: points, steps: 25})
			require.NoError(t, err, "%s, %d points", d, points)
		}
	}
}

// One wrong bit of one value of any node's halos shows in the result, also in
// the last step; so does a halo of an earlier step.
func TestOneWrongBitIsSeen(t *testing.T) {
	for rank := range nodes {
		for _, at := range []int{8, 12, 19} {
			_, err := fake(t, options{device: driver.DeviceHvia, points: 16, steps: 20, spoil: func(r, step int, halo []byte) {
				if r == rank && step == at {
					// flips a bit of the fraction of value 5, which is not 0 by
					// this step
					halo[8*5+6] ^= 1
				}
			}})
			require.ErrorContains(t, err, "computed in one place", "node %d, step %d", rank, at)
		}
	}
	var old [][]byte
	_, err := fake(t, options{device: driver.DeviceHvia, points: 16, steps: 20, spoil: func(r, step int, halo []byte) {
		if r == 2 && step == 9 {
			old = append(old, slices.Clone(halo))
		}
		if r == 2 && step == 10 {
			copy(halo, old[0])
			old = old[1:]
		}
	}})
	require.ErrorContains(t, err, "computed in one place")
}

// The serial computation agrees with independent values: one point between four
// others, and a plate whose inside stays between its edges.
func TestSerial(t *testing.T) {
	g := newGrid(1, 0, 0)
	mean := (g.now[g.at(0, 1)] + g.now[g.at(2, 1)] + g.now[g.at(1, 0)] + g.now[g.at(1, 2)]) / 4
	g.step()
	require.InDelta(t, 4*diffusion*mean, g.now[g.at(1, 1)], 1e-12)
	for range 100 {
		g.step()
	}
	require.InDelta(t, mean, g.now[g.at(1, 1)], 1e-9)

	g = serial(32, 5000)
	for i := 1; i <= g.n; i++ {
		for j := 1; j <= g.n; j++ {
			k := g.at(i, j)
			// It is stationary: each point is the mean of its neighbours.
			around := (g.now[k-1] + g.now[k+1] + g.now[k-g.n-2] + g.now[k+g.n+2]) / 4
			require.InDelta(t, around, g.now[k], 1e-6, "%d, %d", i, j)
			require.True(t, 0 <= g.now[k] && g.now[k] <= 100)
		}
	}
	other := serial(32, 5000)
	k := other.at(32, 1)
	other.now[k] = math.Nextafter(other.now[k], 0)
	require.ErrorContains(t, g.compare(other, 0, 0), "point 31, 0 is")
}

func TestParseRejects(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-device", "tcp"}, {"-points", "0"}, {"-points", "7"}, {"-points", "16386"}, {"-steps", "0"}, {"-none"}} {
		var stderr bytes.Buffer
		_, err := parse(args, &stderr)
		require.Error(t, err, "%v", args)
		require.NotEmpty(t, stderr.String(), "%v", args)
	}
	_, err := parse([]string{"-points", "16384"}, io.Discard)
	require.NoError(t, err)
}
