// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
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
	_ = r.lock.Close()
}

const recordingName = "hvia-bench-"

// lockDirectory locks a directory by a file in it, if it is unlocked. It does
// not lock the directory itself: the simulator does that while it makes a
// socket there.
func lockDirectory(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "owner"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// lockedDirectory makes a directory for a recording. Its lock lasts as long as
// this process, which distinguishes it from one of a killed process.
func lockedDirectory() (string, *os.File, error) {
	for {
		dir, err := os.MkdirTemp("", recordingName)
		if err != nil {
			return "", nil, err
		}
		lock, err := lockDirectory(dir)
		if err == nil {
			if _, err = os.Stat(dir); err == nil {
				return dir, lock, nil
			}
			_ = lock.Close()
		}
		// Another process has just taken it for an abandoned one.
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, os.ErrNotExist) {
			return "", nil, err
		}
	}
}

func removeAbandoned() {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), recordingName+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		var s unix.Stat_t
		if unix.Lstat(dir, &s) != nil || int(s.Uid) != os.Getuid() {
			continue
		}
		if lock, err := lockDirectory(dir); err == nil {
			_ = os.RemoveAll(dir)
			_ = lock.Close()
		}
	}
}

func (r *Recording) trace() string  { return filepath.Join(r.Dir, "trace") }
func (r *Recording) Frames() string { return filepath.Join(r.Dir, "frames") }

// Arguments are the simulator's flags for this recording.
func (r *Recording) Arguments() []string {
	args := []string{"--trace", r.trace()}
	if r.PcapFile != "" {
		args = append(args, "--frames", r.Frames())
	}
	if r.waveFile != "" {
		args = append(args, "--wave", waveStem(r.waveFile))
	}
	return args
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
