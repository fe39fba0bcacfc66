// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"hvia/driver"
)

func Example() {
	main()
	// Output: hello, remote memory
}

// The same program on M-VIA.
func Example_mvia() {
	if err := run(context.Background(), driver.DeviceMvia); err != nil {
		fmt.Println(err)
	}
	// Output: hello, remote memory
}
