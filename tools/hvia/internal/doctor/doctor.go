// SPDX-License-Identifier: Apache-2.0

// Package doctor checks the requirements of HVIA on this machine, and names the
// fix for each one that is missing. It changes nothing.
package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hvia/sim/verilate"
)

// Status is the outcome of one check.
type Status string

// Outcomes. Missing stops something from working; Warning does not.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Missing Status = "missing"
)

// Check is the result of one check.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Want   string `json:"want"`
	Fix    string `json:"fix,omitempty"` // what to run or do; empty when ok
}

// Options says where to check.
type Options struct {
	Root string // the checkout, "" if the working directory is outside of one
	Proc string // procfs, normally /proc

	// Simulator says whether the simulator is built. It may be nil.
	Simulator func() (path string, built bool, err error)
}

const (
	wantVerilator = "5.006"
	// Two hosts in one process may each map 32,000 scattered pages, and Go and
	// the C library need some mappings too. The kernel's default is 65,530.
	wantMappings = 65_000
	wantMemory   = 2 << 30 // the compiler is the largest consumer
	wantDisk     = 2 << 30 // build caches of Go and of the simulator
)

// Run makes every check, in a fixed order.
func Run(ctx context.Context, o Options) []Check {
	checks := []Check{
		checkout(o.Root),
		path(o.Root),
		golang(ctx, o.Root),
		program(ctx, "verilator", "--version", wantVerilator, Missing, "make setup"),
		builder(o.Root),
		program(ctx, "g++", "-dumpfullversion", "9", Missing, "make setup"),
		program(ctx, "make", "--version", "3", Missing, "make setup"),
		header(ctx, "zlib", "zlib.h, for the FCS of frames", Missing),
		header(ctx, "lz4", "lz4.h, for waves", Warning),
		program(ctx, "yosys", "-V", "0.23", Warning, "make setup (only 'make test' and 'make lint' need it)"),
		memfd(),
		futex(),
		mappings(o.Proc),
		processors(),
		memory(o.Proc),
		disk(o.Root),
	}
	if o.Simulator != nil {
		checks = append(checks, simulator(o.Simulator))
	}
	return checks
}

// Good reports whether nothing is missing.
func Good(checks []Check) bool {
	for _, c := range checks {
		if c.Status == Missing {
			return false
		}
	}
	return true
}

func checkout(root string) Check {
	c := Check{Name: "checkout", Want: "run inside a checkout of HVIA", Found: root, Status: OK}
	if root == "" {
		c.Found, c.Status, c.Fix = "none above the working directory", Missing, "cd into the checkout"
	}
	return c
}

// path checks that make can build at the checkout's path.
func path(root string) Check {
	c := Check{Name: "path", Want: "a checkout's path without spaces and characters that make or its shell interpret", Found: root, Status: OK}
	if root == "" {
		c.Found = "no checkout"
	} else if err := verilate.CheckPath(root); err != nil {
		c.Found, c.Status, c.Fix = err.Error(), Missing, "move the checkout"
	}
	return c
}

// golang requires the version of the checkout's go.mod. Outside of a checkout
// any version passes.
func golang(ctx context.Context, root string) Check {
	const fix = "install it as https://go.dev/doc/install says"
	var body []byte
	if root != "" {
		body, _ = os.ReadFile(filepath.Join(root, "go.mod"))
	}
	m := goDirective.FindSubmatch(body)
	if m == nil {
		c := program(ctx, "go", "version", "0", Missing, fix)
		c.Want = "the version that go.mod of the checkout names"
		return c
	}
	return program(ctx, "go", "version", string(m[1]), Missing, fix)
}

var goDirective = regexp.MustCompile(`(?m)^go (\d+(?:\.\d+)*)$`)

var versionNumber = regexp.MustCompile(`\d+(\.\d+)*`)

// program runs a tool for its version: a wrapper on PATH may exist without its
// tool.
func program(ctx context.Context, name, versionFlag, want string, absent Status, fix string) Check {
	c := Check{Name: name, Want: want + " or newer", Status: OK}
	out, err := output(ctx, name, versionFlag)
	if err != nil {
		c.Found, c.Status, c.Fix = err.Error(), absent, fix
		return c
	}
	c.Found = versionNumber.FindString(out)
	if c.Found == "" || !AtLeast(c.Found, want) {
		if c.Found == "" {
			c.Found = fmt.Sprintf("'%s %s' printed no version", name, versionFlag)
		}
		c.Status, c.Fix = absent, fix
	}
	return c
}

// output runs a short command and returns what it printed.
func output(ctx context.Context, name string, args ...string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("not on PATH")
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, args...).Output()
	if err != nil {
		return "", fmt.Errorf("'%s %s' failed: %w", name, strings.Join(args, " "), err)
	}
	return string(out), nil
}

// AtLeast compares dotted version numbers part by part.
func AtLeast(have, want string) bool {
	h, w := strings.Split(have, "."), strings.Split(want, ".")
	for i := range w {
		var a, b int
		if i < len(h) {
			a, _ = strconv.Atoi(h[i])
		}
		b, _ = strconv.Atoi(w[i])
		if a != b {
			return a > b
		}
	}
	return true
}

// builder looks for the Verilator that builds simulators.
func builder(root string) Check {
	c := Check{Name: "builder", Want: "the Verilator that tools/requirements.txt pins: simulators run faster, with the same results", Status: OK}
	tool, err := verilate.Find(root)
	if err != nil {
		c.Found, c.Status, c.Fix = err.Error(), Missing, "make setup"
		return c
	}
	if c.Found = "Verilator " + tool.Version; !tool.Pinned() {
		c.Status, c.Fix = Warning, "make setup (it needs a network)"
	}
	return c
}

// header checks that g++ finds a library's header.
func header(ctx context.Context, name, want string, otherwise Status) Check {
	c := Check{Name: name, Want: want, Status: OK, Found: name + ".h"}
	fail := func(found string) Check {
		c.Found, c.Status, c.Fix = found, otherwise, "make setup"
		return c
	}
	path, err := exec.LookPath("g++")
	if err != nil {
		return fail("cannot tell without g++")
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-E", "-x", "c++", "-")
	cmd.Stdin = strings.NewReader("#include <" + name + ".h>\n")
	if err := cmd.Run(); err != nil {
		return fail("no " + name + ".h")
	}
	return c
}

func memfd() Check {
	c := Check{Name: "memfd", Want: "sealed shared memory", Found: "works", Status: OK}
	fd, err := unix.MemfdCreate("hvia-doctor", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err == nil {
		defer unix.Close(fd)
		err = unix.Ftruncate(fd, 4096)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	}
	if err == nil {
		var page []byte
		if page, err = unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
			err = unix.Munmap(page)
		}
	}
	if err != nil {
		c.Found, c.Status = err.Error(), Missing
		c.Fix = "allow memfd_create and shared mmap (a container's seccomp profile may forbid them)"
	}
	return c
}

func futex() Check {
	c := Check{Name: "futex", Want: "futex on shared memory", Found: "works", Status: OK}
	if err := futexWake(); err != nil {
		c.Found, c.Status = err.Error(), Missing
		c.Fix = "allow the futex system call (a container's seccomp profile may forbid it)"
	}
	return c
}

func mappings(proc string) Check {
	c := Check{Name: "mappings", Want: fmt.Sprintf("vm.max_map_count of %d or more", wantMappings), Status: OK}
	b, err := os.ReadFile(filepath.Join(proc, "sys/vm/max_map_count"))
	n := 0
	if err == nil {
		n, err = strconv.Atoi(strings.TrimSpace(string(b)))
	}
	if err != nil {
		c.Found, c.Status, c.Fix = "unknown: "+err.Error(), Warning, "mount procfs, so that the limit can be read"
		return c
	}
	c.Found = strconv.Itoa(n)
	if n < wantMappings {
		c.Status, c.Fix = Missing, "sudo sysctl -w vm.max_map_count=65530"
	}
	return c
}

func processors() Check {
	n := runtime.NumCPU()
	c := Check{Name: "processors", Want: "2 or more", Found: strconv.Itoa(n), Status: OK}
	if n < 2 {
		c.Status, c.Fix = Warning, "give this machine another processor: results stay the same, runs take about twice as long"
	}
	return c
}

func memory(proc string) Check {
	c := Check{Name: "memory", Want: gib(wantMemory) + " available", Status: OK}
	b, err := os.ReadFile(filepath.Join(proc, "meminfo"))
	if err != nil {
		c.Found, c.Status, c.Fix = "unknown: "+err.Error(), Warning, "mount procfs, so that it can be read"
		return c
	}
	var kib uint64
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemAvailable:" {
			kib, _ = strconv.ParseUint(f[1], 10, 64)
		}
	}
	c.Found = gib(kib << 10)
	if kib<<10 < wantMemory {
		c.Status, c.Fix = Warning, "end other programs before a build of the simulator"
	}
	return c
}

func disk(root string) Check {
	c := Check{Name: "disk", Want: gib(wantDisk) + " free in the checkout", Status: OK}
	dir := root
	if dir == "" {
		dir = "."
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		c.Found, c.Status, c.Fix = "unknown: "+err.Error(), Warning, "check that the checkout can be read"
		return c
	}
	free := st.Bavail * uint64(st.Bsize)
	c.Found = gib(free)
	if free < wantDisk {
		c.Status, c.Fix = Warning, "free some space: 'make clean' and 'go clean -cache' remove what can be built again"
	}
	return c
}

func simulator(state func() (string, bool, error)) Check {
	c := Check{Name: "simulator", Want: "built for these sources", Status: OK}
	path, built, err := state()
	switch {
	case err != nil:
		c.Found, c.Status, c.Fix = err.Error(), Warning, "fix what is missing above, then 'make build'"
	case !built:
		c.Found, c.Status, c.Fix = "not built", Warning, "make build (the first run builds it too)"
	default:
		c.Found = path
	}
	return c
}

func gib(bytes uint64) string {
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}
