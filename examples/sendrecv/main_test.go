// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/fabric"
)

func Example() {
	main()
	// Output:
	// 1: the answer to question 1
	// 2: the answer to question 2
	// 3: the answer to question 3
}

// The same programs on M-VIA.
func Example_mvia() {
	if err := run(context.Background(), driver.DeviceMvia); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1: the answer to question 1
	// 2: the answer to question 2
	// 3: the answer to question 3
}

// The programs on fake cards and fake plain NICs, without a simulator.
func TestOnFakes(t *testing.T) {
	for _, d := range []driver.Device{driver.DeviceHvia, driver.DeviceMvia} {
		t.Run(string(d), func(t *testing.T) {
			f, err := drivertest.NewOf(d, 2, 4)
			require.NoError(t, err)
			t.Cleanup(f.Close)
			require.NoError(t, fabric.RunOn(t.Context(), f, fabric.RunConfig{Device: d}, fabric.Program{Node: 0, Main: client}, fabric.Program{Node: 1, Main: server}))
			require.Zero(t, f.Node(0).InUse()+f.Node(1).InUse())
		})
	}
}
