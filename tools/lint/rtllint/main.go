// SPDX-License-Identifier: Apache-2.0

// Command rtllint checks every module under rtl/ as a top: with Verilator's
// warnings on, and with Yosys for synthesizability, at the default data width
// and at 64 bits. It also checks the text for delays and for registers that
// only let time pass.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run returns the exit code: 0 clean, 1 findings, 2 usage, 3 environment.
func run(args []string) int {
	fs := flag.NewFlagSet("rtllint", flag.ContinueOnError)
	root := fs.String("root", ".", "the checkout")
	builder := fs.Bool("builder", false, "take the Verilator that simulators are built with, not the one on PATH")
	timeout := fs.Duration("timeout", 10*time.Minute, "end after this time")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()

	lint, err := newLinter(*root, *builder)
	if err != nil {
		fmt.Fprintln(os.Stderr, "rtllint:", err)
		return 3
	}
	modules, err := lint.modules()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rtllint:", err)
		return 1
	}
	whole := fs.NArg() == 0
	if !whole {
		if modules, err = choose(modules, fs.Args()); err != nil {
			fmt.Fprintln(os.Stderr, "rtllint:", err)
			return 2
		}
	}
	findings, err := lint.sources(modules, whole)
	if err != nil {
		fmt.Fprintln(os.Stderr, "rtllint:", err)
		return 1
	}
	findings = append(findings, lint.run(ctx, modules)...)
	for _, f := range findings {
		fmt.Fprintf(os.Stderr, "rtllint: %s: %s:\n%s\n", f.module, f.check, f.text)
	}
	if len(findings) > 0 {
		fmt.Fprintf(os.Stderr, "rtllint: %d findings\n", len(findings))
		return 1
	}
	atWide := 0
	for _, m := range modules {
		if m.width != "" {
			atWide++
		}
	}
	fmt.Printf("rtllint: %d modules clean in Verilator %s and Yosys, %d of them at 64 bits, too\n", len(modules), lint.verilator.Version, atWide)
	return 0
}
