// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"cmp"
	"fmt"
	"iter"
	"os"
	"slices"

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

// Row is the result of one protocol at one size or for the mix. A row with a
// kind has only the times of one kind of the mix's requests.
type Row struct {
	Protocol    string    `json:"protocol"`
	Size        int       `json:"size,omitempty"`
	Kind        *MixEntry `json:"kind,omitempty"`
	Messages    int       `json:"messages"` // counted ones
	Lost        int       `json:"lost"`     // of all
	Window      int       `json:"window,omitempty"`
	Steady      bool      `json:"steady,omitempty"` // one way: rates cover the span in which all senders were busy, not the whole
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

// HostUse is a host's processor time per message. A round trip counts as two
// messages, a request with its reply as one.
type HostUse struct {
	WorkPs int64            `json:"work_ps"` // of its processor
	PollPs int64            `json:"poll_ps"` // in empty polls
	Layers map[string]int64 `json:"layers"`  // nonzero work, by layer
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

// latencyOf summarizes the times that are not negative; nil if there are none.
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

// fold turns the threads' notes, the trace and the frames of a run, complete or
// not, into rows.
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
			row.Fault = cmp.Or(row.Fault, n.fault)
		}
		row.Verified = row.Fault == ""
		var from, to host.Time
		var counted int // messages in the account
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
	// With few messages this span is empty, or holds a single burst.
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

// steadySpan is the time in which every sender is sending: from the first
// arrival of a counted message until the first sender has sent its last. After
// that only buffers drain.
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

// countIn counts the messages between two instants, of each channel and in
// total.
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

// Failed returns an error if the results are no success.
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
