// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
)

func Example() {
	main()
	// Output:
	// 1: the answer to question 1
	// 2: the answer to question 2
	// 3: the answer to question 3
}

// The programs alone, on cards without RTL.
func TestOnFakeCards(t *testing.T) {
	f, err := drivertest.New(2, 4)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	require.NoError(t, driver.RunOn(t.Context(), f, driver.RunConfig{}, driver.Program{Node: 0, Main: client}, driver.Program{Node: 1, Main: server}))
	require.Zero(t, f.Node(0).InUse()+f.Node(1).InUse())
}
