// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// A case takes 50 us: the usual 100 would test too little of a lossy link.
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("5000"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
