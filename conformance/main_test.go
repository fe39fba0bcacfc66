// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"testing"

	"go.uber.org/goleak"

	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/sim/bridge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func runFake(t *testing.T, d driver.Device, prepare func(f *drivertest.Fabric), mains ...Main) *drivertest.Fabric {
	t.Helper()
	return conformtest.RunFake(t, d, prepare, Programs(mains...)...)
}

func runSimulated(t *testing.T, d driver.Device, seed uint64, mains ...Main) bridge.Digest {
	t.Helper()
	return conformtest.RunSimulated(t, d, seed, Programs(mains...)...)
}

func runCard(t *testing.T, seed uint64, mains ...Main) bridge.Digest {
	t.Helper()
	return runSimulated(t, driver.DeviceHvia, seed, mains...)
}
