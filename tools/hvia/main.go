// SPDX-License-Identifier: Apache-2.0

// Command hvia runs experiments on the card and checks the requirements of this
// machine. `hvia --help` lists the verbs.
package main

import (
	"os"

	"hvia/tools/hvia/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.Process(), experiments()))
}
