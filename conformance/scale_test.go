// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/fabric"
)

func TestScaleOnFakes(t *testing.T) {
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) {
		for _, s := range scales {
			t.Run(s.Name, func(t *testing.T) {
				list := Programs(MainsOf(s)...)
				f, err := drivertest.NewSized(d, 2, len(fabric.Participants(list)), scaleFrames)
				require.NoError(t, err)
				t.Cleanup(f.Close)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				require.NoError(t, fabric.RunOn(ctx, f, fabric.RunConfig{Device: d, Seed: 1, Regions: scaleRegions}, list...))
				for i := range 2 {
					require.Zero(t, f.Node(i).InUse(), "node %d: frames are still in use", i)
				}
			})
		}
	})
}

func TestScaleOnTheCard(t *testing.T) {
	conformtest.NeedsSimulator(t)
	for _, s := range scales {
		t.Run(s.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			start := time.Now()
			require.NoError(t, fabric.Run(ctx, fabric.RunConfig{Seed: conformtest.Seed(t), Regions: scaleRegions}, Programs(MainsOf(s)...)...), "replay with HVIA_SEED=%d", conformtest.Seed(t))
			t.Logf("wall %v", time.Since(start).Round(time.Millisecond))
		})
	}
}
