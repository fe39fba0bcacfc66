// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/host"
	"hvia/layout"
)

// Schema names the shape of a Report. Keys are added and never renamed.
const Schema = "hvia-compare/2"

// Report is the result of Run.
type Report struct {
	report.Envelope
	Parameters `json:"parameters"`
	Results    `json:"results"`
}

// Parameters say what was compared.
type Parameters struct {
	report.Parameters
	Pattern  string           `json:"pattern"`
	Messages int              `json:"messages"`         // to be counted, of each client; 0: chosen by size
	Warmup   int              `json:"warmup"`           // before them; one way, 0: a quarter of Messages
	Window   int              `json:"window,omitempty"` // 0: chosen by size
	Receives int              `json:"receives,omitempty"`
	Clients  int              `json:"clients,omitempty"`
	Nodes    int              `json:"nodes,omitempty"` // if there are more than two
	Mix      []MixEntry       `json:"mix,omitempty"`
	Params   map[string]int64 `json:"params,omitempty"`      // that were replaced
	Wire     string           `json:"wire_faults,omitempty"` // faults of the wire
}

// Results is what was measured.
type Results struct {
	Rows    []Row    `json:"rows"`
	Digests []Digest `json:"digests"`
}

// Digest is the hash over frames, wakes and messages of a protocol's run with
// their times, and the counters if there is a switch.
type Digest struct {
	Protocol string `json:"protocol"`
	Digest   string `json:"digest"`
	report.Parts
	Nodes []NodeCounts `json:"nodes,omitempty"` // by node
	Wire  *WireEffect  `json:"wire,omitempty"`  // if the wire of the run has faults
}

// NodeCounts are the counters of a whole run: of a node's card, if it has one,
// and of the switch port at its cable.
type NodeCounts struct {
	Card           map[string]uint64 `json:"card,omitempty"`    // by the counter's name, those that are not 0
	Forwarded      uint64            `json:"switch_forwarded"`  // frames for the node that the switch accepted
	NoRoom         uint64            `json:"switch_no_room"`    // frames for the node that the full queue dropped
	HighestFilling uint64            `json:"switch_queue_most"` // bytes
}

// Row is the result of one protocol at one size, for the mix, or, with a kind,
// for the requests of one kind of the mix: those have times only.
type Row struct {
	Protocol    string    `json:"protocol"`
	Size        int       `json:"size,omitempty"`
	Kind        *MixEntry `json:"kind,omitempty"`
	Messages    int       `json:"messages"` // counted ones
	Lost        int       `json:"lost"`     // of all
	Window      int       `json:"window,omitempty"`
	Steady      bool      `json:"steady,omitempty"` // one way: rates are of a span in which all senders were busy, else of the whole
	Latency     *Latency  `json:"latency,omitempty"`
	BytesPerSec int64     `json:"bytes_per_s,omitempty"`

	Hosts    []HostUse `json:"hosts,omitempty"`            // by node
	Wire     []WireUse `json:"wire,omitempty"`             // by the node that sends
	ToServer *WireUse  `json:"wire_from_switch,omitempty"` // of the cable from the switch to the receiver's node

	Clients     []int64 `json:"clients_bytes_per_s,omitempty"` // while all of them send
	FairnessPpm int64   `json:"fairness_ppm,omitempty"`        // Jain's index of these: 1,000,000 is even

	Verified bool   `json:"verified"`
	Fault    string `json:"fault,omitempty"` // the first wrong byte
}

// Latency summarizes times: of half a round trip in a ping-pong, from a request
// to its reply in a mix, from the send to the reception one way.
type Latency struct {
	MeanPs int64 `json:"mean_ps"`
	P50Ps  int64 `json:"p50_ps"`
	P90Ps  int64 `json:"p90_ps"`
	P99Ps  int64 `json:"p99_ps"`
	MaxPs  int64 `json:"max_ps"`
}

// HostUse is a host's share in messages. Times are per message: a round trip is
// two, a request with its reply one.
type HostUse struct {
	WorkPs int64            `json:"work_ps"` // of its processor
	PollPs int64            `json:"poll_ps"` // in empty polls
	Layers map[string]int64 `json:"layers"`  // the work, by layer; those that have any
	BusPpm int64            `json:"bus_ppm"` // of the time, its system bus is in use
}

// WireUse is the use of the wire by messages, in one direction. Preamble, frame
// check sequence and gap are included.
type WireUse struct {
	Bytes int64 `json:"bytes"` // for each message
	Ppm   int64 `json:"ppm"`   // of the time
}

// NewReport returns a report without rows.
func NewReport(c Config, h report.Hashes) *Report {
	faults := ""
	if len(c.Faults.Faults) > 0 {
		faults = c.Faults.String()
	}
	warmup := c.Warmup
	if c.Messages > 0 {
		_, warmup = c.countOf(protocol{}, 1)
	}
	r := &Report{
		Envelope: report.Envelope{Schema: Schema, Environment: h},
		Parameters: Parameters{
			Parameters: report.Parameters{Profile: c.Profile, Seed: c.Seed}, Pattern: c.Pattern, Messages: c.Messages, Warmup: warmup, Window: c.Window,
			Receives: c.Receives, Clients: c.Clients, Mix: c.Mix, Params: c.Params, Wire: faults,
		},
		Results: Results{Rows: []Row{}, Digests: []Digest{}},
	}
	if c.switched() {
		r.Nodes = c.Nodes
	}
	return r
}

// latencyOf summarizes times; nil if there is none. A negative time is none.
func latencyOf(times []host.Time) *Latency {
	sorted := slices.DeleteFunc(slices.Sorted(slices.Values(times)), func(t host.Time) bool { return t < 0 })
	if len(sorted) == 0 {
		return nil
	}
	var sum int64
	for _, t := range sorted {
		sum += int64(t)
	}
	n := len(sorted)
	// The nearest rank: the least time that is not exceeded in the given
	// percentage.
	rank := func(percent int) int64 { return int64(sorted[(n*percent+99)/100-1]) }
	return &Latency{MeanPs: sum / int64(n), P50Ps: rank(50), P90Ps: rank(90), P99Ps: rank(99), MaxPs: int64(sorted[n-1])}
}

// fold turns the threads' notes, the trace and the frames into rows, as far as
// the run has come.
func (x *comparison) fold(rec *rig.Recording) ([]Row, error) {
	events, err := rec.Events()
	if err != nil {
		return nil, err
	}
	f, err := os.Open(rec.Frames())
	if err != nil {
		return nil, fmt.Errorf("read the frames: %w", err)
	}
	defer f.Close()
	frames, err := rig.DecodeFrames(f)
	if err != nil {
		return nil, fmt.Errorf("read the frames: %w", err)
	}
	var rows []Row
	for i := range x.stages {
		s := &x.stages[i]
		if slices.ContainsFunc(s.notes, func(n note) bool { return !n.complete }) {
			break
		}
		nodes := x.config.nodes()
		row := Row{Protocol: x.protocol.name, Size: s.size, Window: s.window, Hosts: make([]HostUse, nodes), Wire: make([]WireUse, nodes)}
		for _, n := range s.notes {
			row.Lost += n.lost
			row.Fault = cmp.Or(row.Fault, n.refused)
		}
		row.Verified = row.Fault == ""
		var from, to host.Time
		var counted int // messages that share the account
		var kinds []Row
		if x.config.oneWay() {
			from, to = x.foldOneWay(s, &row)
			counted = (len(s.notes) - 1) * s.total
		} else {
			from, to = s.notes[0].begin, s.notes[0].end
			kinds = x.foldExchange(s, &row)
			counted = s.total - s.warmup
			if s.size > 0 && !x.protocol.read {
				counted *= 2
			}
		}
		spent := make([]host.Account, nodes)
		for j, n := range s.notes {
			node := x.nodeOf(j)
			spent[node] = spent[node].Plus(n.spent)
		}
		for node := range row.Hosts {
			row.Hosts[node] = hostUse(spent[node], counted)
			if to > from {
				row.Hosts[node].BusPpm = int64(1e6*rig.Busy(events, node, layout.TraceEventHostBusStart, layout.TraceEventHostBusEnd, int64(from), int64(to)) + 0.5)
				row.Wire[node] = x.wireUse(sentBy(frames, node), from, to, row.Messages)
			}
		}
		if x.config.switched() {
			row.ToServer = &WireUse{}
			if to > from {
				*row.ToServer = x.wireUse(sentTo(frames, serverNode), from, to, row.Messages)
			}
		}
		rows = append(append(rows, row), kinds...)
	}
	return rows, nil
}

// foldExchange fills in requests and replies, and makes a row for each kind if
// there are several.
func (x *comparison) foldExchange(s *stage, row *Row) (kinds []Row) {
	rounds := s.notes[0].rounds[s.warmup:]
	row.Messages = len(rounds)
	if s.size > 0 {
		// Both messages of a round trip count. A read is one message, and all
		// of its time.
		each := 2
		if x.protocol.read {
			each = 1
		}
		halves := make([]host.Time, len(rounds))
		for i, r := range rounds {
			halves[i] = r / host.Time(each)
			if r < 0 {
				halves[i] = r
			}
		}
		row.Messages *= each
		if row.Latency = latencyOf(halves); row.Latency != nil {
			row.BytesPerSec = report.BytesPerSecond(s.size, row.Latency.MeanPs)
		}
		return nil
	}
	row.Latency = latencyOf(rounds)
	sum := 0
	byKind := make([][]host.Time, len(x.config.Mix))
	for i, r := range rounds {
		kind := s.kinds[s.warmup+i]
		byKind[kind] = append(byKind[kind], r)
		if r >= 0 {
			sum += x.config.Mix[kind].Request + x.config.Mix[kind].Reply
		}
	}
	row.BytesPerSec = report.BytesPerSecond(sum, int64(s.notes[0].end-s.notes[0].begin))
	if len(byKind) < 2 {
		return nil
	}
	for kind, times := range byKind {
		lost := len(times) - len(slices.DeleteFunc(slices.Clone(times), func(t host.Time) bool { return t < 0 }))
		kinds = append(kinds, Row{
			Protocol: row.Protocol, Kind: &x.config.Mix[kind], Messages: len(times), Lost: lost, Latency: latencyOf(times), Verified: row.Verified,
		})
	}
	return kinds
}

// foldOneWay fills in messages one way, and returns the span of the rate.
func (x *comparison) foldOneWay(s *stage, row *Row) (from, to host.Time) {
	came := s.notes[len(s.notes)-1].came
	var took []host.Time
	for j, times := range came {
		for k, t := range times {
			if k >= s.warmup && t >= 0 {
				took = append(took, t-s.notes[j].sent[k])
			}
		}
	}
	row.Latency = latencyOf(took)
	from, to = s.steadySpan()
	counts, n := countIn(came, from, to)
	// With few messages there is no such span, or one that holds a burst and
	// says nothing.
	begin, end := s.notes[0].begin, slices.Max(slices.Concat(came...))
	if row.Steady = 2*n >= len(took) && 2*(to-from) >= end-begin; !row.Steady {
		from, to = begin, end
		counts, n = countIn(came, from, to)
	}
	row.Messages = n
	row.BytesPerSec = report.BytesPerSecond(n*s.size, int64(to-from))
	if x.config.Pattern == PatternManyToOne {
		for _, c := range counts {
			row.Clients = append(row.Clients, report.BytesPerSecond(c*s.size, int64(to-from)))
		}
		row.FairnessPpm = fairness(row.Clients)
	}
	return from, to
}

// steadySpan is when every sender has something to send: from the first arrival
// of a counted message until the first sender has sent its last. What comes
// later drains what lies between them.
func (s *stage) steadySpan() (from, to host.Time) {
	from, to = host.Never, host.Never
	for j, times := range s.notes[len(s.notes)-1].came {
		first := slices.IndexFunc(times[s.warmup:], func(t host.Time) bool { return t >= 0 })
		if first >= 0 {
			from = min(from, times[s.warmup+first])
		}
		sent := s.notes[j].sent
		to = min(to, sent[len(sent)-1])
	}
	return from, to
}

// countIn returns how many messages came after one instant and not after
// another, of each channel and in total.
func countIn(came [][]host.Time, from, to host.Time) (counts []int, all int) {
	counts = make([]int, len(came))
	for j, times := range came {
		for _, t := range times {
			if t > from && t <= to {
				counts[j]++
				all++
			}
		}
	}
	return counts, all
}

// fairness is Jain's index in millionths: the square of the sum over n times
// the sum of squares.
func fairness(rates []int64) int64 {
	var sum, squares float64
	for _, r := range rates {
		sum += float64(r)
		squares += float64(r) * float64(r)
	}
	if squares == 0 {
		return 0
	}
	return int64(1e6*sum*sum/(float64(len(rates))*squares) + 0.5)
}

func hostUse(a host.Account, messages int) HostUse {
	u := HostUse{WorkPs: int64(a.Total()) / int64(messages), PollPs: int64(a[host.LayerPoll]) / int64(messages), Layers: map[string]int64{}}
	for l := range host.Layers {
		if l != host.LayerPoll && a[l] > 0 {
			u.Layers[l.String()] = int64(a[l]) / int64(messages)
		}
	}
	return u
}

func sentBy(frames []rig.Frame, node int) iter.Seq[rig.Frame] {
	return func(yield func(rig.Frame) bool) {
		for _, f := range frames {
			if f.Source == node && !yield(f) {
				return
			}
		}
	}
}

// sentTo are the frames that the switch sends to a node.
func sentTo(frames []rig.Frame, node int) iter.Seq[rig.Frame] {
	return func(yield func(rig.Frame) bool) {
		for _, f := range frames {
			if f.Source == layout.WireSwitch && f.Destination == node && !yield(f) {
				return
			}
		}
	}
}

// wireUse is the use of one direction of a cable by its frames between two
// instants.
func (x *comparison) wireUse(frames iter.Seq[rig.Frame], from, to host.Time, messages int) WireUse {
	around := x.board.Value("WirePreambleBytes") + x.board.Value("WireFcsBytes") + x.board.Value("WireGapBytes")
	byteTime := 8 * x.board.Value("WireBitTime")
	var bytes, used int64
	for f := range frames {
		if f.TimePs >= int64(to) {
			continue
		}
		n := int64(len(f.Bytes)) + around
		if f.TimePs >= int64(from) {
			bytes += n
		}
		used += max(0, min(f.TimePs+n*byteTime, int64(to))-max(f.TimePs, int64(from)))
	}
	return WireUse{Bytes: bytes / int64(max(messages, 1)), Ppm: used * 1_000_000 / int64(to-from)}
}

// Faults returns a sentence for each row with wrong bytes.
func (r *Report) Faults() []string {
	var faults []string
	for _, row := range r.Rows {
		if !row.Verified {
			faults = append(faults, fmt.Sprintf("%s, %s: %s", row.Protocol, row.What(), row.Fault))
		}
	}
	return faults
}

// Measured reports whether there is anything to print.
func (r *Report) Measured() bool { return len(r.Rows) > 0 }

// Failed says why the results are no success; nil if they are.
func (r *Report) Failed() error {
	if faults := r.Faults(); len(faults) > 0 {
		return fmt.Errorf("wrong bytes arrived (seed %d), the first: %s", r.Seed, faults[0])
	}
	return nil
}

// What names the subject of a row.
func (w Row) What() string {
	switch {
	case w.Kind != nil:
		return fmt.Sprintf("%d:%d", w.Kind.Request, w.Kind.Reply)
	case w.Size > 0:
		return fmt.Sprintf("%d bytes", w.Size)
	}
	return "all"
}

// WriteBench writes the report in the format of Go benchmarks, for benchstat.
// Rows of one run are one sample: other seeds give others.
func (r *Report) WriteBench(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "profile: %s\npattern: %s\nlayout: %s\nparams: %s\nrtl: %s\n", r.Profile, r.Pattern, r.Environment.Layout, r.Environment.Params, r.Environment.RTL)
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		fmt.Fprintf(&b, "param-%s: %d\n", strings.ToLower(name), r.Params[name])
	}
	if r.Wire != "" {
		fmt.Fprintf(&b, "wire-faults: %s\n", strings.ReplaceAll(r.Wire, " ", "_"))
	}
	name := map[string]string{PatternPingPong: "PingPong", PatternStream: "Stream", PatternRequestReply: "RequestReply", PatternManyToOne: "ManyToOne"}[r.Pattern]
	for _, row := range r.Rows {
		at := fmt.Sprintf("size=%d", row.Size)
		switch {
		case row.Kind != nil:
			at = fmt.Sprintf("request=%d/reply=%d", row.Kind.Request, row.Kind.Reply)
		case row.Size == 0:
			at = "mix"
		}
		if r.Clients > 0 {
			at += fmt.Sprintf("/clients=%d", r.Clients)
		}
		if r.Nodes > 0 {
			at += fmt.Sprintf("/nodes=%d", r.Nodes)
		}
		fmt.Fprintf(&b, "Benchmark%s/proto=%s/%s %d", name, row.Protocol, at, max(1, row.Messages))
		if l := row.Latency; l != nil {
			fmt.Fprintf(&b, " %s ns/op %s p50-ns/op %s p99-ns/op %s max-ns/op", nanos(l.MeanPs), nanos(l.P50Ps), nanos(l.P99Ps), nanos(l.MaxPs))
		}
		if row.Kind == nil {
			fmt.Fprintf(&b, " %s MB/s %s work-ns/op %s poll-ns/op %s work-ns/B %d wire-B/op", report.Megabytes(row.BytesPerSec), nanos(row.workPs()), nanos(row.pollPs()), row.workPerByte(r), row.wireBytes())
		}
		fmt.Fprintf(&b, " %d lost\n", row.Lost)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// nanos writes picoseconds as nanoseconds without trailing zeros.
func nanos(ps int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%03d", ps/1000, ps%1000), "0"), ".")
}

func (w Row) workPs() (sum int64) {
	for _, h := range w.Hosts {
		sum += h.WorkPs
	}
	return sum
}

func (w Row) pollPs() (sum int64) {
	for _, h := range w.Hosts {
		sum += h.PollPs
	}
	return sum
}

func (w Row) wireBytes() (sum int64) {
	for _, u := range w.Wire {
		sum += u.Bytes
	}
	return sum
}

// workPerByte is the work of both hosts for a payload byte, in ns with two
// decimals.
func (w Row) workPerByte(r *Report) string {
	bytes := int64(w.Size)
	if bytes == 0 {
		bytes = r.meanBytes(w)
	}
	c := (w.workPs() + 5*bytes) / (10 * max(bytes, 1))
	return fmt.Sprintf("%d.%02d", c/100, c%100)
}

// meanBytes are the payload bytes of a mean request and its reply in the mix as
// drawn.
func (r *Report) meanBytes(w Row) int64 {
	var bytes, n int64
	for _, row := range r.Rows {
		if row.Protocol == w.Protocol && row.Kind != nil {
			bytes += int64(row.Messages) * int64(row.Kind.Request+row.Kind.Reply)
			n += int64(row.Messages)
		}
	}
	if n == 0 && len(r.Mix) == 1 {
		return int64(r.Mix[0].Request + r.Mix[0].Reply)
	}
	return bytes / max(n, 1)
}

// titles describe a pattern's times.
var compareTitles = map[string]struct{ title, times, host0, host1 string }{
	PatternPingPong:     {"Ping-pong", "half a round trip", "ping", "pong"},
	PatternStream:       {"Stream, one way", "from the send to the receiver's having it", "sender", "receiver"},
	PatternRequestReply: {"Requests and replies", "from the request to its reply", "client", "server"},
	PatternManyToOne:    {"Many to one", "from the send to the receiver's having it", "senders", "receiver"},
}

// WriteText writes the report as tables, for a terminal of 100 columns.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	title := compareTitles[r.Pattern]
	counted := fmt.Sprintf("%d counted after %d", r.Messages, r.Warmup)
	if r.Messages == 0 {
		counted = "as many messages as their size asks for"
	}
	fmt.Fprintf(&b, "%s, simulated time (profile %s, seed %d, %s)\n", title.title, r.Profile, r.Seed, counted)
	b.WriteString(r.Sources())
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		fmt.Fprintf(&b, "%s is %d in this run\n", name, r.Params[name])
	}
	if r.Wire != "" {
		fmt.Fprintf(&b, "the wire fails in this run: %s\n", r.Wire)
	}
	if r.Nodes > 0 {
		fmt.Fprintf(&b, "%d nodes, each with a cable to a switch: %d send to node %d\n", r.Nodes, r.Clients, serverNode)
	} else if r.Clients > 0 {
		fmt.Fprintf(&b, "%d threads of node 0 send to one of node %d\n", r.Clients, serverNode)
	}
	if len(r.Rows) > 0 {
		r.writeTimes(&b)
		r.writeUse(&b)
		r.writeClients(&b)
	}
	r.writeCounts(&b)
	r.writeWire(&b)
	if len(r.Digests) > 0 {
		b.WriteString("\n")
	}
	for _, d := range r.Digests {
		fmt.Fprintf(&b, "digest %-*s %s  frames %s  wakes %s\n", max(5, r.protocolWidth()), d.Protocol, d.Digest, d.Frames, d.Wakes)
	}
	for _, row := range r.Rows {
		if row.Lost > 0 && row.Kind == nil {
			fmt.Fprintf(&b, "lost: %s, %s: %d messages did not come, or not whole\n", row.Protocol, row.What(), row.Lost)
		}
	}
	for _, row := range r.Rows {
		if (r.Pattern == PatternStream || r.Pattern == PatternManyToOne) && !row.Steady {
			fmt.Fprintf(&b, "short: %s, %s: too few messages to be steady; the rate is that of all\n", row.Protocol, row.What())
		}
	}
	for _, f := range r.Faults() {
		fmt.Fprintf(&b, "wrong: %s\n", f)
	}
	if r.Error != nil {
		fmt.Fprintf(&b, "not complete: %s\n", r.Error.Message)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ordered are the rows by subject, so that protocols stand beside each other.
func (r *Report) ordered() []Row {
	var keys []string
	for _, row := range r.Rows {
		if !slices.Contains(keys, row.What()) {
			keys = append(keys, row.What())
		}
	}
	rows := slices.Clone(r.Rows)
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Compare(slices.Index(keys, a.What()), slices.Index(keys, b.What()))
	})
	return rows
}

// table writes lines of cells, the first ones as heads, with an empty line
// where the first cell changes; equal first cells appear once.
func table(b *strings.Builder, heads int, widths []int, lines [][]string) {
	last := ""
	for i, cells := range lines {
		var line strings.Builder
		for j, c := range cells {
			if j == 0 && i >= heads {
				if c == last {
					c = ""
				} else if last = c; i > heads {
					b.WriteString("\n")
				}
			}
			if j > 0 {
				line.WriteString(" ")
			}
			if j < 2 {
				fmt.Fprintf(&line, "%-*s", widths[j], c)
			} else {
				fmt.Fprintf(&line, "%*s", widths[j], c)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

func (r *Report) writeTimes(b *strings.Builder) {
	title := compareTitles[r.Pattern]
	uses, heads := "use of each node's system bus, and of the wire by what each node sends", []string{"bus 0", "bus 1", "wire0", "wire1"}
	if r.Nodes > 0 {
		uses, heads = "use of the senders' system buses (mean) and the receiver's, of the cables from the senders to the\nswitch (mean), and from there to the receiver", []string{"buses", "bus 1", "wires", "wire1"}
	}
	fmt.Fprintf(b, "\nTimes %s; bandwidth of payload;\n%s:\n", title.times, uses)
	lines := [][]string{
		append(append([]string{"", "", "mean", "p50", "p90", "p99", "max", ""}, heads...), ""),
		{r.unit(), "", "us", "us", "us", "us", "us", "MB/s", "%", "%", "%", "%", "lost"},
	}
	for _, row := range r.ordered() {
		cells := []string{strings.TrimSuffix(row.What(), " bytes"), row.Protocol}
		if l := row.Latency; l != nil {
			for _, ps := range []int64{l.MeanPs, l.P50Ps, l.P90Ps, l.P99Ps, l.MaxPs} {
				cells = append(cells, shortMicros(ps))
			}
		} else {
			cells = append(cells, "-", "-", "-", "-", "-")
		}
		if row.Kind != nil {
			lines = append(lines, append(cells, "", "", "", "", "", fmt.Sprint(row.Lost)))
			continue
		}
		senders, wire := row.senders()
		cells = append(cells, report.Megabytes(row.BytesPerSec), percent(senders.BusPpm), percent(row.Hosts[serverNode].BusPpm), percent(wire.Ppm), percent(cmp.Or(row.ToServer, &row.Wire[serverNode]).Ppm))
		lines = append(lines, append(cells, fmt.Sprint(row.Lost)))
	}
	table(b, 2, []int{r.labelWidth(), r.protocolWidth(), 8, 8, 8, 8, 8, 7, 5, 5, 5, 5, 4}, lines)
}

// shortMicros is us in at most eight characters, if possible.
func shortMicros(ps int64) string {
	text := report.Micros(ps)
	for digits := 2; len(text) > 8 && digits >= 0; digits-- {
		unit := int64(1_000_000)
		for range digits {
			unit /= 10
		}
		n := (ps + unit/2) / unit
		text = fmt.Sprint(n * unit / 1_000_000)
		if digits > 0 {
			text += fmt.Sprintf(".%0*d", digits, n%(1_000_000/unit))
		}
	}
	return text
}

func (r *Report) unit() string {
	if r.Pattern == PatternRequestReply {
		return "req:reply"
	}
	return "bytes"
}

func (r *Report) labelWidth() int {
	n := len(r.unit())
	for _, row := range r.Rows {
		n = max(n, len(strings.TrimSuffix(row.What(), " bytes")))
	}
	return n
}

// protocolWidth is the width of the column with the protocols' names.
func (r *Report) protocolWidth() int {
	n := 4
	for _, row := range r.Rows {
		n = max(n, len(row.Protocol))
	}
	return n
}

// senders are the initiating hosts as one: their work for a message, the sum of
// all shares, and the mean use of their buses and cables.
func (w Row) senders() (HostUse, WireUse) {
	u, wire := HostUse{Layers: map[string]int64{}}, WireUse{}
	n := int64(len(w.Hosts) - 1)
	for node, h := range w.Hosts {
		if node == serverNode {
			continue
		}
		u.WorkPs += h.WorkPs
		u.PollPs += h.PollPs
		u.BusPpm += h.BusPpm
		for l, ps := range h.Layers {
			u.Layers[l] += ps
		}
		wire.Bytes += w.Wire[node].Bytes
		wire.Ppm += w.Wire[node].Ppm
	}
	u.BusPpm /= n
	wire.Ppm /= n
	return u, wire
}

func percent(ppm int64) string {
	c := (ppm + 500) / 1000
	return fmt.Sprintf("%d.%d", c/10, c%10)
}

// Columns of the work by layer. An agent's work for registrations and
// connections is on no message's path.
var workLayers = []struct {
	layer host.Layer
	title string
	width int
}{
	{host.LayerLibrary, "library", 7},
	{host.LayerTrap, "trap", 7},
	{host.LayerCopy, "copy", 8},
	{host.LayerInterrupt, "intr", 7},
	{host.LayerProtocol, "protocol", 8},
	{host.LayerSwitch, "switch", 7},
}

func (r *Report) writeUse(b *strings.Builder) {
	title := compareTitles[r.Pattern]
	what := "a message"
	if r.Pattern == PatternRequestReply {
		what = "a request and its reply"
	}
	fmt.Fprintf(b, "\nWork of the processors for %s: of each, of both for a byte, of both by layer;\n"+
		"polling is what loops take that look and find nothing, and is no work:\n", what)
	lines := [][]string{{"", "", title.host0, title.host1, "both"}, {r.unit(), "", "us", "us", "ns/B"}}
	widths := []int{r.labelWidth(), r.protocolWidth(), 8, 8, 7}
	for _, l := range workLayers {
		lines[0], lines[1], widths = append(lines[0], l.title), append(lines[1], "us"), append(widths, l.width)
	}
	lines[0], lines[1], widths = append(lines[0], "polling"), append(lines[1], "us"), append(widths, 8)
	for _, row := range r.ordered() {
		if row.Kind != nil {
			continue
		}
		senders, _ := row.senders()
		server := row.Hosts[serverNode]
		cells := []string{strings.TrimSuffix(row.What(), " bytes"), row.Protocol, shortMicros(senders.WorkPs), shortMicros(server.WorkPs), row.workPerByte(r)}
		for _, l := range workLayers {
			cells = append(cells, shortMicros(senders.Layers[l.layer.String()]+server.Layers[l.layer.String()]))
		}
		lines = append(lines, append(cells, shortMicros(row.pollPs())))
	}
	table(b, 2, widths, lines)
}

// clientsInLine is how many senders' rates fit into a line of the terminal.
const clientsInLine = 8

func (r *Report) writeClients(b *strings.Builder) {
	if r.Clients == 0 {
		return
	}
	b.WriteString("\nEach sender's MB/s while all of them send; fairness is Jain's index, 1 when all are equal:\n")
	widths := []int{r.labelWidth(), r.protocolWidth(), 8}
	for range clientsInLine {
		widths = append(widths, 8)
	}
	// fold makes lines of the given number of cells of clients.
	fold := func(lines [][]string, cells, clients []string) [][]string {
		for part := range slices.Chunk(clients, clientsInLine) {
			lines = append(lines, append(slices.Clone(cells), part...))
			cells = []string{cells[0], "", ""}
		}
		return lines
	}
	var names []string
	for i := range r.Clients {
		names = append(names, fmt.Sprint(i))
	}
	lines := fold(nil, []string{r.unit(), "", "fairness"}, names)
	for i := 1; i < len(lines); i++ {
		lines[i][0] = ""
	}
	heads := len(lines)
	for _, row := range r.ordered() {
		var rates []string
		for _, c := range row.Clients {
			rates = append(rates, report.Megabytes(c))
		}
		lines = fold(lines, []string{fmt.Sprint(row.Size), row.Protocol, fmt.Sprintf("%d.%03d", row.FairnessPpm/1_000_000, row.FairnessPpm%1_000_000/1000)}, rates)
	}
	table(b, heads, widths, lines)
}

// writeCounts reports overruns, and what was done about them.
func (r *Report) writeCounts(b *strings.Builder) {
	columns := []layout.Counter{
		layout.CounterMacReceiveOverrun, layout.CounterReceiveOutOfOrder, layout.CounterRewind, layout.CounterRetryTimeout, layout.CounterRetransmitFrame,
	}
	lines := [][]string{{"", "node", "no room", "overrun", "behind", "back", "timeouts", "again"}}
	for _, d := range r.Digests {
		for n, c := range d.Nodes {
			cells, any := []string{d.Protocol, fmt.Sprint(n), fmt.Sprint(c.NoRoom)}, c.NoRoom
			for _, k := range columns {
				v := c.Card[k.String()]
				cells, any = append(cells, fmt.Sprint(v)), any|v
			}
			if any != 0 {
				lines = append(lines, cells)
			}
		}
	}
	if len(lines) == 1 {
		return
	}
	b.WriteString("\nFrames for a node for which the switch had no room, or its MAC (overrun), and those that came behind\n" +
		"a gap; of the node's reliable connections, times back for a gap, timeouts, and frames sent again:\n")
	table(b, 1, []int{r.protocolWidth(), 4, 8, 8, 8, 8, 8, 8}, lines)
}
