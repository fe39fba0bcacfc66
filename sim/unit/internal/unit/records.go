// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hvia/layout"
	"hvia/sim"
	"hvia/sim/verilate"
)

// Simulator builds the simulator without the card, with bugs in it.
func Simulator(t *testing.T, mutants ...verilate.Mutant) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	program, err := sim.EchoSimulator(ctx, mutants...)
	check(t, err)
	return program
}

// Records is what a simulator records in files: its trace and the frames on its
// wires.
type Records struct{ trace, frames string }

// NewRecords chooses the files.
func NewRecords(t *testing.T) Records {
	t.Helper()
	dir := t.TempDir()
	return Records{filepath.Join(dir, "trace"), filepath.Join(dir, "frames")}
}

// Arguments are the simulator's arguments, and further ones.
func (r Records) Arguments(more ...string) []string {
	return append([]string{"--trace", r.trace, "--frames", r.frames}, more...)
}

// Trace returns the events in the order of the file.
func (r Records) Trace(t *testing.T) (events []layout.TraceRecord) {
	t.Helper()
	b, err := os.ReadFile(r.trace)
	check(t, err)
	for ; len(b) > 0; b = b[layout.TraceRecordSize:] {
		events = append(events, layout.TraceRecord(b[:layout.TraceRecordSize]))
	}
	return events
}

// Frame is a frame on a wire.
type Frame struct {
	layout.FrameRecord
	Bytes []byte
}

// Frames returns the frames in the order of the file.
func (r Records) Frames(t *testing.T) (frames []Frame) {
	t.Helper()
	b, err := os.ReadFile(r.frames)
	check(t, err)
	for len(b) > 0 {
		f := layout.FrameRecord(b[:layout.FrameRecordSize])
		end := layout.FrameRecordSize + int(f.Length())
		frames = append(frames, Frame{f, b[layout.FrameRecordSize:end]})
		b = b[end:]
	}
	return frames
}
