// SPDX-License-Identifier: Apache-2.0

// Command hvia runs the card: it measures, demonstrates and says what this
// machine needs. `hvia --help` lists the verbs.
package main

import (
	"os"

	"hvia/tools/hvia/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.Process(), experiments()))
}
