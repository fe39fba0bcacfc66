// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/fabric"
)

func simulated(t *testing.T, d driver.Device) Target {
	return Simulated(string(d), fabric.RunConfig{Device: d, Seed: conformtest.Seed(t)})
}

// Every function returns the status of the table, on fake cards and on M-VIA.
func TestFunctions(t *testing.T) {
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) { functionsOn(t, fakeTarget(d)) })
}

// The same on the RTL.
func TestFunctionsOnTheCard(t *testing.T) {
	conformtest.NeedsSimulator(t)
	functionsOn(t, simulated(t, driver.DeviceHvia))
}

func functionsOn(t *testing.T, target Target) {
	ctx, cancel := conformtest.WithLimit(t)
	defer cancel()
	require.NoError(t, Run(ctx, target, func(name string) bool { return !strings.HasPrefix(name, ScenarioGroup) }, func(r Result) {
		t.Run(r.Name(), func(t *testing.T) { verify(t, target, r) })
	}), "replay with HVIA_SEED=%d", conformtest.Seed(t))
}

// verify turns a verdict into a test result. The card lacks nothing.
func verify(t *testing.T, target Target, r Result) {
	t.Helper()
	switch {
	case r.Verdict == NotSupported && target.Device == driver.DeviceMvia:
		t.Skip("not supported: " + r.Reason)
	case r.Verdict != Pass:
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
}
