// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ReportSchema names the shape of a Report. Keys are added and never renamed.
const ReportSchema = "hvia-report/1"

// Report is what a reproduction answers. All but Wall and Error repeats to
// the bit for one profile, seed and set of hashes.
type Report struct {
	Schema  string   `json:"schema"`
	Profile string   `json:"profile"`
	Seed    uint64   `json:"seed"`
	Hashes  Hashes   `json:"hashes"`
	Notes   []string `json:"notes,omitempty"`  // what a reader must know before using the numbers
	Misses  []string `json:"misses,omitempty"` // targets that were not met, one sentence each
	Results Results  `json:"results"`

	// Parameters is every number of the profile that the run was made with.
	Parameters []Parameter `json:"parameters,omitempty"`

	Wall  Wall         `json:"wall"`
	Error *ReportError `json:"error,omitempty"` // why the report is not complete
}

// Results is everything that was measured in simulated time.
type Results struct {
	RDMAWrite         []PingPongResult `json:"rdma_write"`
	Stages            *Stages          `json:"stages,omitempty"` // where the hardware time of the shortest message goes
	Digest            string           `json:"digest,omitempty"` // hash over frames, wakes, messages and their times
	SendReceive       []PingPongResult `json:"send_receive"`
	SendReceiveStages *Stages          `json:"send_receive_stages,omitempty"`
	SendReceiveDigest string           `json:"send_receive_digest,omitempty"`

	// Over VIs of reliable delivery, which reads require. Half a round trip of a read is all of
	// it, from PostSend to its completion.
	RDMARead      []PingPongResult `json:"rdma_read,omitempty"`
	ReliableWrite []PingPongResult `json:"reliable_write,omitempty"`

	Bursts       *Bursts       `json:"bursts,omitempty"`        // of the RDMA writes, if some are long enough
	CrossTraffic *CrossTraffic `json:"cross_traffic,omitempty"` // the ping-pong beside a second VI's traffic

	// What the paper compares with: the ping-pong by sends and receives on M-VIA, and by
	// a connection of TCP/IP, over plain NICs on the same wire.
	Mvia       []PingPongResult `json:"mvia,omitempty"`
	MviaDigest string           `json:"mvia_digest,omitempty"`
	Tcp        []PingPongResult `json:"tcp,omitempty"`
	TcpDigest  string           `json:"tcp_digest,omitempty"`
	Accounts   []MessageAccount `json:"accounts,omitempty"` // of the shortest and the longest message
	Paths      []MessagePath    `json:"paths,omitempty"`    // of the shortest

	Prediction  *Prediction         `json:"prediction,omitempty"`
	PostReceive []PostReceiveResult `json:"post_receive,omitempty"`
	ReceiveWait []ReceiveWaitResult `json:"receive_wait,omitempty"`
	Waterfall   []WaterfallRow      `json:"waterfall,omitempty"` // of the RDMA write of 4 bytes
	Pipeline    *Pipeline           `json:"pipeline,omitempty"`
	Targets     []Target            `json:"targets,omitempty"`     // of the base profile only
	ModelCurve  []ModelPoint        `json:"model_curve,omitempty"` // of the base profile only
	Ablations   *Ablations          `json:"ablations,omitempty"`
	Gains       []GainPoint         `json:"gains,omitempty"` // about T7, of a run with all sizes of the base profile
	FirstWrite  []FirstWriteResult  `json:"first_write,omitempty"`
	Digests     []RunDigest         `json:"digests,omitempty"` // of each run but those before the fit and the ablations
}

// Prediction is the experiments again with every fitted parameter that has a
// value from before its fit at that value.
type Prediction struct {
	Parameters  map[string]int64    `json:"parameters"` // those that differ from the fitted ones
	RDMAWrite   []PingPongResult    `json:"rdma_write"`
	SendReceive []PingPongResult    `json:"send_receive"`
	ReceiveWait []ReceiveWaitResult `json:"receive_wait,omitempty"`
	Mvia        []PingPongResult    `json:"mvia,omitempty"`
	Tcp         []PingPongResult    `json:"tcp,omitempty"`
}

// PostReceiveResult is Figure 11 of the paper: processor time of VipPostRecv, that is
// to compose a descriptor, to post it, to ring the doorbell and to return,
// between two readings of the clock. What one reading takes is in it.
type PostReceiveResult struct {
	Size   int   `json:"size"` // room in the buffer
	MeanPs int64 `json:"mean_ps"`
	MinPs  int64 `json:"min_ps"`
	MaxPs  int64 `json:"max_ps"`
}

// ReceiveWaitResult is Figure 12 of the paper: the time that a message takes at the
// receiving side alone, the network left out. The wire is held until all frames of
// the message have left the sender; then they come back to back at the wire's
// rate, which is more than the receiving side takes off the MAC, so that
// nothing but the receiving side is waited for. As the frames are in the MAC
// already, the time begins with its first write of the first frame into the
// card; it ends when RecvWait returns.
type ReceiveWaitResult struct {
	Size   int    `json:"size"`
	MeanPs int64  `json:"mean_ps"`
	Fault  string `json:"fault,omitempty"` // the first byte that was wrong
}

// FirstWriteResult is the time from a client's call of ConnectRequest to the server's look that
// finds the last byte of an RDMA write over that connection. Either the server has offered its region,
// and the client writes as soon as it is connected; or the server sends the region's address and
// handle when it has accepted, and the client writes when it has received them.
type FirstWriteResult struct {
	Size      int    `json:"size"`
	ConnectPs int64  `json:"connect_ps"` // until ConnectRequest returns, with the offer
	OffersPs  int64  `json:"offers_ps"`
	MessagePs int64  `json:"message_ps"`
	Fault     string `json:"fault,omitempty"` // the first byte that was wrong
}

// WaterfallRow is a step on the way of a message from the post to the look that finds
// it, with its budget in docs/explanation/reproduction.md; 0 if the page has none
// for the step, or none for this profile.
type WaterfallRow struct {
	Name     string `json:"name"`
	BudgetPs int64  `json:"budget_ps"`
	MeanPs   int64  `json:"mean_ps"`
}

// Pipeline is one long RDMA write on its way through the five hops, in times
// since the store to the doorbell.
type Pipeline struct {
	Size  int   `json:"size"`
	EndPs int64 `json:"end_ps"` // the last byte is in memory
	Hops  []Hop `json:"hops"`
}

// Hop is one of the five. BusyPpm is the part of the time from 0 to the end in
// which the hop carried something, descriptors and statuses included; Spans
// are the frames of the message, each from the start of its first transaction
// to the end of its last.
type Hop struct {
	Name    string `json:"name"`
	BusyPpm int64  `json:"busy_ppm"`
	Spans   []Span `json:"spans"`
}

// Span is one frame, counted from 1, on one hop.
type Span struct {
	Frame   int   `json:"frame"`
	StartPs int64 `json:"start_ps"`
	EndPs   int64 `json:"end_ps"`
}

// Target is one printed figure of the paper beside what was measured. Paper is
// nil where the paper prints no number and docs/explanation/reproduction.md gives the band; Predicted
// is nil where nothing was predicted before the fit. OK judges Calibrated.
type Target struct {
	ID         string   `json:"id"`
	Quantity   string   `json:"quantity"`
	Unit       string   `json:"unit"`
	Paper      *float64 `json:"paper"`
	Predicted  *float64 `json:"predicted"`
	Calibrated float64  `json:"calibrated"`
	Low        float64  `json:"low"`
	High       float64  `json:"high"`
	Kind       string   `json:"kind"` // prediction, calibration or derived
	OK         bool     `json:"ok"`
}

// Kinds of targets.
const (
	KindPrediction  = "prediction"  // nothing was fitted to it
	KindCalibration = "calibration" // a parameter was fitted to it
	KindDerived     = "derived"     // a quotient of other rows, of which at least one is fitted
)

// ModelPoint is a measured half round trip beside that of the model behind the
// study of the paper's figures, which is not the paper's. OK says that they
// differ by no more than Band, a fraction of the model's.
type ModelPoint struct {
	Size       int     `json:"size"`
	Protocol   string  `json:"protocol"` // rdma_write, send_receive, mvia or tcp
	ModelPs    int64   `json:"model_ps"`
	MeasuredPs int64   `json:"measured_ps"`
	Band       float64 `json:"band"`
	OK         bool    `json:"ok"`
}

// Ablations are figures of the card with parts of its design taken away, the
// card as it is first.
type Ablations struct {
	Sizes    []int     `json:"sizes"`
	Variants []Variant `json:"variants"`
}

// Variant is one of them.
type Variant struct {
	Name       string           `json:"name"`
	Straps     []string         `json:"straps,omitempty"`     // that are set
	Parameters map[string]int64 `json:"parameters,omitempty"` // that are replaced
	Figures    []AblationFigure `json:"figures"`
	Verified   bool             `json:"verified"`
	Fault      string           `json:"fault,omitempty"`
}

// AblationFigure is one number of a variant. Foreseen is what the
// model of docs/explanation/reproduction.md has for it, nil if it has nothing.
type AblationFigure struct {
	Name     string   `json:"name"`
	Unit     string   `json:"unit"`
	Value    float64  `json:"value"`
	Base     float64  `json:"base"` // of the card as it is
	Foreseen *float64 `json:"foreseen"`
}

// Parameter is one of package params.
type Parameter struct {
	Name   string `json:"name"`
	Value  int64  `json:"value"`
	Unit   string `json:"unit"`
	Class  string `json:"class"`
	Tag    string `json:"tag"`
	Source string `json:"source"`
	Doc    string `json:"doc"`
	Prior  *int64 `json:"prior,omitempty"` // before the fit, of a fitted parameter that had a guess to begin with
}

// MessageAccount is what one message of the ping-pong takes of both hosts, of their
// system buses and of the wire, as means over the counted rounds.
type MessageAccount struct {
	Protocol    string      `json:"protocol"` // rdma_write, send_receive, mvia or tcp
	Size        int         `json:"size"`
	HalfRTTPs   int64       `json:"half_rtt_ps"`
	ProcessorPs int64       `json:"processor_ps"` // of both hosts, the sum of Processor
	Processor   []TimeShare `json:"processor"`    // by layer
	PollPs      int64       `json:"poll_ps"`      // in polling loops, which take what is left of a processor
	BusPs       int64       `json:"bus_ps"`       // both system buses carried something
	WirePs      int64       `json:"wire_ps"`      // of its frames and those that answer them, with preamble, FCS and gap
	Frames      float64     `json:"frames"`       // all that crossed the wire
}

// TimeShare is a part of a time.
type TimeShare struct {
	Name string `json:"name"`
	Ps   int64  `json:"ps"`
}

// MessagePath is where the half round trip of a short message goes, one thing at a time:
// the rows add up to it. The last is what none of the others accounts for.
type MessagePath struct {
	Protocol  string      `json:"protocol"`
	Size      int         `json:"size"`
	HalfRTTPs int64       `json:"half_rtt_ps"`
	Rows      []TimeShare `json:"rows"`
}

// Stages is the time between the events of a one-frame message, from the card's
// trace port, as means over all counted messages. The sum is HardwarePs.
type Stages struct {
	Size int     `json:"size"`
	Rows []Stage `json:"rows"`
}

// CrossTraffic is the ping-pong again while both nodes send on a second VI.
type CrossTraffic struct {
	RDMAWrite []PingPongResult `json:"rdma_write"`
	Messages  int              `json:"messages"` // sent on the second VI, both directions
	Verified  bool             `json:"verified"` // what the last of them left in memory, both directions
	Fault     string           `json:"fault,omitempty"`
	Digest    string           `json:"digest"`
}

// PingPongResult is the ping-pong of one message length. HalfRTTPs is
// HardwarePs + HostPs, up to the rounding of a half picosecond. The hardware's
// part is from the doorbell's store to what the receiver waits for in its
// memory: the last byte of an RDMA write, the status of a receive. With M-VIA and TCP/IP the
// host's part is that in which a processor of either host works or wakes a program.
type PingPongResult struct {
	Size        int    `json:"size"`
	HalfRTTPs   int64  `json:"half_rtt_ps"`
	HardwarePs  int64  `json:"hardware_ps"`
	HostPs      int64  `json:"host_ps"`
	BytesPerSec int64  `json:"bytes_per_s"`
	Verified    bool   `json:"verified"`        // every payload and guard byte of every round
	Fault       string `json:"fault,omitempty"` // the first byte that was wrong
}

// Wall is everything that depends on the machine.
type Wall struct {
	BuildSeconds float64   `json:"build_seconds"` // what the build of the simulator took, whenever that was
	Seconds      float64   `json:"seconds"`       // of the experiments, without the build
	RDMAWrite    []WallRow `json:"rdma_write,omitempty"`
	SendReceive  []WallRow `json:"send_receive,omitempty"`
	Mvia         []WallRow `json:"mvia,omitempty"`
	Tcp          []WallRow `json:"tcp,omitempty"`
}

// WallRow says what one message length cost. Cycles are core clocks of
// simulated time, including the ones that were skipped because all was quiet.
type WallRow struct {
	Size            int     `json:"size"`
	Seconds         float64 `json:"seconds"`
	Cycles          int64   `json:"simulated_cycles"`
	CyclesPerSecond float64 `json:"cycles_per_s"`
}

// ReportError is the error of a run that did not end well.
type ReportError struct {
	Message string `json:"message"`
}

// NewReport starts a report with nothing measured.
func NewReport(profile string, seed uint64, hashes Hashes) *Report {
	return &Report{
		Schema: ReportSchema, Profile: profile, Seed: seed, Hashes: hashes,
		Results: Results{RDMAWrite: []PingPongResult{}, SendReceive: []PingPongResult{}},
	}
}

// BytesPerSecond is size bytes per ps picoseconds, rounded down; 0 for a time
// that is not positive, and the largest number if it does not fit.
func BytesPerSecond(size int, ps int64) int64 {
	if ps <= 0 || size <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(size), 1_000_000_000_000)
	if hi >= uint64(ps) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(ps))
	if q > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(q)
}

// Verified is true if something was measured and every byte of it was right.
func (r *Report) Verified() bool { return len(r.Results.RDMAWrite) > 0 && len(r.Faults()) == 0 }

// Faults says what arrived wrong, one sentence for each size and experiment.
func (r *Report) Faults() []string {
	var faults []string
	add := func(where string, rows []PingPongResult) {
		for _, w := range rows {
			if !w.Verified {
				faults = append(faults, fmt.Sprintf("%d bytes%s: %s", w.Size, where, w.Fault))
			}
		}
	}
	add("", r.Results.RDMAWrite)
	add(" by send and receive", r.Results.SendReceive)
	add(" by RDMA read", r.Results.RDMARead)
	add(" at reliable delivery", r.Results.ReliableWrite)
	add(" by M-VIA", r.Results.Mvia)
	add(" by TCP/IP", r.Results.Tcp)
	if c := r.Results.CrossTraffic; c != nil {
		add(" beside cross traffic", c.RDMAWrite)
		if !c.Verified {
			faults = append(faults, "cross traffic: "+c.Fault)
		}
	}
	waits := slices.Clone(r.Results.ReceiveWait)
	if p := r.Results.Prediction; p != nil {
		waits = append(waits, p.ReceiveWait...)
		add(" before the fit", p.RDMAWrite)
		add(" by send and receive before the fit", p.SendReceive)
		add(" by M-VIA before the fit", p.Mvia)
		add(" by TCP/IP before the fit", p.Tcp)
	}
	for _, w := range waits {
		if w.Fault != "" {
			faults = append(faults, fmt.Sprintf("%d bytes at the receiving side: %s", w.Size, w.Fault))
		}
	}
	for _, w := range r.Results.FirstWrite {
		if w.Fault != "" {
			faults = append(faults, fmt.Sprintf("%d bytes, first write: %s", w.Size, w.Fault))
		}
	}
	return append(faults, r.Results.Ablations.Faults()...)
}

// WriteJSON writes the report as one object. Equal reports give equal bytes.
func (r *Report) WriteJSON(w io.Writer) error {
	return writeJSON(w, r)
}

// Repeatable is the report as JSON without what depends on the machine: two
// runs of one configuration must give the same bytes.
func (r *Report) Repeatable() ([]byte, error) {
	c := *r
	c.Wall = Wall{}
	var b strings.Builder
	if err := c.WriteJSON(&b); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}

// Save writes report.json, and all its tables as report.txt, into a directory, which it
// makes if needed, and returns the path of the first. A reader
// sees the old file or the new one, never a part.
func (r *Report) Save(dir string) (string, error) {
	if _, err := save(dir, "report.txt", r.WriteText); err != nil {
		return "", err
	}
	return saveJSON(dir, "report.json", r)
}

// saveJSON writes something as JSON into a directory.
func saveJSON(dir, name string, v any) (string, error) {
	return save(dir, name, func(w io.Writer) error { return writeJSON(w, v) })
}

// save writes a file of a directory, whole or not at all.
func save(dir, name string, write func(io.Writer) error) (string, error) {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("write the report %s: %w", path, err)
	}
	f, err := os.CreateTemp(dir, name+"-*.tmp")
	if err != nil {
		return "", fmt.Errorf("write the report %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	err = write(f)
	if e := f.Chmod(0o644); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return "", fmt.Errorf("write the report %s: %w", path, err)
	}
	return path, nil
}

// WriteText writes all tables of the report. Simulated and wall time stand in
// columns of their own.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "RDMA write ping-pong, one-way = RTT/2, simulated time (profile %s, seed %d)\n", r.Profile, r.Seed)
	fmt.Fprintf(&b, "layout %s  params %s  rtl %s\n\n", r.Hashes.Layout, r.Hashes.Params, r.Hashes.RTL)
	writeRows(&b, r.Results.RDMAWrite, r.Wall.RDMAWrite, nil)
	if len(r.Results.SendReceive) > 0 {
		b.WriteString("\nThe same with send and receive, whose gap is their half RTT less that of an RDMA write:\n")
		writeRows(&b, r.Results.SendReceive, r.Wall.SendReceive, r.Results.RDMAWrite)
	}
	writeReads(&b, r.Results.RDMARead, r.Results.ReliableWrite)
	r.writeBaselines(&b)
	r.writeCrossTraffic(&b)
	writeReceiveSide(&b, r.Results.PostReceive, r.Results.ReceiveWait)
	writeFirstWrites(&b, r.Results.FirstWrite)
	if len(r.Results.Waterfall) > 0 {
		writeWaterfall(&b, r.Results.Waterfall)
	} else {
		writeStages(&b, r.Results.Stages, "an RDMA write", "data in the peer's memory")
	}
	writeStages(&b, r.Results.SendReceiveStages, "a send", "peer's receive descriptor")
	writePaths(&b, r.Results.Paths)
	writeAccounts(&b, r.Results.Accounts)
	if u := r.Results.Bursts; u != nil {
		fmt.Fprintf(&b, "\n%d-byte bursts without a pause: system bus %.1f MB/s, MAC bus %.1f MB/s\n", burstBytes, float64(u.SystemBytesPerSec)/1e6, float64(u.MACBytesPerSec)/1e6)
	}
	writeTargets(&b, r.Results.Targets)
	r.writeStrength(&b)
	writeModelCurve(&b, r.Results.ModelCurve)
	r.Results.Ablations.writeText(&b)
	r.writeDigests(&b)
	r.writeEnd(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) writeCrossTraffic(b *strings.Builder) {
	c := r.Results.CrossTraffic
	if c == nil {
		return
	}
	fmt.Fprintf(b, "\nThe same beside %d messages on a second VI:\n", c.Messages)
	for _, m := range c.RDMAWrite {
		check := "ok"
		if !m.Verified {
			check = "FAIL"
		}
		fmt.Fprintf(b, "%8d %12s %12s %12s %10.2f  %s\n", m.Size, us(m.HalfRTTPs), us(m.HardwarePs), us(m.HostPs), float64(m.BytesPerSec)/1e6, check)
	}
}

// writeBaselines writes what the paper compares with beside the RDMA writes.
func (r *Report) writeBaselines(b *strings.Builder) {
	if len(r.Results.Mvia)+len(r.Results.Tcp) == 0 {
		return
	}
	b.WriteString("\nM-VIA and TCP/IP over a plain NIC on the same wire, half RTT in us and rate in MB/s:\n")
	fmt.Fprintf(b, "%8s %12s %12s %12s  %8s %8s %8s  %s\n", "size", "RDMA write", "M-VIA", "TCP/IP", "RDMA wr.", "M-VIA", "TCP/IP", "check")
	for _, w := range r.Results.RDMAWrite {
		rows, check := ofSize(w.Size, r.Results.RDMAWrite, r.Results.Mvia, r.Results.Tcp)
		var times, rates string
		for _, p := range rows {
			half, rate := p.cells()
			times, rates = times+fmt.Sprintf(" %12s", half), rates+fmt.Sprintf(" %8s", rate)
		}
		fmt.Fprintf(b, "%8d%s %s  %s\n", w.Size, times, rates, check)
	}
}

// ofSize takes the row of a size out of each list, nil where it has none, and
// says whether all that are there were verified.
func ofSize(size int, lists ...[]PingPongResult) (rows []*PingPongResult, check string) {
	check = "ok"
	for _, list := range lists {
		k := slices.IndexFunc(list, func(p PingPongResult) bool { return p.Size == size })
		if k < 0 {
			rows = append(rows, nil)
			continue
		}
		if !list[k].Verified {
			check = "FAIL"
		}
		rows = append(rows, &list[k])
	}
	return rows, check
}

// cells are half the round trip in us and the rate in MB/s.
func (p *PingPongResult) cells() (half, rate string) {
	if p == nil {
		return "-", "-"
	}
	return us(p.HalfRTTPs), fmt.Sprintf("%.2f", float64(p.BytesPerSec)/1e6)
}

// protocolNames are those of the keys in reports, in the order of tables.
var protocolNames = []struct{ key, name string }{
	{rdmaWrite.key(), "RDMA write"}, {sendReceive.key(), "send/recv"}, {mviaSend.key(), "M-VIA"}, {tcpStream.key(), "TCP/IP"},
}

// ProtocolName is the name of a protocol by its key in the report.
func ProtocolName(key string) string {
	for _, p := range protocolNames {
		if p.key == key {
			return p.name
		}
	}
	return key
}

func share(rows []TimeShare, name string) string {
	for _, s := range rows {
		if s.Name == name {
			return us(s.Ps)
		}
	}
	return "-"
}

// writePaths writes where a short message's time goes, a column for each protocol.
func writePaths(b *strings.Builder, list []MessagePath) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "\nWhere the half round trip of a message of %d bytes goes, in us:\n%-14s", list[0].Size, "")
	for _, p := range list {
		fmt.Fprintf(b, " %12s", ProtocolName(p.Protocol))
	}
	b.WriteString("\n")
	for _, name := range pathSteps {
		line, taken := fmt.Sprintf("%-14s", name), false
		for _, p := range list {
			cell := share(p.Rows, name)
			taken = taken || cell != "-"
			line += fmt.Sprintf(" %12s", cell)
		}
		if taken {
			b.WriteString(line + "\n")
		}
	}
	fmt.Fprintf(b, "%-14s", "in all")
	for _, p := range list {
		fmt.Fprintf(b, " %12s", us(p.HalfRTTPs))
	}
	b.WriteString("\n")
}

// writeAccounts writes what a message takes of both hosts, a column for each protocol and size.
func writeAccounts(b *strings.Builder, list []MessageAccount) {
	if len(list) == 0 {
		return
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b MessageAccount) int { return a.Size - b.Size })
	b.WriteString("\nProcessor time of one message by layer, both hosts, beside the time of their buses and of the wire, in us:\n")
	row := func(name string, cell func(MessageAccount) string) {
		line := fmt.Sprintf("%-14s", name)
		for _, a := range list {
			line += fmt.Sprintf(" %10s", cell(a))
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	row("", func(a MessageAccount) string { return ProtocolName(a.Protocol) })
	row("bytes", func(a MessageAccount) string { return fmt.Sprint(a.Size) })
	for _, s := range list[0].Processor {
		row(s.Name, func(a MessageAccount) string { return share(a.Processor, s.Name) })
	}
	row("processor", func(a MessageAccount) string { return us(a.ProcessorPs) })
	row("(polling)", func(a MessageAccount) string { return us(a.PollPs) })
	row("buses", func(a MessageAccount) string { return us(a.BusPs) })
	row("wire", func(a MessageAccount) string { return us(a.WirePs) })
	row("frames", func(a MessageAccount) string { return number(&a.Frames) })
}

// writeRows writes a table. If there are rows to compare with, a column has
// how much longer the half RTT of a size is than theirs.
func writeRows(b *strings.Builder, rows []PingPongResult, wall []WallRow, less []PingPongResult) {
	heads := [2]string{}
	if less != nil {
		heads = [2]string{fmt.Sprintf(" %10s", "gap"), fmt.Sprintf(" %10s", "us")}
	}
	fmt.Fprintf(b, "%8s %12s %12s %12s %10s  %-5s%s %10s %14s\n", "size", "half RTT", "hardware", "host", "rate", "check", heads[0], "wall", "sim cycles")
	fmt.Fprintf(b, "%8s %12s %12s %12s %10s  %-5s%s %10s %14s\n", "bytes", "us", "us", "us", "MB/s", "", heads[1], "s", "per wall s")
	for _, m := range rows {
		check := "ok"
		if !m.Verified {
			check = "FAIL"
		}
		fmt.Fprintf(b, "%8d %12s %12s %12s %10.2f  %-5s", m.Size, us(m.HalfRTTPs), us(m.HardwarePs), us(m.HostPs), float64(m.BytesPerSec)/1e6, check)
		if less != nil {
			gap := "-"
			if o, _ := ofSize(m.Size, less); o[0] != nil {
				gap = us(m.HalfRTTPs - o[0].HalfRTTPs)
			}
			fmt.Fprintf(b, " %10s", gap)
		}
		if k := slices.IndexFunc(wall, func(w WallRow) bool { return w.Size == m.Size }); k >= 0 {
			fmt.Fprintf(b, " %10.2f %14.0f", wall[k].Seconds, wall[k].CyclesPerSecond)
		} else {
			fmt.Fprintf(b, " %10s %14s", "-", "-")
		}
		b.WriteString("\n")
	}
}

func writeStages(b *strings.Builder, s *Stages, what, until string) {
	if s == nil {
		return
	}
	fmt.Fprintf(b, "\nWhere the hardware time of %s of %d bytes goes (mean, from the trace port):\n", what, s.Size)
	var sum int64
	for _, row := range s.Rows {
		fmt.Fprintf(b, "%12s us  %s\n", us(row.MeanPs), row.Name)
		sum += row.MeanPs
	}
	fmt.Fprintf(b, "%12s us  from the doorbell's store to the %s\n", us(sum), until)
}

// writeReceiveSide writes Figures 11 and 12, which have the same sizes.
func writeReceiveSide(b *strings.Builder, posts []PostReceiveResult, waits []ReceiveWaitResult) {
	if len(posts) == 0 {
		return
	}
	b.WriteString("\nThe receiving side alone: VipPostRecv between two readings of the clock, VipRecvWait of a message whose frames wait in the network:\n")
	fmt.Fprintf(b, "%8s %12s %12s %12s %12s\n%8s %12s %12s %12s %12s\n", "size", "PostRecv", "shortest", "longest", "RecvWait", "bytes", "us", "us", "us", "us")
	for _, p := range posts {
		wait := "-"
		if k := slices.IndexFunc(waits, func(w ReceiveWaitResult) bool { return w.Size == p.Size }); k >= 0 {
			wait = us(waits[k].MeanPs)
		}
		fmt.Fprintf(b, "%8d %12s %12s %12s %12s\n", p.Size, us(p.MeanPs), us(p.MinPs), us(p.MaxPs), wait)
	}
}

func writeWaterfall(b *strings.Builder, rows []WaterfallRow) {
	var sum, budget int64
	for _, row := range rows {
		sum += row.MeanPs
		budget += row.BudgetPs
	}
	allows := ""
	if budget > 0 {
		allows = ", and what the model of the paper's card allows"
	}
	fmt.Fprintf(b, "\nWhere the half round trip of an RDMA write of %d bytes goes (mean, from programs and trace port)%s:\n", waterfallSize, allows)
	line := func(mean, allowed, name string) {
		if budget > 0 {
			mean += fmt.Sprintf(" %12s", allowed)
		}
		b.WriteString(strings.TrimRight(fmt.Sprintf("%s  %s", mean, name), " ") + "\n")
	}
	line(fmt.Sprintf("%12s", "measured"), "budget", "")
	line(fmt.Sprintf("%12s", "us"), "us", "")
	for _, row := range append(slices.Clone(rows), WaterfallRow{"in all", budget, sum}) {
		allowed := "-"
		if row.BudgetPs > 0 {
			allowed = us(row.BudgetPs)
		}
		line(fmt.Sprintf("%12s", us(row.MeanPs)), allowed, row.Name)
	}
}

func word(ok bool) string {
	if ok {
		return "ok"
	}
	return "miss"
}

func writeTargets(b *strings.Builder, list []Target) {
	if len(list) == 0 {
		return
	}
	b.WriteString("\nAgainst the paper: paper value, prediction before calibration, this run:\n")
	fmt.Fprintf(b, "%-4s %-56s %7s %10s %10s %19s  %s\n", "", "", "paper", "predicted", "now", "accepted", "kind")
	for _, t := range list {
		fmt.Fprintf(b, "%-4s %-56s %7s %10s %10s %8s to %7s  %-11s %s\n", t.ID, t.Quantity+", "+t.Unit, number(t.Paper), number(t.Predicted), number(&t.Calibrated),
			number(&t.Low), number(&t.High), KindWord(t.Kind), word(t.OK))
	}
}

// writeModelCurve writes the model's curve, whose numbers are not the paper's.
func writeModelCurve(b *strings.Builder, list []ModelPoint) {
	if len(list) == 0 {
		return
	}
	b.WriteString("\nBeside the model (docs/explanation/reproduction.md), half RTT (not in the paper, which prints no points between the ends):\n")
	fmt.Fprintf(b, "%8s %-13s %12s %12s %9s %8s\n%8s %-13s %12s %12s %9s %8s\n", "size", "", "model", "measured", "differ", "accepted", "bytes", "", "us", "us", "%", "%")
	for _, m := range list {
		fmt.Fprintf(b, "%8d %-13s %12s %12s %+9.1f %8.0f  %s\n", m.Size, m.Protocol, us(m.ModelPs), us(m.MeasuredPs),
			100*float64(m.MeasuredPs-m.ModelPs)/float64(m.ModelPs), 100*m.Band, word(m.OK))
	}
}

// DemoSchema names the shape of a DemoReport.
const DemoSchema = "hvia-demo/1"

// DemoReport is one RDMA write, step by step in simulated time.
type DemoReport struct {
	Schema  string     `json:"schema"`
	Profile string     `json:"profile"`
	Seed    uint64     `json:"seed"`
	Hashes  Hashes     `json:"hashes"`
	Size    int        `json:"size"`
	Steps   []DemoStep `json:"steps"`
	Digest  string     `json:"digest,omitempty"`
	Parts
	Verified bool         `json:"verified"`
	Fault    string       `json:"fault,omitempty"` // the first byte that was wrong
	Error    *ReportError `json:"error,omitempty"`
}

// DemoStep is one thing that happened.
type DemoStep struct {
	TimePs int64  `json:"time_ps"` // since the programs of both hosts began
	Node   int    `json:"node"`
	Where  string `json:"where"` // program, card block or wire
	What   string `json:"what"`
	Frame  int    `json:"frame,omitempty"` // of a message of several, from 1
}

// WriteJSON writes the steps as one object.
func (r *DemoReport) WriteJSON(w io.Writer) error {
	return writeJSON(w, r)
}

// maxFramesTold is how many frames of a message the text tells step by step.
const maxFramesTold = 4

func (r *DemoReport) frames() int {
	n := 0
	for _, s := range r.Steps {
		n = max(n, s.Frame)
	}
	return n
}

// WriteText tells the steps, with the time since the step before.
func (r *DemoReport) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "One RDMA write of %d bytes, simulated time (profile %s, seed %d)\n\n", r.Size, r.Profile, r.Seed)
	fmt.Fprintf(&b, "%12s %10s  %-4s  %-18s %s\n", "us", "+us", "node", "where", "what")
	last, hidden := int64(0), 0
	told := func() {
		if hidden > 0 {
			fmt.Fprintf(&b, "%12s %10s  %-4s  %-18s %s\n", "", "", "", "...", fmt.Sprintf("%d steps of frames between the first and the last (all with --json)", hidden))
			hidden = 0
		}
	}
	frames := r.frames()
	for i, s := range r.Steps {
		if frames > maxFramesTold && s.Frame > 1 && s.Frame < frames {
			hidden++
			continue
		}
		told()
		if i == 0 {
			last = s.TimePs
		}
		what := s.What
		if s.Frame > 0 {
			what = fmt.Sprintf("frame %d of %d: %s", s.Frame, frames, what)
		}
		fmt.Fprintf(&b, "%12s %10s  %-4d  %-18s %s\n", us(s.TimePs), us(s.TimePs-last), s.Node, s.Where, what)
		last = s.TimePs
	}
	told()
	if r.Error != nil {
		fmt.Fprintf(&b, "\nnot complete: %s\n", r.Error.Message)
	} else if r.Verified {
		fmt.Fprintf(&b, "\nverified: all %d bytes are in place and none beside them changed\n", r.Size)
	} else {
		fmt.Fprintf(&b, "\nFAIL: the receiver's memory is not what was sent: %s\n", r.Fault)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// us writes picoseconds as microseconds, rounded to the nanosecond. It stays in
// integers so that no machine prints another digit.
func us(ps int64) string {
	sign := ""
	if ps < 0 {
		sign, ps = "-", -ps
	}
	ns := (ps + 500) / 1000
	return fmt.Sprintf("%s%d.%03d", sign, ns/1000, ns%1000)
}
