// SPDX-License-Identifier: Apache-2.0

// Package sim builds, starts, joins and ends the fabric simulator, the process
// with the simulated cards and the wire. Programs use a fabric through packages
// driver and vipl.
package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hvia/sim/bridge"
)

// Mode is how a fabric keeps time.
type Mode string

// Time modes.
const (
	// Timed: every host thread has a virtual clock, and runs repeat exactly.
	Timed Mode = "timed"
	// Free: the simulator runs whenever there is work.
	Free Mode = "free"
)

// startLimit bounds the wait for the simulator's first word.
const startLimit = 20 * time.Second

// quitLimit is how long the simulator may take to end before it is killed.
const quitLimit = 5 * time.Second

// ErrStart is returned when the simulator ended before it was ready.
var ErrStart = errors.New("simulator did not start")

// How a simulator may end by itself, besides other failures.
var (
	// ErrRejected: it rejected its settings. The error's text names the
	// setting.
	ErrRejected = errors.New("the simulator rejected its settings")
	// ErrOutput: it could not write a requested file.
	ErrOutput = errors.New("the simulator could not write a file")
)

// Exit codes of the simulator.
const (
	exitRejected = 2
	exitOutput   = 3
)

// maxSocketPath is the maximum length of a Unix socket's path in bytes.
const maxSocketPath = 107

// exitError is the end of a simulator that reported the cause.
type exitError struct {
	text  string
	kinds []error
}

func (e *exitError) Error() string   { return e.text }
func (e *exitError) Unwrap() []error { return e.kinds }

// explained returns the simulator's report if a user requires no more.
func (c *child) explained() *exitError {
	var exit *exec.ExitError
	if !errors.As(c.err, &exit) {
		return nil
	}
	kind := map[int]error{exitRejected: ErrRejected, exitOutput: ErrOutput}[exit.ExitCode()]
	line, _, _ := strings.Cut(c.output.String(), "\n")
	text, ours := strings.CutPrefix(line, "hvia-sim: ")
	if kind == nil || !ours {
		return nil
	}
	return &exitError{text, []error{kind}}
}

// Node is one simulated host with its card.
type Node struct {
	Kind string // "card"; "nic" is a plain NIC without VIA, "echo" a test device
	Name string
}

// Thread declares a participant of a timed run: its time 0 is the moment at
// which all declared threads have attached.
type Thread struct {
	Node int
	Rank int // identifies a thread of a node and orders actions at one instant
	Name string
}

// Checks are for those who doubt the simulator. They slow it and change no
// result.
type Checks struct {
	Checkers bool // the assertions of the RTL are built in, and stop a run that violates one
	NoSkip   bool // clock edges at which nothing can change are simulated, too
}

// Config describes a fabric. The zero value of a field takes the default.
type Config struct {
	Mode        Mode // Timed
	Nodes       []Node
	Switch      bool     // two nodes get a switch, not a cable; more nodes always do
	Threads     []Thread // required in timed mode
	MemoryBytes int64    // host memory of each node: 256 MiB
	Profile     string   // set of parameters: hvia-ge
	// Params replaces parameters of class model (package params) for this run.
	// The simulator rejects other parameters, and invalid values.
	Params     map[string]int64
	Seed       uint64 // of all randomness in the models: 1
	SpareSlots int    // for threads that were not declared: 16
	// Faults are injected into the wire. Without faults it delivers all frames.
	Faults WireFaults

	// SocketPath is where other processes join; a private one if empty.
	SocketPath string

	StuckLimit time.Duration // wall time a timed thread may run without a call: 10 s
	// StallLimit is the wall time for which a guest's threads may run while
	// simulated time advances by less than 1 us: 30 s. Then the guest ends, not
	// the run.
	StallLimit time.Duration
	StartLimit time.Duration // wall time until all declared threads have attached: 60 s
	// Guests: this process owns the fabric, no other process can join by its
	// path, and other processes come as guests (bridge.Conn.NewGuest,
	// bridge.Join). When nothing can move in a timed run, the run waits for
	// another guest.
	Guests          bool
	ContinueOnDeath bool // when a process dies, the others continue

	Checks
	// Wave is the stem of the cards' FST files, STEM.<node name>.fst; none if
	// empty.
	Wave string

	Program   string   // path of the simulator; if empty, that of the profile, built from the checkout
	Arguments []string // further arguments for it

	Process  string // name of this process in messages
	MapNodes []int  // nodes whose memory this process maps: nil means all
}

// Fabric is a running simulator and this process's connection to it.
type Fabric struct {
	path   string
	conn   *bridge.Conn
	child  *child // nil when another process owns the simulator
	tmpDir string

	closeOnce sync.Once
	closeErr  error
}

// Start starts a simulator and joins it. The simulator ends with Close, with
// this process, or when the context ends.
func Start(ctx context.Context, cfg Config) (*Fabric, error) {
	f := &Fabric{path: cfg.SocketPath}
	if f.path == "" {
		dir, err := os.MkdirTemp("", "hvia-")
		if err != nil {
			return nil, fmt.Errorf("sim: start: %w", err)
		}
		f.tmpDir, f.path = dir, filepath.Join(dir, "fabric.sock")
	}
	fail := func(err error) (*Fabric, error) {
		if f.child != nil {
			f.child.end()
		}
		f.removeFiles()
		return nil, err
	}
	if len(f.path) > maxSocketPath {
		return fail(fmt.Errorf("sim: start: the path of socket %s has %d bytes, at most %d are possible: set TMPDIR to a directory with a shorter path: %w",
			f.path, len(f.path), maxSocketPath, unix.ENAMETOOLONG))
	}
	program := cfg.Program
	if program == "" {
		var err error
		if program, err = cfg.Build().Program(ctx); err != nil {
			return fail(err)
		}
	}
	args, err := arguments(cfg, f.path)
	if err != nil {
		return fail(fmt.Errorf("sim: start: %w", err))
	}
	if f.tmpDir != "" {
		// Removes the directory even if this process is killed.
		args = append(args, "--private-directory", "yes")
	}
	if f.child, err = startChild(ctx, program, args); err != nil {
		return fail(err)
	}
	f.conn, err = bridge.Dial(ctx, f.path, bridge.Options{Name: cfg.Process, Profile: cfg.Profile, Nodes: cfg.MapNodes, Explain: f.child.explain})
	if err != nil {
		return fail(err)
	}
	return f, nil
}

// Build is the simulator's build that the fabric needs.
func (c Config) Build() Build { return Build{Profile: c.Profile, Full: c.Checkers || c.Wave != ""} }

// switched reports whether a switch connects the nodes.
func (c Config) switched() bool { return c.Switch || len(c.Nodes) > 2 }

func arguments(cfg Config, path string) ([]string, error) {
	args := []string{"--socket", path}
	add := func(name, value string) { args = append(args, name, value) }
	if cfg.Switch {
		add("--switch", "yes")
	}
	if cfg.Mode != "" {
		add("--mode", string(cfg.Mode))
	}
	for _, n := range cfg.Nodes {
		add("--node", n.Kind+":"+n.Name)
	}
	for _, t := range cfg.Threads {
		add("--thread", fmt.Sprintf("%d,%d,%s", t.Node, t.Rank, t.Name))
	}
	for _, o := range []struct {
		name  string
		value int64
	}{
		{"--memory", cfg.MemoryBytes}, {"--spare-slots", int64(cfg.SpareSlots)},
		{"--stuck-ms", cfg.StuckLimit.Milliseconds()}, {"--stall-ms", cfg.StallLimit.Milliseconds()}, {"--start-ms", cfg.StartLimit.Milliseconds()},
	} {
		if o.value != 0 {
			add(o.name, strconv.FormatInt(o.value, 10))
		}
	}
	if cfg.Seed != 0 {
		add("--seed", strconv.FormatUint(cfg.Seed, 10))
	}
	if cfg.Profile != "" {
		add("--profile", cfg.Profile)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Params)) {
		add("--param", name+"="+strconv.FormatInt(cfg.Params[name], 10))
	}
	if cfg.NoSkip {
		add("--no-skip", "1")
	}
	if cfg.Wave != "" {
		add("--wave", cfg.Wave)
	}
	if cfg.Guests {
		add("--guests", "yes")
	}
	if cfg.ContinueOnDeath {
		add("--on-death", "continue")
	}
	faults, err := cfg.Faults.arguments(len(cfg.Nodes), cfg.switched())
	if err != nil {
		return nil, err
	}
	return slices.Concat(args, faults, cfg.Arguments), nil
}

// Attach joins a fabric that another process started.
func Attach(ctx context.Context, path string, o bridge.Options) (*Fabric, error) {
	conn, err := bridge.Dial(ctx, path, o)
	if err != nil {
		return nil, err
	}
	return &Fabric{path: path, conn: conn}, nil
}

// Path is the control socket's path, for Attach.
func (f *Fabric) Path() string { return f.path }

// Conn is this process's connection.
func (f *Fabric) Conn() *bridge.Conn { return f.conn }

// Pid is the simulator's process id, 0 if another process owns it.
func (f *Fabric) Pid() int {
	if f.child == nil {
		return 0
	}
	return f.child.cmd.Process.Pid
}

// Digest requests the digest of the run so far. The reply comes when the fabric
// is idle.
func (f *Fabric) Digest(ctx context.Context) (bridge.Digest, error) { return f.conn.Digest(ctx) }

// Close leaves the fabric. If this process started it, Close ends the simulator
// and removes its files. Waiting threads get bridge.ErrClosed. In a process
// that was forked from the one that started or joined the fabric, Close only
// returns bridge.ErrForked.
func (f *Fabric) Close() error {
	if err := f.conn.Err(); errors.Is(err, bridge.ErrForked) {
		return err
	}
	f.closeOnce.Do(func() {
		f.closeErr = f.conn.Close()
		if f.child != nil {
			f.closeErr = errors.Join(f.closeErr, f.child.end())
			if f.child.killed() {
				// A killed simulator left its socket. After a clean end the
				// path may belong to another simulator.
				_ = os.Remove(f.path)
			}
			f.removeFiles()
		}
	})
	return f.closeErr
}

func (f *Fabric) removeFiles() {
	if f.tmpDir != "" {
		_ = os.RemoveAll(f.tmpDir)
	}
}

// child is the simulator's process.
type child struct {
	cmd    *exec.Cmd
	owner  *os.File // closing it ends the run: the child has the other end
	output *tailBuffer
	done   chan struct{} // closed when the process is gone
	err    error         // its result, valid after done
	asked  chan struct{} // closed when this process asked it to end
	once   sync.Once
}

func startChild(ctx context.Context, program string, args []string) (*child, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("sim: start %s: %w", program, err)
	}
	// Non-blocking, so that the file supports deadlines.
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return nil, fmt.Errorf("sim: start %s: %w", program, err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "owner"), os.NewFile(uintptr(pair[1]), "owned")
	c := &child{owner: ours, output: &tailBuffer{}, done: make(chan struct{}), asked: make(chan struct{})}
	c.cmd = exec.Command(program, append(args, "--owner-fd", "3")...)
	c.cmd.ExtraFiles = []*os.File{theirs}
	// A failing assertion of the RTL prints to standard output.
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	started := make(chan error, 1)
	go func() {
		// The parent-death signal is sent when the thread that forked ends, so
		// that thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		theirs.Close()
		started <- err
		if err != nil {
			return
		}
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	if err := <-started; err != nil {
		ours.Close()
		return nil, fmt.Errorf("sim: start %s: %w", program, err)
	}
	if err := c.awaitReady(ctx); err != nil {
		_ = c.end()
		if e := c.explained(); e != nil {
			e.kinds = append(e.kinds, ErrStart)
			return nil, e
		}
		return nil, fmt.Errorf("sim: start %s %s: %w", program, strings.Join(args, " "), err)
	}
	go c.superviseContext(ctx)
	return c, nil
}

func (c *child) awaitReady(ctx context.Context) error {
	_ = c.owner.SetReadDeadline(time.Now().Add(startLimit))
	stop := context.AfterFunc(ctx, func() { _ = c.owner.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var word [16]byte
	n, err := c.owner.Read(word[:])
	if err == nil && strings.HasPrefix(string(word[:n]), "ready") {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrStart, context.Cause(ctx))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w within %v: %s", ErrStart, startLimit, c.output)
	}
	select {
	case <-c.done: // its end of the pair is closed, so it is gone or going
		return fmt.Errorf("%w: %v: %s", ErrStart, c.err, c.output)
	case <-time.After(quitLimit):
		return fmt.Errorf("%w: it closed its end without a word: %s", ErrStart, c.output)
	}
}

// superviseContext ends the run with the context.
func (c *child) superviseContext(ctx context.Context) {
	select {
	case <-ctx.Done():
		c.once.Do(func() { close(c.asked) })
		c.owner.Close()
	case <-c.asked:
	case <-c.done:
	}
}

// end asks the simulator to end, kills it after quitLimit, and waits.
func (c *child) end() error {
	c.once.Do(func() { close(c.asked) })
	c.owner.Close()
	timer := time.NewTimer(quitLimit)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		_ = c.cmd.Process.Kill()
		<-c.done
		return fmt.Errorf("sim: end the simulator (process %d): it did not end within %v and was killed: %s", c.cmd.Process.Pid, quitLimit, c.output)
	}
	if c.killed() && !c.crashed() {
		// Another process ended it, and its threads know. No files remain.
		return nil
	}
	if e := c.explained(); e != nil {
		return e
	}
	if c.err != nil {
		return fmt.Errorf("sim: end the simulator (process %d): %w: %s", c.cmd.Process.Pid, c.err, c.output)
	}
	return nil
}

// killed reports whether a signal ended the process.
func (c *child) killed() bool {
	var exit *exec.ExitError
	if !errors.As(c.err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

// crashed reports whether the process caused the signal itself.
func (c *child) crashed() bool {
	var exit *exec.ExitError
	if !errors.As(c.err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && slices.Contains([]syscall.Signal{syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGABRT, syscall.SIGFPE, syscall.SIGILL}, status.Signal())
}

// explain describes the end of the simulator, for errors of its clients.
func (c *child) explain() string {
	select {
	case <-c.done:
	case <-time.After(time.Second): // its socket closes before the process ends
		return ""
	}
	text := "it ended cleanly"
	if c.err != nil {
		text = "it ended with " + c.err.Error()
	}
	if s := c.output.String(); s != "" {
		text += "; its last words: " + s
	}
	return text
}

// tailBuffer keeps the last bytes written to it.
type tailBuffer struct {
	mu sync.Mutex
	b  []byte
}

const tailBytes = 8192

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > tailBytes {
		t.b = append([]byte(nil), t.b[len(t.b)-tailBytes:]...)
	}
	return len(p), nil
}

func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.b))
}
