// SPDX-License-Identifier: Apache-2.0

package hvia_test

import (
	"flag"
	"testing"
)

// Every example runs on the simulated card, which -short does without.
func TestMain(m *testing.M) {
	if flag.Parse(); !testing.Short() {
		m.Run()
	}
}
