// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"testing"

	"hvia/conformance"
	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/sim/bridge"
)

func runFake(t *testing.T, d driver.Device, prepare func(f *drivertest.Fabric), mains ...conformance.Main) *drivertest.Fabric {
	t.Helper()
	return conformtest.RunFake(t, d, prepare, conformance.Programs(mains...)...)
}

func runCard(t *testing.T, seed uint64, mains ...conformance.Main) bridge.Digest {
	t.Helper()
	return conformtest.RunSimulated(t, driver.DeviceHvia, seed, conformance.Programs(mains...)...)
}
