// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"hvia/bench/report"
	"hvia/sim/verilate"
	"hvia/tools/hvia/internal/doctor"
)

// doctorReport is the shape of `hvia doctor --json`.
type doctorReport struct {
	Schema string         `json:"schema"`
	OK     bool           `json:"ok"`
	Checks []doctor.Check `json:"checks"`
}

func (a *app) doctor() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Check this machine's requirements, with a fix for each missing one.",
		Long:  `Nothing is changed. The exit code is 3 if something is missing.`,
		Example: `  hvia doctor
  hvia doctor --json | jq '.checks[] | select(.status != "ok")'`,
		Args: noArgs,
	}
	o := newGroup("Output")
	o.flags.BoolVar(&asJSON, "json", false, "one JSON object on stdout")
	addGroups(cmd, o)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		root, err := verilate.Root()
		if err != nil {
			root = ""
		}
		checks := doctor.Run(cmd.Context(), doctor.Options{Root: root, Proc: "/proc", Simulator: a.SimulatorBuilt})
		if asJSON {
			err = report.WriteJSON(a.Stdout, doctorReport{"hvia-doctor/1", doctor.Good(checks), checks})
		} else {
			err = a.printChecks(checks)
		}
		if err != nil {
			return fmt.Errorf("doctor: print the checks: %w", err)
		}
		if !doctor.Good(checks) {
			var names []string
			for _, c := range checks {
				if c.Status == doctor.Missing {
					names = append(names, c.Name)
				}
			}
			return environmentError{fmt.Errorf("doctor: missing on this machine: %s", strings.Join(names, ", "))}
		}
		return nil
	}
	return cmd
}

// printChecks writes a line for each check and one more for its fix. The word
// carries the meaning; colour only repeats it.
func (a *app) printChecks(checks []doctor.Check) error {
	colors := map[doctor.Status]string{doctor.OK: "32", doctor.Warning: "33", doctor.Missing: "31"}
	var b strings.Builder
	for _, c := range checks {
		status := fmt.Sprintf("%-8s", c.Status)
		if a.colored() {
			status = "\x1b[" + colors[c.Status] + "m" + status + "\x1b[0m"
		}
		fmt.Fprintf(&b, "%s %-11s %s (want: %s)\n", status, c.Name, c.Found, c.Want)
		if c.Fix != "" {
			fmt.Fprintf(&b, "%21sfix: %s\n", "", c.Fix)
		}
	}
	_, err := fmt.Fprint(a.Stdout, b.String())
	return err
}
