// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/params"
	"hvia/sim/verilate"
)

// versionReport is the shape of `hvia version --json`. Unknown values are empty
// strings.
type versionReport struct {
	Schema    string        `json:"schema"`
	Version   string        `json:"version"`
	Revision  string        `json:"revision"`
	Modified  bool          `json:"modified"` // the checkout had uncommitted changes
	Go        string        `json:"go"`
	Hashes    report.Hashes `json:"hashes"`
	Verilator string        `json:"verilator"`
}

func (a *app) version() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version [flags]",
		Short: "Print versions, and the hashes of layouts, numbers and RTL.",
		Long:  `Two runs can be compared if the hashes are the same.`,
		Example: `  hvia version
  hvia version --json | jq .hashes`,
		Args: noArgs,
	}
	o := newGroup("Output")
	o.flags.BoolVar(&asJSON, "json", false, "one JSON object on stdout")
	addGroups(cmd, o)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.printVersion(asJSON)
	}
	return cmd
}

// newVersionReport returns the data that the build recorded.
func newVersionReport() versionReport {
	v := versionReport{Schema: "hvia-version/1", Version: "devel", Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		if m := info.Main.Version; m != "" && m != "(devel)" {
			v.Version = m
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Revision = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	return v
}

func (a *app) printVersion(asJSON bool) error {
	v := newVersionReport()
	root, err := verilate.Root()
	if err != nil {
		root = "" // outside of a checkout there is no RTL to hash
	}
	if tool, err := verilate.Find(root); err == nil {
		v.Verilator = tool.Version
	}
	// The hashes of layouts and numbers are compiled in, whatever the error.
	v.Hashes, _ = rig.CollectHashes(root, params.Base)
	if asJSON {
		err = report.WriteJSON(a.Stdout, v)
	} else {
		revision := orUnknown(v.Revision)
		if v.Modified {
			revision += " (modified)"
		}
		_, err = fmt.Fprintf(a.Stdout, "hvia       %s\nrevision   %s\ngo         %s\nlayout     %s\nparams     %s\nrtl        %s\nverilator  %s\n",
			v.Version, revision, v.Go, v.Hashes.Layout, v.Hashes.Params, orUnknown(v.Hashes.RTL), orUnknown(v.Verilator))
	}
	if err != nil {
		return fmt.Errorf("version: print it: %w", err)
	}
	return nil
}

func orUnknown(s string) string {
	if s == "" {
		return "not found"
	}
	return s
}
