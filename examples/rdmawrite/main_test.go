// SPDX-License-Identifier: Apache-2.0

package main

func Example() {
	main()
	// Output: hello, remote memory
}
