// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"testing"

	"hvia/conformance/conformtest"
	"hvia/driver"
)

// Programs for other providers of VIPL find the behaviour they rely on: on fake
// cards, on M-VIA, and on the RTL.
func TestClientHabits(t *testing.T) {
	for _, h := range habits {
		t.Run(h.Name, func(t *testing.T) {
			mains := MainsOf(h)
			conformtest.OnDevices(t, func(t *testing.T, d driver.Device) { runFake(t, d, nil, mains...) })
			t.Run("card", func(t *testing.T) {
				conformtest.NeedsSimulator(t)
				runCard(t, conformtest.Seed(t), mains...)
			})
		})
	}
}
