// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"hvia/sim"
)

// ErrOutput is wrapped by errors about an output file that cannot be written.
var ErrOutput = errors.New("cannot be written")

// Recording is what the simulator records of one run: trace events for the
// report, and frames and waves on request.
type Recording struct {
	Dir      string // temporary files
	lock     *os.File
	PcapFile string
	waveFile string
}

// Record creates the files first, so that a mistyped name fails before the run
// and not after it.
func Record(pcapFile, waveFile string) (*Recording, error) {
	files := []string{}
	if pcapFile != "" {
		files = append(files, pcapFile)
	}
	if waveFile != "" {
		for n := range 2 {
			files = append(files, WaveOf(waveFile, n))
		}
	}
	for _, name := range files {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return nil, fmt.Errorf("file %s %w: %w", name, ErrOutput, err)
		}
		f.Close()
	}
	removeAbandoned()
	dir, lock, err := lockedDirectory()
	if err != nil {
		return nil, fmt.Errorf("a directory for the trace %w: %w (set TMPDIR to another place)", ErrOutput, err)
	}
	return &Recording{dir, lock, pcapFile, waveFile}, nil
}

func (r *Recording) Remove() {
	_ = os.RemoveAll(r.Dir)
	_ = os.Remove(r.lock.Name())
	_ = r.lock.Close()
}

// A recording's directory is DIR, and its lock the file DIR.lock, which lasts
// as long as the process.
const (
	recordingName = "hvia-bench-"
	lockSuffix    = ".lock"
)

func lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// lockedDirectory makes a directory for a recording, after its lock.
func lockedDirectory() (string, *os.File, error) {
	for {
		f, err := os.CreateTemp("", recordingName+"*"+lockSuffix)
		if err != nil {
			return "", nil, err
		}
		if err = lock(f); err == nil {
			_, err = os.Stat(f.Name())
		}
		if err == nil {
			dir := strings.TrimSuffix(f.Name(), lockSuffix)
			return dir, f, os.Mkdir(dir, 0o700)
		}
		_ = f.Close()
		// Another process has just removed it as abandoned.
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, os.ErrNotExist) {
			return "", nil, err
		}
	}
}

// removeAbandoned removes the recordings of killed processes, whose locks are
// free. Those of other users cannot be opened.
func removeAbandoned() {
	names, err := filepath.Glob(filepath.Join(os.TempDir(), recordingName+"*"+lockSuffix))
	if err != nil {
		return
	}
	for _, name := range names {
		f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if lock(f) == nil {
			_ = os.RemoveAll(strings.TrimSuffix(name, lockSuffix))
			_ = os.Remove(name)
		}
		_ = f.Close()
	}
}

func (r *Recording) trace() string  { return filepath.Join(r.Dir, "trace") }
func (r *Recording) Frames() string { return filepath.Join(r.Dir, "frames") }

// Into sets a fabric up for this recording.
func (r *Recording) Into(c *sim.Config) {
	c.Arguments = append(c.Arguments, "--trace", r.trace())
	if r.PcapFile != "" {
		c.Arguments = append(c.Arguments, "--frames", r.Frames())
	}
	if r.waveFile != "" {
		c.Wave = waveStem(r.waveFile)
	}
}

// Events returns the events of a finished run.
func (r *Recording) Events() ([]TraceEvent, error) { return ReadTrace(r.trace()) }

// WritePcap writes the capture of a finished run, if one was requested.
func (r *Recording) WritePcap(profile string, seed uint64) error {
	if r.PcapFile == "" {
		return nil
	}
	return writePcap(r.PcapFile, r.Frames(), fmt.Sprintf("profile %s, seed %d, simulated time from 1970-01-01", profile, seed))
}

// waveStem is the stem to which the simulator appends a node's name and ".fst".
func waveStem(file string) string { return strings.TrimSuffix(file, ".fst") }

// WaveOf is the file that the waves of a node's card go to.
func WaveOf(file string, node int) string { return waveStem(file) + "." + nodeName(node) + ".fst" }
