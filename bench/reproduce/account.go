// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/driver"
	"hvia/host"
)

// accountSizes are the lengths of the messages with accounts in the report.
var accountSizes = []int{report.WaterfallSize, pipelineSize}

// spentOn is the processor time of this thread and of the host's agent so far.
func spentOn(t *host.Thread, h *driver.Host) host.Account { return t.Spent().Plus(h.Spent()) }

// accountOf is the account of a message of a size, from the processor time of
// both hosts in the counted rounds and the trace of that time.
func (p *pingPong) accountOf(k int, seen traffic) report.MessageAccount {
	messages := int64(2 * p.config.Iterations)
	spent, window := p.spent[k], p.windows[k]
	a := report.MessageAccount{
		Protocol: p.exchange.Key(), Size: p.sizes[k], HalfRTTPs: int64(p.elapsed[k]) / messages,
		ProcessorPs: int64(spent.Total()) / messages, PollPs: int64(spent[host.LayerPoll]) / messages,
	}
	for l := range host.Layers {
		if l != host.LayerPoll {
			a.Processor = append(a.Processor, report.TimeShare{Name: l.String(), Ps: int64(spent[l]) / messages})
		}
	}
	for _, bus := range seen.bus {
		a.BusPs += within(bus, window)
	}
	var frames int64
	for _, f := range seen.frames {
		if f.start >= window.begin && f.start < window.end {
			frames++
			a.WirePs += f.occupied.length()
		}
	}
	a.BusPs /= messages
	a.WirePs /= messages
	a.Frames = report.Rounded(float64(frames) / float64(messages))
	return a
}

// steps turns shares into rows in the order of the report. The last row is the
// unaccounted rest.
func steps(shares map[string]int64, whole int64) []report.TimeShare {
	var rows []report.TimeShare
	for _, name := range report.PathSteps[:len(report.PathSteps)-1] {
		if shares[name] != 0 {
			rows = append(rows, report.TimeShare{Name: name, Ps: shares[name]})
		}
		whole -= shares[name]
	}
	return append(rows, report.TimeShare{Name: report.StepRest, Ps: whole})
}

// stageSteps maps stages of the card's trace to steps; the others are the
// NIC's.
var stageSteps = map[string]string{
	"doorbell posted write": report.StepBus, "system PCI read, descriptor": report.StepBus, "system PCI read, payload": report.StepBus,
	"system PCI write, payload": report.StepBus, "system PCI write, status": report.StepBus, "wire and PHYs": report.StepWire,
}

// cardPath is the path of a short message on the card: the post, the stages of
// the trace, the poll that finds it, and the rest of RecvWait.
func (p *pingPong) cardPath(k int, post int64, sums []int64) report.MessagePath {
	messages := int64(2 * p.config.Iterations)
	half := int64(p.elapsed[k]) / messages
	shares := map[string]int64{host.LayerLibrary.String(): post}
	left := half - post
	for j, s := range p.exchange.Stages() {
		mean := sums[j] / messages
		shares[cmp.Or(stageSteps[s.Name], report.StepNIC)] += mean
		left -= mean
	}
	if !p.exchange.OneSided() {
		done := int64(p.board.Costs().ReceiveDone)
		shares[host.LayerLibrary.String()] += done
		left -= done
	}
	if left < 0 { // the poll saw the data before the card recorded its arrival
		shares[report.StepBus] += left
		left = 0
	}
	shares[host.LayerPoll.String()] = left
	return report.MessagePath{Protocol: p.exchange.Key(), Size: p.sizes[k], HalfRTTPs: half, Rows: steps(shares, half)}
}

// passage is one message of one frame, from the call that sends it to the
// return of the call that receives it.
type passage struct {
	sender      int // node
	call, taken int64
}

// kernelPath is the path of a short message through two kernels and over two
// plain NICs, as the mean of the counted rounds. Every instant belongs to the
// first step that claims it.
func (p *pingPong) kernelPath(k int, seen traffic) (report.MessagePath, error) {
	messages := int64(2 * p.config.Iterations)
	shares := map[string]int64{}
	var whole int64
	for i := k*p.rounds() + p.config.Warmup; i < (k+1)*p.rounds(); i++ {
		for _, m := range []passage{{0, int64(p.calls[i]), int64(p.arrivals[1][i])}, {1, int64(p.arrivals[1][i]), int64(p.arrivals[0][i])}} {
			claims, err := p.claims(m, seen)
			if err != nil {
				return report.MessagePath{}, fmt.Errorf("%v, %d bytes, message from node %d at %d ps: %w", p.exchange, p.sizes[k], m.sender, m.call, err)
			}
			part, _ := attribute(interval{m.call, m.taken}, claims)
			for name, ps := range part {
				shares[name] += ps
			}
			whole += m.taken - m.call
		}
	}
	for name := range shares {
		shares[name] /= messages
	}
	return report.MessagePath{Protocol: p.exchange.Key(), Size: p.sizes[k], HalfRTTPs: int64(p.elapsed[k]) / messages, Rows: steps(shares, whole/messages)}, nil
}

// claims returns the intervals of the parts of a message's path, by precedence.
func (p *pingPong) claims(m passage, seen traffic) ([]claim, error) {
	sender, receiver := m.sender, 1-m.sender
	var list []claim
	spends := func(of []host.Spending, window interval) {
		for _, s := range of {
			v := interval{int64(s.End - s.Span), int64(s.End)}.clip(window)
			list = append(list, claim{s.Layer.String(), v})
		}
	}
	buses := func(node int, window interval) {
		for _, v := range seen.bus[node] {
			if v = v.clip(window); v.length() > 0 {
				list = append(list, claim{report.StepBus, v})
			}
		}
	}

	// The sender's work ends with that of the packet; then it writes the tail.
	work := p.ledger.of(host.ThreadID{Node: sender, Rank: rig.RankPing}, m.call, m.taken)
	last := slices.IndexFunc(work, func(s host.Spending) bool { return s.Layer == host.LayerProtocol })
	if last < 0 {
		return nil, fmt.Errorf("%w: the sender's thread spends nothing on a packet", rig.ErrTrace)
	}
	tail := int64(work[last].End)
	spends(work[:last+1], interval{m.call, tail})

	// The firmware starts when the tail has arrived. A frame that leaves sooner
	// belongs to another message.
	firmware := p.board.Value("NICTransmitTime")
	k := slices.IndexFunc(seen.frames, func(f wired) bool { return f.node == sender && f.start >= tail+firmware && f.end != rig.NotSeen })
	if k < 0 || seen.frames[k].end > m.taken {
		return nil, fmt.Errorf("%w: no frame between the tail's write and the return", rig.ErrTrace)
	}
	f := seen.frames[k]
	begin := tail
	if j := slices.IndexFunc(seen.bus[sender], func(v interval) bool { return v.begin >= tail }); j >= 0 && seen.bus[sender][j].end+firmware <= f.start {
		begin = seen.bus[sender][j].end
	}
	list = append(list, claim{report.StepNIC, interval{begin, begin + firmware}})
	buses(sender, interval{tail, f.start})
	list = append(list, claim{report.StepWire, interval{f.start, f.end}})
	list = append(list, claim{report.StepNIC, interval{f.end, f.end + p.board.Value("NICReceiveTime")}})

	// The receiver's thread was woken when the message had arrived.
	work = p.ledger.of(host.ThreadID{Node: receiver, Rank: rig.RankPing}, f.end, m.taken)
	there := m.taken
	for _, s := range work {
		if s.Layer == host.LayerSwitch {
			there = int64(s.Asked) - p.wake()
			list = append(list, claim{report.StepWake, interval{there, int64(s.Asked)}})
		}
	}
	spends(work, interval{there, m.taken})
	spends(p.ledger.of(host.ThreadID{Node: receiver, Rank: driver.AgentRank}, f.end, m.taken), interval{f.end, m.taken})
	buses(receiver, interval{f.end, m.taken})
	return list, nil
}

// wake is the time from the wake of a thread in the kernel until it gets the
// processor.
func (p *pingPong) wake() int64 {
	k := p.board.KernelCosts().Kernel
	if p.exchange == rig.TCPStream {
		return int64(k.Tcp.Wake)
	}
	return int64(k.Mvia.Wake)
}

// hostTime is the part of a window in which a processor of either host works in
// a protocol over a plain NIC, or a thread is being woken.
func (p *pingPong) hostTime(window interval) int64 {
	var list []interval
	for _, id := range p.ledger.threads() {
		for _, s := range p.ledger.of(id, window.begin, window.end) {
			list = append(list, interval{int64(s.End - s.Span), int64(s.End)})
			if s.Layer == host.LayerSwitch {
				list = append(list, interval{int64(s.Asked) - p.wake(), int64(s.Asked)})
			}
		}
	}
	return within(list, window)
}

// A verdict carries an account.
const accountBytes = 8 * int(host.Layers)

func encodeAccount(b []byte, a host.Account) []byte {
	for _, ps := range a {
		b = binary.LittleEndian.AppendUint64(b, uint64(ps))
	}
	return b
}

func decodeAccount(b []byte) (a host.Account) {
	for l := range a {
		a[l] = host.Time(binary.LittleEndian.Uint64(b[8*l:]))
	}
	return a
}
