// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/costs"
	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/vipl"
)

// Schema names the format of a Matrix in JSON.
const Schema = "hvia-fault-matrix/2"

// Config selects the cells of the matrix, and the card.
type Config struct {
	Profile    string
	Seed       uint64
	Kinds      []string // of Kinds
	Levels     []string // of Levels
	Operations []string // of Operations
	sim.Checks

	// Progress, if not nil, receives what has been done. It must not block.
	Progress func(rig.Progress)

	program string // a simulator with an injected bug, for tests
}

// Matrix is every cell that was tried.
type Matrix struct {
	report.Envelope
	report.Parameters `json:"parameters"`
	Cells             []Cell `json:"results"`
}

// NewMatrix returns a matrix without cells.
func NewMatrix(c Config, h report.Hashes) *Matrix {
	return &Matrix{
		Envelope:   report.Envelope{Schema: Schema, Environment: h},
		Parameters: report.Parameters{Profile: c.Profile, Seed: c.Seed}, Cells: []Cell{},
	}
}

// Cell is one kind of fault that meets one operation at one reliability level.
type Cell struct {
	Kind      string  `json:"kind"`
	Level     string  `json:"level"`
	Operation string  `json:"operation"`
	Faults    string  `json:"faults"` // as --faults takes it
	Expected  Outcome `json:"expected"`
	Observed  Outcome `json:"observed"`
	OK        bool    `json:"ok"`
	report.Parts
}

// Outcome is what both programs see of three messages.
type Outcome struct {
	Sends     []string `json:"sends"`     // status of each descriptor of the initiator
	Receives  []string `json:"receives"`  // of each receive descriptor of the target, if any
	Memory    []string `json:"memory"`    // content of each destination buffer
	Initiator []string `json:"initiator"` // its asynchronous errors
	Target    []string `json:"target"`
	States    []string `json:"states"` // of the VIs of initiator and target before they disconnect
}

var (
	matrixKinds = []layout.WireFault{
		layout.WireFaultDrop, layout.WireFaultDuplicate, layout.WireFaultReorder, layout.WireFaultCorrupt, layout.WireFaultTruncate, layout.WireFaultDelay, layout.WireFaultCut,
	}
	matrixLevels = []struct {
		name  string
		level vipl.ReliabilityLevel
	}{{"unreliable", vipl.Unreliable}, {"reliable-delivery", vipl.ReliableDelivery}, {"reliable-reception", vipl.ReliableReception}}
	matrixOperations = []struct {
		name      string
		frame     layout.FrameOperation // that carries the data
		immediate bool
	}{
		{"send", layout.FrameOperationSend, false}, {"rdma-write", layout.FrameOperationRDMAWrite, false},
		{"rdma-write-immediate", layout.FrameOperationRDMAWrite, true}, {"rdma-read", layout.FrameOperationRDMAReadResponse, false},
	}
)

// Kinds returns the names of the kinds of faults.
func Kinds() (names []string) {
	for _, k := range matrixKinds {
		names = append(names, strings.ToLower(k.String()))
	}
	return names
}

// Levels returns the names of the reliability levels.
func Levels() (names []string) {
	for _, l := range matrixLevels {
		names = append(names, l.name)
	}
	return names
}

// Operations returns the names of the operations.
func Operations() (names []string) {
	for _, o := range matrixOperations {
		names = append(names, o.name)
	}
	return names
}

// DefaultConfig is the full matrix on the paper's card.
func DefaultConfig() Config {
	return Config{Profile: params.Profiles[0].Name, Seed: 1, Kinds: Kinds(), Levels: Levels(), Operations: Operations()}
}

// Validate rejects names that are not in the matrix.
func (c Config) Validate() error {
	if err := rig.CheckProfile(c.Profile); err != nil {
		return err
	}
	for _, axis := range []struct {
		what       string
		asked, all []string
	}{{"kind of fault", c.Kinds, Kinds()}, {"reliability level", c.Levels, Levels()}, {"operation", c.Operations, Operations()}} {
		if len(axis.asked) == 0 {
			return fmt.Errorf("%w: no %s: give at least one of %q", costs.ErrConfig, axis.what, axis.all)
		}
		for i, name := range axis.asked {
			if !slices.Contains(axis.all, name) {
				return fmt.Errorf("%w: no %s %q: there is %q", costs.ErrConfig, axis.what, name, axis.all)
			}
			if slices.Contains(axis.asked[:i], name) {
				return fmt.Errorf("%w: %s %s is listed twice", costs.ErrConfig, axis.what, name)
			}
		}
	}
	return nil
}

// Run tries each cell of the matrix on a separate fabric: three messages of
// three frames each, one after another, with the fault in the second. An
// outcome other than the expected one is not an error of Run.
func Run(ctx context.Context, c Config) (_ *Matrix, err error) {
	defer func() { err = rig.Stopped(ctx, "faults", err) }()
	hashes, err := rig.Environment(c, c.Profile)
	if err != nil {
		return nil, err
	}
	m := NewMatrix(c, hashes)
	b, err := costs.New(c.Profile, nil)
	if err != nil {
		return m, err
	}
	total := len(c.Kinds) * len(c.Levels) * len(c.Operations)
	for _, kind := range matrixKinds {
		for li, level := range matrixLevels {
			for oi, operation := range matrixOperations {
				name := strings.ToLower(kind.String())
				if !slices.Contains(c.Kinds, name) || !slices.Contains(c.Levels, level.name) || !slices.Contains(c.Operations, operation.name) {
					continue
				}
				cell := Cell{Kind: name, Level: level.name, Operation: operation.name, Faults: matrixFaults(kind, operation.frame)}
				if c.Progress != nil {
					c.Progress(rig.Progress{What: fmt.Sprintf("%s, %s, %s", name, level.name, operation.name), Done: len(m.Cells), Total: total})
				}
				x := &matrixRun{level: level.level, operation: oi, seed: c.Seed}
				if err := x.run(ctx, c, b, cell.Faults); err != nil {
					return m, fmt.Errorf("faults: %s at %s by %s: %w", name, level.name, operation.name, err)
				}
				cell.Expected, cell.Observed = expectedOutcome(kind, li, oi), x.seen
				cell.OK, cell.Parts = cell.Expected.same(cell.Observed), x.digest.Parts
				m.Cells = append(m.Cells, cell)
			}
		}
	}
	return m, nil
}

// Measured reports whether there is anything to print.
func (m *Matrix) Measured() bool { return len(m.Cells) > 0 }

// Failed returns an error if a cell is not as expected.
func (m *Matrix) Failed() error {
	if n := m.failed(); n > 0 {
		return fmt.Errorf("%d of %d cells are not as expected (seed %d)", n, len(m.Cells), m.Seed)
	}
	return nil
}

func (m *Matrix) failed() (n int) {
	for _, c := range m.Cells {
		if !c.OK {
			n++
		}
	}
	return n
}

func (o Outcome) same(p Outcome) bool {
	return slices.Equal(o.Sends, p.Sends) && slices.Equal(o.Receives, p.Receives) && slices.Equal(o.Memory, p.Memory) &&
		slices.Equal(o.Initiator, p.Initiator) && slices.Equal(o.Target, p.Target) && slices.Equal(o.States, p.States)
}

// Times of a cell's run. One or two timeouts fit between messages; the cut is
// longer than all timeouts together.
const (
	matrixMessages = 3
	matrixBytes    = 2*layout.MaxPayload + 56
	matrixBegin    = 20 * host.Millisecond
	matrixSecond   = matrixBegin + 3*host.Millisecond
	matrixThird    = matrixBegin + 100*host.Millisecond
	matrixLook     = matrixThird + 60*host.Millisecond
	matrixCutFrom  = matrixBegin + 2*host.Millisecond
	matrixCutTo    = matrixBegin + 70*host.Millisecond
	matrixPort     = "faults"
)

// matrixFaults is the fault of the second message: in its second frame, or from
// before the message until long after it.
func matrixFaults(kind layout.WireFault, frame layout.FrameOperation) string {
	direction := sim.FromNode0
	if frame == layout.FrameOperationRDMAReadResponse {
		direction = sim.FromNode1
	}
	f := sim.WireFault{Kind: kind, Direction: direction, Frames: sim.FrameSelection{Message: 2, Frame: 2, Operation: &frame}}
	switch kind {
	case layout.WireFaultDelay:
		f.Least, f.Most = 300*host.Microsecond, 300*host.Microsecond
	case layout.WireFaultCut:
		f.Direction, f.Frames = sim.BothDirections, sim.FrameSelection{From: matrixCutFrom, To: matrixCutTo}
	}
	return sim.WireFaults{Faults: []sim.WireFault{f}}.String()
}

// expectedOutcome is what VIA promises of a cell
// (docs/explanation/transport.md, and docs/reference/card.md for the unreliable
// level).
func expectedOutcome(kind layout.WireFault, level, operation int) Outcome {
	const well, cut, flushed = "done", "message cut off", "flushed"
	o := matrixOperations[operation]
	connected := []string{"Connected", "Connected"}
	receives := func(words ...string) []string {
		if o.frame == layout.FrameOperationSend || o.immediate {
			return words
		}
		return []string{}
	}
	all := Outcome{
		Sends: []string{well, well, well}, Receives: receives(well, well, well), Memory: []string{"message 1", "message 2", "message 3"},
		Initiator: []string{}, Target: []string{}, States: connected,
	}
	reliable := matrixLevels[level].level != vipl.Unreliable
	switch {
	case !reliable && o.frame == layout.FrameOperationRDMAReadResponse:
		all.Sends = []string{"malformed descriptor", "malformed descriptor", "malformed descriptor"}
		all.Memory = []string{"untouched", "untouched", "untouched"}
	case kind == layout.WireFaultDuplicate, kind == layout.WireFaultDelay:
	case reliable && kind == layout.WireFaultCut:
		lost := []string{layout.AsyncErrorConnectionLost.String()}
		all.Sends, all.Receives = []string{well, "transport error", flushed}, receives(well, flushed, flushed)
		all.Memory, all.Initiator, all.Target, all.States = []string{"message 1", "untouched", "untouched"}, lost, lost, []string{"Error", "Error"}
	case reliable:
	case kind == layout.WireFaultCut:
		all.Receives, all.Memory = receives(well, well, flushed), []string{"message 1", "untouched", "message 3"}
		if o.frame == layout.FrameOperationSend { // the third arrives in the buffer of the second
			all.Memory = []string{"message 1", "message 3", "untouched"}
		}
	default: // a frame in the middle is missing
		all.Receives, all.Memory = receives(well, cut, well), []string{"message 1", fmt.Sprintf("%d bytes of message 2", layout.MaxPayload), "message 3"}
		if len(all.Receives) == 0 {
			all.Target = []string{layout.AsyncErrorRDMAWriteAbort.String()}
		}
	}
	return all
}

// matrixRun has the two programs of a cell.
type matrixRun struct {
	level     vipl.ReliabilityLevel
	operation int
	seed      uint64
	seen      Outcome
	digest    rig.RunDigest
}

func (x *matrixRun) run(ctx context.Context, c Config, b costs.Board, faults string) error {
	cfg := sim.Config{Profile: c.Profile, Seed: c.Seed, Program: c.program, Checks: c.Checks}
	var err error
	if cfg.Faults, err = sim.ParseWireFaults(faults); err != nil {
		return err
	}
	x.seen = Outcome{Receives: []string{}, Initiator: []string{}, Target: []string{}, States: make([]string, 2)}
	return fabric.Run(ctx, fabric.RunConfig{
		Fabric: cfg, Costs: b.Costs(), Seed: c.Seed,
		Finished: func(f *sim.Fabric) (err error) { x.digest, err = rig.DigestOf(ctx, f); return err },
	},
		fabric.Program{Node: 0, Name: "initiator", Main: x.initiate}, fabric.Program{Node: 1, Name: "target", Main: x.answer})
}

// matrixSide is one program's half: source memory, destination memory and a VI.
type matrixSide struct {
	nic          *vipl.NIC
	vi           *vipl.VI
	source, sink *vipl.Region
	control      *vipl.Region
}

func (x *matrixRun) open(t *host.Thread, h *driver.Host) (s *matrixSide, err error) {
	s = &matrixSide{}
	if s.nic, err = vipl.OpenNIC(t, h); err != nil {
		return nil, err
	}
	rights := vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: x.level != vipl.Unreliable}
	for _, g := range []**vipl.Region{&s.source, &s.sink, &s.control} {
		m, err := s.nic.Alloc(t, matrixMessages*max(matrixBytes, vipl.DescriptorBytes))
		if err != nil {
			return nil, err
		}
		if *g, err = s.nic.RegisterBuffer(t, m, rights); err != nil {
			return nil, err
		}
	}
	for i := range matrixMessages {
		x.message(i).Fill(s.source.Bytes()[i*matrixBytes:][:matrixBytes])
	}
	s.vi, err = s.nic.CreateVI(t, vipl.VIAttributes{ReliabilityLevel: x.level, EnableRDMAWrite: true, EnableRDMARead: rights.EnableRDMARead})
	return s, err
}

func (x *matrixRun) message(i int) rig.Pattern {
	return rig.Pattern{Seed: x.seed, Sender: 0, Round: i + 1}
}

// initiate is the program on node 0.
func (x *matrixRun) initiate(t *host.Thread, h *driver.Host) error {
	s, err := x.open(t, h)
	if err != nil {
		return err
	}
	for {
		_, err := s.vi.ConnectRequest(t, vipl.NetAddress{Discriminator: matrixPort}, vipl.At(1, matrixPort), rig.WaitLimit)
		if err == nil {
			break
		}
		if !errors.Is(err, vipl.ErrNoMatch) {
			return err
		}
		if err := t.Sleep(host.Millisecond); err != nil {
			return err
		}
	}
	where, ok, err := t.Receive(rig.WaitLimit)
	if err != nil || !ok {
		return errors.Join(err, errors.New("the target did not tell where its memory is"))
	}
	var remote matrixTarget
	if err := json.Unmarshal(where.Data, &remote); err != nil {
		return err
	}
	for i, at := range []host.Time{matrixBegin, matrixSecond, matrixThird} {
		if err := t.Sleep(at - t.Now()); err != nil {
			return err
		}
		d, err := s.control.Descriptor(i*vipl.DescriptorBytes, 1)
		if err != nil {
			return err
		}
		if err := x.describe(d, s, remote, i); err != nil {
			return err
		}
		if err := s.vi.PostSend(t, d); err != nil {
			return err
		}
	}
	if err := t.Sleep(matrixLook - t.Now()); err != nil {
		return err
	}
	sink := s.sink
	if matrixOperations[x.operation].frame != layout.FrameOperationRDMAReadResponse {
		sink = nil
	}
	return x.look(t, s, sink, s.vi.SendDone, &x.seen.Sends, &x.seen.Initiator, &x.seen.States[0])
}

// matrixTarget is what the initiator must know of the target's memory.
type matrixTarget struct {
	Source, Sink             uint64
	SourceHandle, SinkHandle uint32
}

func (x *matrixRun) describe(d *vipl.Descriptor, s *matrixSide, remote matrixTarget, i int) error {
	own, offset := s.source.Segment(i*matrixBytes, matrixBytes), uint64(i*matrixBytes)
	o := matrixOperations[x.operation]
	switch o.frame {
	case layout.FrameOperationSend:
		return d.SetSend(own)
	case layout.FrameOperationRDMAWrite:
		if err := d.SetRDMAWrite(remote.Sink+offset, vipl.MemHandle(remote.SinkHandle), own); err != nil {
			return err
		}
		if o.immediate {
			d.AttachImmediate(uint32(i + 1))
		}
		return nil
	}
	if err := d.SetRDMARead(remote.Source+offset, vipl.MemHandle(remote.SourceHandle), s.sink.Segment(i*matrixBytes, matrixBytes)); err != nil {
		return err
	}
	return nil
}

// answer is the program on node 1.
func (x *matrixRun) answer(t *host.Thread, h *driver.Host) error {
	s, err := x.open(t, h)
	if err != nil {
		return err
	}
	o := matrixOperations[x.operation]
	if o.frame == layout.FrameOperationSend || o.immediate {
		for i := range matrixMessages {
			d, err := s.control.Descriptor(i*vipl.DescriptorBytes, 1)
			if err != nil {
				return err
			}
			if err := d.SetReceive(s.sink.Segment(i*matrixBytes, matrixBytes)); err != nil {
				return err
			}
			if err := s.vi.PostRecv(t, d); err != nil {
				return err
			}
		}
	}
	r, err := s.nic.ConnectWait(t, vipl.At(1, matrixPort), rig.WaitLimit)
	if err != nil {
		return err
	}
	if err := r.Accept(t, s.vi); err != nil {
		return err
	}
	where, err := json.Marshal(matrixTarget{s.source.Address(), s.sink.Address(), uint32(s.source.Handle()), uint32(s.sink.Handle())})
	if err != nil {
		return err
	}
	if err := t.Send(host.ThreadID{Node: 0, Rank: rig.RankPing}, where); err != nil {
		return err
	}
	if err := t.Sleep(matrixLook - t.Now()); err != nil {
		return err
	}
	sink := s.sink
	if o.frame == layout.FrameOperationRDMAReadResponse {
		sink = nil
	}
	return x.look(t, s, sink, s.vi.RecvDone, &x.seen.Receives, &x.seen.Target, &x.seen.States[1])
}

// look notes the outcome of a side: its asynchronous errors, the VI's state,
// the status of each descriptor after the disconnect that flushes the rest, and
// the destination memory, if any.
func (x *matrixRun) look(t *host.Thread, s *matrixSide, sink *vipl.Region, done func(*host.Thread) (*vipl.Descriptor, error), statuses, errs *[]string, state *string) error {
	for {
		e, err := s.nic.ErrorWait(t, 0)
		if errors.Is(err, vipl.ErrTimeout) {
			break
		}
		if err != nil {
			return err
		}
		*errs = append(*errs, e.Code.String())
	}
	info, err := s.vi.Query(t)
	if err != nil {
		return err
	}
	*state = info.State.String()
	// The barrier lets the other side query its VI before the disconnect
	// reaches it.
	if err := t.Barrier(1, 2); err != nil {
		return err
	}
	if err := s.vi.Disconnect(t); err != nil {
		return err
	}
	for {
		d, err := done(t)
		if d == nil {
			if !errors.Is(err, vipl.ErrDescriptor) {
				return fmt.Errorf("a descriptor was not given back by the disconnect: %w", err)
			}
			break
		}
		*statuses = append(*statuses, d.Status().String())
	}
	if sink != nil {
		for i := range matrixMessages {
			x.seen.Memory = append(x.seen.Memory, x.holds(sink.Bytes()[i*matrixBytes:][:matrixBytes]))
		}
	}
	return s.nic.Close(t)
}

// holds describes the content of a buffer.
func (x *matrixRun) holds(b []byte) string {
	want := make([]byte, len(b))
	if bytes.Equal(b, want) {
		return "untouched"
	}
	for i := range matrixMessages {
		x.message(i).Fill(want)
		if bytes.Equal(b, want) {
			return fmt.Sprintf("message %d", i+1)
		}
		for n := layout.MaxPayload; n < len(b); n += layout.MaxPayload {
			if bytes.Equal(b[:n], want[:n]) && bytes.Equal(b[n:], make([]byte, len(b)-n)) {
				return fmt.Sprintf("%d bytes of message %d", n, i+1)
			}
		}
	}
	return "something else"
}

// WriteText writes a line for each cell, and both outcomes where they differ.
func (m *Matrix) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s %-19s %-21s %-5s %s\n", "fault", "level", "operation", "", "sends; receives; memory; asynchronous errors of initiator and target")
	for _, c := range m.Cells {
		verdict := "ok"
		if !c.OK {
			verdict = "WRONG"
		}
		fmt.Fprintf(&b, "%-10s %-19s %-21s %-5s %s\n", c.Kind, c.Level, c.Operation, verdict, c.Observed)
		if !c.OK {
			fmt.Fprintf(&b, "%-58s %s\n", "  expected:", c.Expected)
		}
	}
	fmt.Fprintf(&b, "\n%d of %d cells as expected; seed %d\n", len(m.Cells)-m.failed(), len(m.Cells), m.Seed)
	_, err := io.WriteString(w, b.String())
	return err
}

// String is the outcome in one line; runs of equal words appear once.
func (o Outcome) String() string {
	parts := []string{joined(o.Sends), joined(o.Receives), joined(o.Memory), joined(o.Initiator) + " / " + joined(o.Target)}
	if !slices.Equal(o.States, []string{"Connected", "Connected"}) {
		parts = append(parts, strings.Join(o.States, " / "))
	}
	return strings.Join(parts, "; ")
}

func joined(words []string) string {
	if len(words) == 0 {
		return "-"
	}
	for _, w := range words[1:] {
		if w != words[0] {
			return strings.Join(words, ", ")
		}
	}
	if len(words) == 1 {
		return words[0]
	}
	return fmt.Sprintf("%d x %s", len(words), words[0])
}

// WriteTable writes the matrix as a table in Markdown, for the reference.
func (m *Matrix) WriteTable(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| fault | level | operation | sends | receives | memory | asynchronous errors: initiator / target | VIs | ok |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range m.Cells {
		o, ok := c.Observed, "yes"
		if !c.OK {
			ok = "NO"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s / %s | %s | %s |\n", c.Kind, c.Level, c.Operation, joined(o.Sends), joined(o.Receives), joined(o.Memory),
			joined(o.Initiator), joined(o.Target), joined(o.States), ok)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
