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

// Every function gives the status that the table says, on fake cards and on M-VIA.
func TestFunctions(t *testing.T) {
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) {
		list := functionPrograms(d, false, functionRows())
		f, err := drivertest.NewOf(d, 2, len(fabric.Participants(list)))
		require.NoError(t, err)
		t.Cleanup(f.Close)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		require.NoError(t, fabric.RunOn(ctx, f, fabric.RunConfig{Device: d, Seed: 1}, list...))
	})
}

// The same on the RTL.
func TestFunctionsOnTheCard(t *testing.T) {
	conformtest.NeedsSimulator(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	require.NoError(t, fabric.Run(ctx, fabric.RunConfig{Seed: conformtest.Seed(t)}, functionPrograms(driver.DeviceHvia, true, functionRows())...), "replay with HVIA_SEED=%d", conformtest.Seed(t))
}
