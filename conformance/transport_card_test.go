// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/bench/rig"
	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/vipl"
)

// cardRun runs programs on two simulated cards, over a link with fault
// injection.
type cardRun struct {
	faults    string // the format of sim.ParseWireFaults
	transport driver.Transport
	program   string // path of a simulator with injected bugs
	arguments []string
	recorded  bool          // keep trace and frames
	limit     time.Duration // wall time; 5 minutes if 0
}

// cardRecord is the record of a run.
type cardRecord struct {
	digest bridge.Digest
	events []rig.TraceEvent
	frames []wireFrame
}

// wireFrame is a frame that a node sent.
type wireFrame struct {
	at     host.Time
	from   int
	faults uint16 // bit n: layout.WireFault n hit it
	bytes  []byte
}

func (f wireFrame) via() (layout.ViaHeader, bool) {
	if !conformtest.IsVIA(f.bytes) {
		return nil, false
	}
	return layout.ViaHeader(f.bytes[layout.EthernetHeaderSize:]), true
}

func (f wireFrame) lost() bool {
	return f.faults&(1<<layout.WireFaultDrop|1<<layout.WireFaultCut|1<<layout.WireFaultLink) != 0
}

func frameOperation(h layout.ViaHeader) layout.FrameOperation {
	return layout.FrameOperation(h.OperationVersion() & layout.ViaHeaderOperationVersionOperationMask >> layout.ViaHeaderOperationVersionOperationLsb)
}

// try runs programs and returns what they did.
func (c cardRun) try(t *testing.T, list ...fabric.Program) (*cardRecord, error) {
	t.Helper()
	limit := c.limit
	if limit == 0 {
		limit = 5 * time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	dir, r := t.TempDir(), &cardRecord{}
	trace, frames := filepath.Join(dir, "trace"), filepath.Join(dir, "frames")
	cfg := fabric.RunConfig{Seed: conformtest.Seed(t), Transport: c.transport, Finished: func(f *sim.Fabric) (err error) {
		r.digest, err = f.Digest(ctx)
		return err
	}}
	var err error
	if cfg.Fabric.Faults, err = sim.ParseWireFaults(c.faults); err != nil {
		return nil, err
	}
	cfg.Fabric.Program = c.program
	cfg.Fabric.Arguments = c.arguments
	if c.recorded {
		cfg.Fabric.Arguments = append([]string{"--trace", trace, "--frames", frames}, c.arguments...)
	}
	if err := fabric.Run(ctx, cfg, list...); err != nil || !c.recorded {
		if err != nil {
			err = fmt.Errorf("faults %q, replay with HVIA_SEED=%d: %w", c.faults, cfg.Seed, err)
		}
		return r, err
	}
	if r.events, err = rig.ReadTrace(trace); err != nil {
		return r, err
	}
	r.frames, err = readFrames(frames)
	return r, err
}

// must is try for a run that has to succeed.
func (c cardRun) must(t *testing.T, mains ...Main) *cardRecord {
	t.Helper()
	r, err := c.try(t, Programs(mains...)...)
	require.NoError(t, err)
	require.True(t, r.digest.Reproducible)
	return r
}

// readFrames reads a frame file of the simulator, sorted by time.
func readFrames(name string) (frames []wireFrame, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in, head := bufio.NewReader(f), make(layout.FrameRecord, layout.FrameRecordSize)
	for {
		if _, err := io.ReadFull(in, head); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("frame %d of %s: %w", len(frames), name, err)
		}
		b := make([]byte, head.Length())
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, fmt.Errorf("frame %d of %s: %w", len(frames), name, err)
		}
		frames = append(frames, wireFrame{host.Time(head.Time()), int(head.Source()), head.Faults(), b})
	}
	slices.SortStableFunc(frames, func(a, b wireFrame) int { return cmp.Compare(a.at, b.at) })
	return frames, nil
}

// done counts the frames of a direction that met a kind of fault.
func (r *cardRecord) done(from int, kind layout.WireFault) uint64 {
	return r.digest.Wire[from].Faults[kind]
}

// sentBy returns the frames of the given kinds that a node's VI sent.
func (r *cardRecord) sentBy(node, vi int, kinds ...layout.FrameOperation) (out []wireFrame) {
	for _, f := range r.frames {
		if h, ok := f.via(); ok && f.from == node && int(h.SourceVI()&0xff) == vi && slices.Contains(kinds, frameOperation(h)) {
			out = append(out, f)
		}
	}
	return out
}

// traced returns the events of one kind of a node's VI.
func (r *cardRecord) traced(node, vi int, kind layout.TraceEvent) (out []rig.TraceEvent) {
	for _, e := range r.events {
		if e.Node == node && e.VI == vi && e.Event == kind {
			out = append(out, e)
		}
	}
	return out
}

// busClock is the period of the system bus, which the card's timers count.
const busClock = host.Time(params.SystemClockPeriod)

// reliableRights are the attributes of a VI of a reliable level with all
// rights.
func reliableRights(level vipl.ReliabilityLevel) vipl.VIAttributes {
	return vipl.VIAttributes{ReliabilityLevel: level, EnableRDMAWrite: true, EnableRDMARead: true}
}

// atReliableLevels runs a test at each reliable level.
func atReliableLevels(t *testing.T, test func(t *testing.T, level vipl.ReliabilityLevel)) {
	conformtest.NeedsSimulator(t)
	for _, l := range reliableLevels {
		t.Run(l.name, func(t *testing.T) { test(t, l.level) })
	}
}

// counters reads counters of the card.
func (e *Env) counters(list ...layout.Counter) (map[layout.Counter]uint32, error) {
	out := map[layout.Counter]uint32{}
	for _, c := range list {
		n := must(e.NIC.Counter(e.T, c))
		out[c] = n
	}
	return out, nil
}

// counted checks counters.
func (e *Env) counted(what string, want map[layout.Counter]uint32) error {
	for c := range layout.Counter(128) {
		n, listed := want[c]
		if !listed {
			continue
		}
		got := must(e.NIC.Counter(e.T, c))
		e.That(fmt.Sprintf("%s: counter %v is %d, want %d", what, c, got, n), got == n)
	}
	return nil
}
