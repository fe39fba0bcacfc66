// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"hvia/bench/figures"
	"hvia/bench/report"
)

func (a *app) report() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report [flags] FILE",
		Short: "Draw the page and the figures of a report again.",
		Long: `Reads a report.json that hvia reproduce wrote, and writes report.html and
figures/ beside it, without running anything. The same report gives the same
bytes.`,
		Example: `  hvia report out/reproduce/report.json
  hvia report -o /tmp/page report.json      into another directory`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{cmd.CommandPath(), fmt.Errorf("expected one argument, the report's FILE, and got %d", len(args))}
			}
			return nil
		},
	}
	o := newGroup("Output")
	o.flags.StringVarP(&out, "output", "o", "", "write into `DIR`; without it, beside FILE")
	addGroups(cmd, o)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		rep, err := report.Read(args[0])
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
		if out == "" {
			out = filepath.Dir(args[0])
		}
		return a.draw(cmd, rep, out, false)
	}
	return cmd
}

// draw writes the page and the figures of a report and prints their location.
func (a *app) draw(cmd *cobra.Command, rep *report.Report, dir string, silent bool) error {
	w, err := figures.Write(rep, dir)
	if err != nil {
		return fmt.Errorf("%s: %w", cmd.Name(), err)
	}
	if !silent {
		fmt.Fprintf(a.Stdout, "page: %s\nfigures: %s, %d as SVG and PNG\n", w.Page, w.Folder, len(w.Figures))
	}
	return nil
}
