// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
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

// A program ends at the failed step, and its error names the line.
func TestProgramEndsAtAFailedStep(t *testing.T) {
	err := Program(0, "", func(e *Env) error {
		e.That("noted before", false)
		Step(errors.New("no memory"), "post %d", 3)
		return nil
	}).Main(nil, nil)
	require.ErrorContains(t, err, "noted before")
	require.Regexp(t, `main_test.go:\d+: post 3: no memory`, err)
	require.Panics(t, func() { _ = Program(0, "", func(*Env) error { panic("a bug") }).Main(nil, nil) })
}
