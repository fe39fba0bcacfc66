// SPDX-License-Identifier: Apache-2.0

package benchtest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// spinVerb makes this binary a busy loop that ends with its standard input.
const spinVerb = "spin"

// Main is the main function of a test program. With a verb as its argument, the
// program runs the verb instead of the tests.
func Main(m *testing.M, verbs map[string]func() int) int {
	if len(os.Args) == 2 {
		if os.Args[1] == spinVerb {
			spin()
		}
		if f := verbs[os.Args[1]]; f != nil {
			return f()
		}
	}
	return runAndLookForLeaks(m)
}

func spin() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for n := 0; ; n++ {
	}
}

// runAndLookForLeaks fails tests that leave goroutines, processes or files.
func runAndLookForLeaks(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hvia-test-")
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	code := m.Run()
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	children, err := childProcesses(os.Getpid())
	if err != nil || len(children) > 0 {
		fmt.Fprintln(os.Stderr, "left behind: processes", children, err)
		code = 1
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) > 0 {
		fmt.Fprintln(os.Stderr, "left behind: files", left, err)
		code = 1
	}
	return code
}

// childProcesses lists the children of a process, zombies included.
func childProcesses(pid int) ([]string, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var children []string
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has exited meanwhile
		}
		// "pid (name) state parent ...", and the name may hold anything.
		_, rest, ok := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
		if fields := strings.Fields(rest); ok && len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			children = append(children, strings.TrimSpace(string(stat)))
		}
	}
	return children, nil
}

// StartSpinners starts busy processes and returns a function that ends them.
func StartSpinners(t *testing.T, n int) (stop func()) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	var ends []func()
	for range n {
		cmd := exec.Command(program, spinVerb)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		ends = append(ends, func() {
			_ = in.Close()
			_ = cmd.Wait()
		})
	}
	done := false
	stop = func() {
		if done {
			return
		}
		done = true
		for _, end := range ends {
			end()
		}
	}
	t.Cleanup(stop)
	return stop
}
