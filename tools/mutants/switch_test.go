// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/sim/verilate"
)

const victim = `package main

import "fmt"

var one = 1

type number int

func (n *number) add(_ string, more ...int) (sum, count int) {
	for _, m := range more {
		*n += number(m)
	}
	return int(*n), len(more)
}

func show(int) { fmt.Println("shown") }

func guard() { defer func() { recover() }(); fmt.Println("guarded") }

func main() {
	var n number
	fmt.Println(n.add("", one, 2))
	show(1)
	guard()
}
`

func TestSwitched(t *testing.T) {
	bugs := []Bug{
		{"", "main.go", "number(m)", "number(m) * 2"},
		{"", "main.go", "len(more)", "0"},
		{"", "main.go", `"shown"`, `"hidden"`},
		{"", "main.go", "one = 1", "one = 5"},
		{"", "main.go", `"guarded"`, `"unguarded"`},
	}
	files, apart, err := switched(map[string]string{"main.go": victim}, bugs)
	require.NoError(t, err)
	require.Equal(t, []int{3, 4}, apart)
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	program := filepath.Join(dir, "program")
	build := exec.Command("go", "build", "-o", program, filepath.Join(dir, "main.go"), filepath.Join(dir, "injected_bug.go"))
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
	for bug, want := range map[string]string{
		"": "3 2 shown guarded", "1": "6 2 shown guarded", "2": "3 0 shown guarded", "3": "3 2 hidden guarded", "9": "3 2 shown guarded",
	} {
		run := exec.Command(program)
		run.Env = append(os.Environ(), verilate.FaultVariable+"="+bug)
		output, err := run.Output()
		require.NoError(t, err)
		require.Equal(t, want, strings.Join(strings.Fields(string(output)), " "), bug)
	}
}
