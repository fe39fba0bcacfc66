// SPDX-License-Identifier: Apache-2.0

// The command count prints the size of a checkout: its argument, or the
// working directory. With -text it prints the text of the working directory's
// files or folders that breaks the rules for language.
package main

import (
	"flag"
	"fmt"
	"os"

	"hvia/tools/house"
)

func main() {
	text := flag.Bool("text", false, "check the language of the folders given")
	flag.Parse()
	if err := run(*text, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "count:", err)
		os.Exit(1)
	}
}

func run(text bool, args []string) error {
	if text {
		found, err := house.CheckTextOf(".", args...)
		for _, v := range found {
			fmt.Println(v)
		}
		return err
	}
	f, err := house.Count(append(args, ".")[0])
	if err == nil {
		fmt.Print(f)
	}
	return err
}
