// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
)

// roleVariable makes this test binary play another process of a fabric.
const roleVariable = "HVIA_BRIDGE_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := play(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// A fabric creates all its files below this directory; at the end it must
	// be empty.
	dir, err := os.MkdirTemp("", "hvia-bridge-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("TMPDIR", dir)
	code := m.Run()
	if code == 0 {
		if err := leftovers(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// leftovers reports files and child processes that a test left behind.
func leftovers(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	if len(files) > 0 {
		return fmt.Errorf("left behind: %v", files)
	}
	children, err := childProcesses()
	if err != nil {
		return err
	}
	if len(children) > 0 {
		return fmt.Errorf("child processes left behind: %v", children)
	}
	return nil
}

func childProcesses() ([]string, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var children []string
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it exited meanwhile
		}
		// pid (name) state parent ...
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if len(f) > 1 && f[1] == strconv.Itoa(os.Getpid()) {
			children = append(children, strings.SplitN(string(b), ")", 2)[0]+")")
		}
	}
	return children, nil
}

func testContext(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func startFabric(t *testing.T, ctx context.Context, cfg sim.Config) *sim.Fabric {
	t.Helper()
	if cfg.Nodes == nil {
		cfg.Nodes = []sim.Node{{Kind: "echo", Name: "a"}, {Kind: "echo", Name: "b"}}
	}
	if cfg.MemoryBytes == 0 {
		cfg.MemoryBytes = memoryBytes
	}
	if cfg.Program == "" {
		cfg.Program = unit.Simulator(t)
	}
	f, err := sim.Start(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// spawn runs this test binary in another role; cleaned up with the test.
func spawn(t *testing.T, role string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, roleVariable+"="+role)...)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { end(cmd) })
	return cmd
}

func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func play(role string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	number := func(name string) uint64 {
		v, err := strconv.ParseUint(os.Getenv(name), 10, 64)
		if err != nil {
			panic(fmt.Sprintf("%s=%q: %v", name, os.Getenv(name), err))
		}
		return v
	}
	switch role {
	case "owner":
		return playOwner(ctx)
	case "hog":
		for ctx.Err() == nil {
		}
		return nil
	}
	f, err := sim.Attach(ctx, os.Getenv("HVIA_PATH"), bridge.Options{Name: role, Nodes: []int{1}})
	if err != nil {
		return err
	}
	defer f.Close()
	switch role {
	case "workload":
		d := disturbance{seed: number("HVIA_NOISE"), sleeps: number("HVIA_NOISE") != 0, hogs: int(number("HVIA_HOGS"))}
		_, err := runNodes(ctx, f, []int{1}, number("HVIA_SEED"), int(number("HVIA_ROUNDS")), d)
		return err
	case "victim":
		return playVictim(ctx, f)
	}
	return fmt.Errorf("unknown role %q", role)
}

const (
	linkFile      = "sim/fabric/link.cc"
	processorFile = "sim/fabric/processor.cc"
	schedulerFile = "sim/fabric/scheduler.cc"
	slotsFile     = "sim/fabric/slots.cc"
)

// Bugs of the simulator: file, old text, new text.
var (
	slotOrderBug      = [3]string{slotsFile, "std::sort(declared.begin(), declared.end(), Before);", ""}
	pollGridBug       = [3]string{slotsFile, "(t - start) / period + 1", "(t - start + period - 1) / period"}
	uncheckedWriteBug = [3]string{"sim/fabric/host_memory.cc", "observer_->OnMemoryFault(node_, true, address);\n    return;", ""}
	parametersBug     = [3]string{"sim/fabric/main.cc", "scheduler.AddConfiguration(r.name, r.value);", "(void)r;"}
)

// mutant enables a bug for the rest of the test, and returns the simulator that
// has the bugs of all tests here.
func mutant(t *testing.T, bug [3]string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a simulator")
	}
	all := slices.Concat(processorBugs, heldWireBugs, [][3]string{slotOrderBug, pollGridBug, uncheckedWriteBug, parametersBug})
	var bugs []unit.Bug
	for _, b := range all {
		bugs = append(bugs, unit.Bug{"", b[0], b[1], b[2]})
	}
	unit.Enable(t, slices.Index(all, bug))
	return unit.Simulator(t, unit.Switch(t, bugs)...)
}
