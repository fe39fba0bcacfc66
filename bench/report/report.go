// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"hvia/params"
)

// Schema names the shape of a Report. Keys are added and never renamed.
const Schema = "hvia-report/2"

// Report is the result of a reproduction.
type Report struct {
	Envelope
	Parameters `json:"parameters"`
	Results    `json:"results"`
}

// Results is everything that was measured in simulated time.
type Results struct {
	Notes  []string `json:"notes,omitempty"`  // what a reader must know before using the numbers
	Misses []string `json:"misses,omitempty"` // targets that were missed, one sentence each

	RDMAWrite         []PingPongResult `json:"rdma_write"`
	Stages            *Stages          `json:"stages,omitempty"` // where the hardware time of the shortest message goes
	Digest            string           `json:"digest,omitempty"` // hash over frames, wakes, messages and their times
	SendReceive       []PingPongResult `json:"send_receive"`
	SendReceiveStages *Stages          `json:"send_receive_stages,omitempty"`
	SendReceiveDigest string           `json:"send_receive_digest,omitempty"`

	// Over VIs of reliable delivery, which reads require. HalfRTTPs of a read
	// is its complete time, from PostSend to completion.
	RDMARead      []PingPongResult `json:"rdma_read,omitempty"`
	ReliableWrite []PingPongResult `json:"reliable_write,omitempty"`

	Bursts       *Bursts       `json:"bursts,omitempty"`        // of the RDMA writes, if some are long enough
	CrossTraffic *CrossTraffic `json:"cross_traffic,omitempty"` // the ping-pong beside a second VI's traffic

	// The paper's baselines: the ping-pong by sends and receives on M-VIA, and
	// by a connection of TCP/IP, over plain NICs on the same wire.
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
	Digests     []RunDigest         `json:"digests,omitempty"` // of each run except predictions and ablations
}

// Prediction repeats the experiments with every fitted parameter at its value
// from before the fit, if it has one.
type Prediction struct {
	Parameters  map[string]int64    `json:"parameters"` // those that differ from the fitted ones
	RDMAWrite   []PingPongResult    `json:"rdma_write"`
	SendReceive []PingPongResult    `json:"send_receive"`
	ReceiveWait []ReceiveWaitResult `json:"receive_wait,omitempty"`
	Mvia        []PingPongResult    `json:"mvia,omitempty"`
	Tcp         []PingPongResult    `json:"tcp,omitempty"`
}

// PostReceiveResult is Figure 11 of the paper: processor time of VipPostRecv,
// that is to compose a descriptor, to post it, to ring the doorbell and to
// return, between two readings of the clock. It includes one reading.
type PostReceiveResult struct {
	Size   int   `json:"size"` // of the buffer
	MeanPs int64 `json:"mean_ps"`
	MinPs  int64 `json:"min_ps"`
	MaxPs  int64 `json:"max_ps"`
}

// ReceiveWaitResult is Figure 12 of the paper: the time of a message at the
// receiving side alone, without the network. The wire is held until all frames
// of the message have left the sender. Then they arrive back to back, faster
// than the receiving side drains the MAC, so only that side determines the
// time. The time starts with the MAC's first write of the first frame into the
// card and ends when RecvWait returns.
type ReceiveWaitResult struct {
	Size   int    `json:"size"`
	MeanPs int64  `json:"mean_ps"`
	Fault  string `json:"fault,omitempty"` // the first wrong byte
}

// FirstWriteResult is the time from a client's call of ConnectRequest to the
// server's poll that finds the last byte of an RDMA write over that connection.
// Either the server advertises its region, and the client writes as soon as it
// is connected; or the server sends the region's address and handle when it has
// accepted, and the client writes when it has received them.
type FirstWriteResult struct {
	Size      int    `json:"size"`
	ConnectPs int64  `json:"connect_ps"` // until ConnectRequest returns, with the region advertised
	OffersPs  int64  `json:"offers_ps"`
	MessagePs int64  `json:"message_ps"`
	Fault     string `json:"fault,omitempty"` // the first wrong byte
}

// WaterfallRow is a step of a message from the post to the poll that finds it.
// The budget is from docs/explanation/reproduction.md, 0 if the page has none
// for the step and profile.
type WaterfallRow struct {
	Name     string `json:"name"`
	BudgetPs int64  `json:"budget_ps"`
	MeanPs   int64  `json:"mean_ps"`
}

// Pipeline is one long RDMA write through the five hops, in times since the
// store to the doorbell.
type Pipeline struct {
	Size  int   `json:"size"`
	EndPs int64 `json:"end_ps"` // the last byte is in memory
	Hops  []Hop `json:"hops"`
}

// Hop is one of the five. BusyPpm is the share of the time from 0 to the end in
// which the hop was busy, descriptors and statuses included. Spans are the
// frames of the message, each from the start of its first transaction to the
// end of its last.
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

// Target is a printed figure of the paper beside the measured one. Paper is nil
// where the paper prints no number and docs/explanation/reproduction.md gives
// the band. Predicted is nil where nothing was predicted before the fit. OK
// says whether Calibrated lies in the band.
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

const (
	KindPrediction  = "prediction"  // nothing was fitted to it
	KindCalibration = "calibration" // a parameter was fitted to it
	KindDerived     = "derived"     // a quotient of other rows, of which at least one is fitted
)

// ModelPoint is a measured half round trip beside that of the model behind the
// study of the paper's figures, which is not the paper's. OK says that they
// differ by at most Band, a fraction of the model's.
type ModelPoint struct {
	Size       int     `json:"size"`
	Protocol   string  `json:"protocol"` // rdma_write, send_receive, mvia or tcp
	ModelPs    int64   `json:"model_ps"`
	MeasuredPs int64   `json:"measured_ps"`
	Band       float64 `json:"band"`
	OK         bool    `json:"ok"`
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
	Prior  *int64 `json:"prior,omitempty"` // before the fit, of a fitted parameter with an initial guess
}

// ParametersOf returns all numbers of a table in the form of the report.
func ParametersOf(table []params.Param) []Parameter {
	list := make([]Parameter, len(table))
	for i, p := range table {
		list[i] = Parameter{Name: p.Name, Value: p.Value, Unit: p.Unit, Class: p.Class.String(), Tag: string(p.Tag), Source: p.Source, Doc: p.Doc}
		if p.Prior != 0 {
			list[i].Prior = &p.Prior
		}
	}
	return list
}

// MessageAccount has the processor, bus and wire time of one message of the
// ping-pong on both hosts, as means over the counted rounds.
type MessageAccount struct {
	Protocol    string      `json:"protocol"` // rdma_write, send_receive, mvia or tcp
	Size        int         `json:"size"`
	HalfRTTPs   int64       `json:"half_rtt_ps"`
	ProcessorPs int64       `json:"processor_ps"` // of both hosts, the sum of Processor
	Processor   []TimeShare `json:"processor"`    // by layer
	PollPs      int64       `json:"poll_ps"`      // in polling loops, the rest of a processor's time
	BusPs       int64       `json:"bus_ps"`       // both system buses carried something
	WirePs      int64       `json:"wire_ps"`      // of its frames and their replies, with preamble, FCS and gap
	Frames      float64     `json:"frames"`       // all on the wire
}

type TimeShare struct {
	Name string `json:"name"`
	Ps   int64  `json:"ps"`
}

// MessagePath divides the half round trip of a short message into steps: the
// rows add up to it. The last row is the unaccounted rest.
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
	Verified  bool             `json:"verified"` // the memory after the last of them, both directions
	Fault     string           `json:"fault,omitempty"`
	Digest    string           `json:"digest"`
}

// PingPongResult is the ping-pong of one message length. HalfRTTPs is
// HardwarePs + HostPs, up to the rounding of a half picosecond. The hardware's
// part ends when the memory has what the receiver waits for: the last byte of
// an RDMA write, the status of a receive. It starts with the doorbell's store.
// With M-VIA and TCP/IP the host's part is the time in which a processor of
// either host works or wakes a program.
type PingPongResult struct {
	Size        int    `json:"size"`
	HalfRTTPs   int64  `json:"half_rtt_ps"`
	HardwarePs  int64  `json:"hardware_ps"`
	HostPs      int64  `json:"host_ps"`
	BytesPerSec int64  `json:"bytes_per_s"`
	Verified    bool   `json:"verified"`        // every payload and guard byte of every round
	Fault       string `json:"fault,omitempty"` // the first wrong byte
}

// New starts an empty report.
func New(profile string, seed uint64, hashes Hashes) *Report {
	return &Report{
		Envelope: Envelope{Schema: Schema, Environment: hashes}, Parameters: Parameters{Profile: profile, Seed: seed},
		Results: Results{RDMAWrite: []PingPongResult{}, SendReceive: []PingPongResult{}},
	}
}

// BytesPerSecond is size bytes per ps picoseconds, rounded down; 0 if the size
// or the time is not positive, and the largest number if it does not fit.
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

// Measured reports whether there is anything to print.
func (r *Report) Measured() bool {
	return len(r.RDMAWrite) > 0 || r.Ablations != nil && len(r.Ablations.Variants) > 0
}

// Failed returns an error if the results are no success.
func (r *Report) Failed() error {
	if faults := r.Faults(); len(faults) > 0 {
		return fmt.Errorf("wrong bytes arrived (seed %d), the first: %s", r.Seed, faults[0])
	}
	if !r.Measured() {
		return errors.New("nothing was measured")
	}
	return nil
}

// Faults returns a sentence for each size and experiment with wrong bytes.
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
	return append(faults, r.Results.Ablations.faults()...)
}

// protocolNames are the protocols in the order of tables.
var protocolNames = []struct{ key, name string }{
	{ProtocolRDMAWrite, "RDMA write"}, {ProtocolSendReceive, "send/recv"}, {ProtocolMvia, "M-VIA"}, {ProtocolTCP, "TCP/IP"},
}

const (
	ProtocolRDMAWrite     = "rdma_write"
	ProtocolSendReceive   = "send_receive"
	ProtocolMvia          = "mvia"
	ProtocolTCP           = "tcp"
	ProtocolReliableWrite = "reliable_write"
	ProtocolRDMARead      = "rdma_read"
)

// ProtocolName is the name of a protocol by its key in the report.
func ProtocolName(key string) string {
	for _, p := range protocolNames {
		if p.key == key {
			return p.name
		}
	}
	return key
}

// Bursts are the rates of 512-byte bursts that follow each other without a
// pause: 512 bytes over the time from one burst's start to the next one's.
type Bursts struct {
	SystemBytesPerSec int64 `json:"system_bytes_per_s"`
	MACBytesPerSec    int64 `json:"mac_bytes_per_s"`
}

// PaperSizes are the message lengths of the targets.
var PaperSizes = []int{4, 16, 64, 256, 1024, 1400, 2048, 4096, 8192, 16384, 32768, 65536}

// Stage is one step of a message between two events.
type Stage struct {
	Name   string `json:"name"`
	MeanPs int64  `json:"mean_ps"`
}

// WaterfallSize is the length of the waterfall's message: the shortest.
const WaterfallSize = 4

// Parts are the two parts of a run's digest, as 16 hexadecimal digits each: the
// cards and the wire, and what the hosts saw of them.
type Parts struct {
	Frames string `json:"frames_digest,omitempty"` // hash over every frame on a wire and its time
	Wakes  string `json:"wakes_digest,omitempty"`  // hash over every wake, and the message or reply it brought
}

// RunDigest is the digest of one run of a report.
type RunDigest struct {
	Run string `json:"run"` // key of its results, or receive_side
	Parts
}
