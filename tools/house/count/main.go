// SPDX-License-Identifier: Apache-2.0

// The command count prints the size of a checkout: its argument, or the
// working directory.
package main

import (
	"fmt"
	"os"

	"hvia/tools/house"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	f, err := house.Count(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "count:", err)
		os.Exit(1)
	}
	fmt.Print(f)
}
