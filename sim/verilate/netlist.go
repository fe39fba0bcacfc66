// SPDX-License-Identifier: Apache-2.0

package verilate

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoYosys is returned when a netlist is requested without yosys on PATH.
var ErrNoYosys = errors.New("yosys not found on PATH: install it (Debian, Ubuntu: apt-get install yosys) or run 'make setup'")

func yosysVersion() (string, error) {
	yosys, err := exec.LookPath("yosys")
	if err != nil {
		return "", ErrNoYosys
	}
	version, err := exec.Command(yosys, "-V").Output()
	if err != nil {
		return "", fmt.Errorf("%s -V: %w", yosys, err)
	}
	return string(version), nil
}

// netlist makes Yosys read the design files of rtl and write their netlist to
// path. It returns the sources to build instead: Verilator's control files and
// the netlist. Signals and instances keep their names.
func netlist(ctx context.Context, spec Spec, rtl []string, path string) ([]string, error) {
	yosys, err := exec.LookPath("yosys")
	if err != nil {
		return nil, ErrNoYosys
	}
	var design, sources []string
	for _, file := range rtl {
		switch {
		case filepath.Ext(file) == ".vlt":
			sources = append(sources, file)
		case !strings.HasSuffix(file, "_checker.sv"):
			design = append(design, `"`+file+`"`)
		}
	}
	script := "read_verilog -sv " + strings.Join(design, " ")
	for _, name := range sortedKeys(spec.Params) {
		script += fmt.Sprintf("; chparam -set %s %s %s", name, spec.Params[name], spec.Top)
	}
	// Verilator finds the top module by its name, which Yosys changes for
	// parameters.
	script += fmt.Sprintf("; hierarchy -check -top %s; proc; check -assert; rename -top %s; write_verilog -noattr \"%s\"", spec.Top, spec.Top, path)
	cmd := exec.CommandContext(ctx, yosys, "-q", "-p", script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make a netlist of %s: %w\n%s", spec.Top, err, tail(out, 8000))
	}
	return append(sources, path), nil
}
