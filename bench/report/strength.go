// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
)

// GainPoint is how much more bandwidth an RDMA write has than a send and
// receive, in MB/s. A computed one is of a message longer than the card can
// send, from the line through the longest two measured writes and the
// difference of latency at the longest.
type GainPoint struct {
	Size     int     `json:"size"`
	Gain     float64 `json:"gain"`
	Computed bool    `json:"computed,omitempty"`
}

// TenthSize is near the size where the gain of short messages is the paper's
// smallest, 0.1 MB/s; longGainSize is the largest size that a reading of the
// paper needs.
const (
	TenthSize    = 7
	tenthGain    = 0.1
	longGainSize = 256 << 10
)

// GainAt is the gain at a size in MB/s, from half round trips in ps.
func GainAt(size int, write, send int64) float64 {
	return float64(size)/Microseconds(write) - float64(size)/Microseconds(send)
}

// addGains adds the gains that both readings of the paper's sentence need: at
// the smallest and largest measured sizes, and beyond them.
func (r *Results) addGains() {
	if len(r.Gains) == 0 {
		return
	}
	n := len(PaperSizes)
	short, near, long := PaperSizes[0], PaperSizes[n-2], PaperSizes[n-1]
	var write, send [3]int64
	for i, size := range []int{short, near, long} {
		var ok, also bool
		write[i], ok = HalfRTT(r.RDMAWrite, size)
		send[i], also = HalfRTT(r.SendReceive, size)
		if !ok || !also || write[i] <= 0 || send[i] <= 0 {
			return
		}
	}
	computed := func(size int) float64 {
		t := write[2] + (write[2]-write[1])*int64(size-long)/int64(long-near)
		return GainAt(size, t, t+send[2]-write[2])
	}
	r.Gains = append([]GainPoint{{Size: short, Gain: Rounded(GainAt(short, write[0], send[0]))}}, r.Gains...)
	r.Gains = append(r.Gains, GainPoint{Size: long, Gain: Rounded(GainAt(long, write[2], send[2]))}, GainPoint{Size: longGainSize, Gain: Rounded(computed(longGainSize)), Computed: true})
	for size := long; size <= 16*longGainSize; size += 1 << 10 {
		if g := computed(size); g <= tenthGain {
			r.Gains = append(r.Gains, GainPoint{Size: size, Gain: Rounded(g), Computed: true})
			return
		}
	}
}

var kindWords = map[string]string{KindPrediction: "predicted", KindCalibration: "fitted", KindDerived: "derived"}

// KindWord is the word for a kind of target.
func KindWord(kind string) string {
	if w, ok := kindWords[kind]; ok {
		return w
	}
	return kind
}

// Strength says how strong the targets are: what a reader must know before
// taking a met row for a result. docs/explanation/reproduction.md says more.
func (r *Report) Strength() []string {
	if len(r.Results.Targets) == 0 {
		return nil
	}
	count := map[string]int{}
	withNumber := 0
	for _, t := range r.Results.Targets {
		count[t.Kind]++
		if t.Kind == KindPrediction && t.Paper != nil {
			withNumber++
		}
	}
	list := []string{
		fmt.Sprintf("Of %d rows %d are fitted (a parameter was set so that they come out), %d derived (quotients of other rows) and %d predicted (nothing was fitted to them); %d of the predicted have a number in the paper.",
			len(r.Results.Targets), count[KindCalibration], count[KindDerived], count[KindPrediction], withNumber),
		"The paper prints no size for its largest bandwidths and no list of sizes: 65,536 bytes and the 12 lengths are this project's reading.",
		"T8 (Figure 11) is a charged constant by construction and says nothing about the card.",
	}
	if s := r.charged(); s != "" {
		list = append(list, s)
	}
	return append(list, r.Results.readings()...)
}

// charged states the share of constants in the baselines' latency.
func (r *Report) charged() string {
	var parts []string
	for _, protocol := range []string{ProtocolMvia, ProtocolTCP} {
		k := slices.IndexFunc(r.Results.Paths, func(p MessagePath) bool { return p.Protocol == protocol })
		if k < 0 || r.Results.Paths[k].HalfRTTPs <= 0 {
			return ""
		}
		p := r.Results.Paths[k]
		left := p.HalfRTTPs
		for _, row := range p.Rows {
			if row.Name == StepBus || row.Name == StepWire || row.Name == StepRest {
				left -= row.Ps
			}
		}
		parts = append(parts, fmt.Sprintf("%d %% of %s's", (100*left+p.HalfRTTPs/2)/p.HalfRTTPs, ProtocolName(protocol)))
	}
	text := fmt.Sprintf("Charged costs are %s half round trip of %d bytes", strings.Join(parts, " and "), WaterfallSize)
	for _, p := range r.Numbers {
		if p.Name == "TcpWakeTime" {
			text += fmt.Sprintf("; %.0f us of TCP/IP's are its wake, which is fitted to T2 and unexplained", Microseconds(p.Value))
		}
	}
	return text + "."
}

// readings are both readings of the paper's sentence on the gain.
func (r *Results) readings() []string {
	var short, tenth, long, longer, last *GainPoint
	for i := range r.Gains {
		switch g := &r.Gains[i]; {
		case g.Size == PaperSizes[0]:
			short = g
		case g.Size == TenthSize:
			tenth = g
		case g.Size == PaperSizes[len(PaperSizes)-1]:
			long = g
		case g.Size == longGainSize:
			longer = g
		case g.Computed:
			last = g
		}
	}
	if short == nil || tenth == nil || long == nil || longer == nil || last == nil {
		return nil
	}
	return []string{
		fmt.Sprintf("T7, gain: measured %.2f MB/s at %d bytes, %.2f at %d bytes and %.2f at 64 KiB; computed, not measured, because the card's limit is 64 KiB: %.2f at 256 KiB, %.2f at %d KiB.",
			short.Gain, short.Size, tenth.Gain, tenth.Size, long.Gain, longer.Gain, last.Gain, last.Size>>10),
		fmt.Sprintf("The paper's “1.4 to 0.1 MB/s depending on the size” can be read in two ways. If 0.1 is the smallest gain, it is at the short end, and T7 is %s. If the gain shrinks to 0.1 as the size grows, it is %.2f at 64 KiB, and T7 is %s.",
			t7Word(short.Gain), long.Gain, t7Word(long.Gain)),
	}
}

// A gain in this range is printed as 0.1.
const tenthLow, tenthHigh = 0.05, 0.15

// t7Word says whether a gain meets T7 under one reading of the paper.
func t7Word(gain float64) string {
	if tenthLow <= gain && gain <= tenthHigh {
		return "met"
	}
	return "missed"
}

// writeStrength writes the sentences below the targets, one a line.
func (r *Report) writeStrength(b *strings.Builder) {
	for _, s := range r.Strength() {
		fmt.Fprintf(b, "- %s\n", s)
	}
}
