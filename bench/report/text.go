// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"hvia/params"
)

// Megabytes writes a rate in MB/s with two decimals, in integers so that no
// machine prints another digit.
func Megabytes(bytesPerSec int64) string {
	c := (bytesPerSec + 5_000) / 10_000
	return fmt.Sprintf("%d.%02d", c/100, c%100)
}

// writeFirstWrites writes the times to the first byte in a peer's memory.
func writeFirstWrites(b *strings.Builder, rows []FirstWriteResult) {
	if len(rows) == 0 {
		return
	}
	b.WriteString("\nFrom the connect request to the first RDMA write in the server's memory, in us; the server\nadvertises its region in the connection, or sends its address afterwards:\n")
	fmt.Fprintf(b, "%8s %12s %12s %12s %12s\n", "size", "connected", "advertised", "sent", "gain")
	for _, r := range rows {
		fmt.Fprintf(b, "%8d %12s %12s %12s %12s\n", r.Size, Micros(r.ConnectPs), Micros(r.OffersPs), Micros(r.MessagePs), Micros(r.MessagePs-r.OffersPs))
	}
}

// WriteText writes all tables of the report. Simulated and wall time stand in
// separate columns.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	if r.writeHead(&b, "RDMA write ping-pong, one-way = RTT/2") {
		writeRows(&b, r.Results.RDMAWrite, r.Wall.RDMAWrite, nil)
	}
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
		fmt.Fprintf(&b, "\n%d-byte bursts without a pause: system bus %.1f MB/s, MAC bus %.1f MB/s\n", params.DmaBurstBytes, float64(u.SystemBytesPerSec)/1e6, float64(u.MACBytesPerSec)/1e6)
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
		fmt.Fprintf(b, "%8d %12s %12s %12s %10.2f  %s\n", m.Size, Micros(m.HalfRTTPs), Micros(m.HardwarePs), Micros(m.HostPs), float64(m.BytesPerSec)/1e6, check)
	}
}

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
// says whether all of these rows were verified.
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
	return Micros(p.HalfRTTPs), fmt.Sprintf("%.2f", float64(p.BytesPerSec)/1e6)
}

func share(rows []TimeShare, name string) string {
	for _, s := range rows {
		if s.Name == name {
			return Micros(s.Ps)
		}
	}
	return "-"
}

// writePaths writes where a short message's time goes, a column for each
// protocol.
func writePaths(b *strings.Builder, list []MessagePath) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "\nWhere the half round trip of a message of %d bytes goes, in us:\n%-14s", list[0].Size, "")
	for _, p := range list {
		fmt.Fprintf(b, " %12s", ProtocolName(p.Protocol))
	}
	b.WriteString("\n")
	for _, name := range PathSteps {
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
		fmt.Fprintf(b, " %12s", Micros(p.HalfRTTPs))
	}
	b.WriteString("\n")
}

// writeAccounts writes the accounts of a message, a column for each protocol
// and size.
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
	row("processor", func(a MessageAccount) string { return Micros(a.ProcessorPs) })
	row("(polling)", func(a MessageAccount) string { return Micros(a.PollPs) })
	row("buses", func(a MessageAccount) string { return Micros(a.BusPs) })
	row("wire", func(a MessageAccount) string { return Micros(a.WirePs) })
	row("frames", func(a MessageAccount) string { return Number(&a.Frames) })
}

// writeRows writes a table. With rows to compare, a column has the difference
// of half round trips to theirs.
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
		fmt.Fprintf(b, "%8d %12s %12s %12s %10.2f  %-5s", m.Size, Micros(m.HalfRTTPs), Micros(m.HardwarePs), Micros(m.HostPs), float64(m.BytesPerSec)/1e6, check)
		if less != nil {
			gap := "-"
			if o, _ := ofSize(m.Size, less); o[0] != nil {
				gap = Micros(m.HalfRTTPs - o[0].HalfRTTPs)
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
		fmt.Fprintf(b, "%12s us  %s\n", Micros(row.MeanPs), row.Name)
		sum += row.MeanPs
	}
	fmt.Fprintf(b, "%12s us  from the doorbell's store to the %s\n", Micros(sum), until)
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
			wait = Micros(waits[k].MeanPs)
		}
		fmt.Fprintf(b, "%8d %12s %12s %12s %12s\n", p.Size, Micros(p.MeanPs), Micros(p.MinPs), Micros(p.MaxPs), wait)
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
	fmt.Fprintf(b, "\nWhere the half round trip of an RDMA write of %d bytes goes (mean, from programs and trace port)%s:\n", WaterfallSize, allows)
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
			allowed = Micros(row.BudgetPs)
		}
		line(fmt.Sprintf("%12s", Micros(row.MeanPs)), allowed, row.Name)
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
		fmt.Fprintf(b, "%-4s %-56s %7s %10s %10s %8s to %7s  %-11s %s\n", t.ID, t.Quantity+", "+t.Unit, Number(t.Paper), Number(t.Predicted), Number(&t.Calibrated),
			Number(&t.Low), Number(&t.High), KindWord(t.Kind), word(t.OK))
	}
}

// writeModelCurve writes the model's curve, which is not the paper's.
func writeModelCurve(b *strings.Builder, list []ModelPoint) {
	if len(list) == 0 {
		return
	}
	b.WriteString("\nBeside the model (docs/explanation/reproduction.md), half RTT (not in the paper, which prints no points between the ends):\n")
	fmt.Fprintf(b, "%8s %-13s %12s %12s %9s %8s\n%8s %-13s %12s %12s %9s %8s\n", "size", "", "model", "measured", "differ", "accepted", "bytes", "", "us", "us", "%", "%")
	for _, m := range list {
		fmt.Fprintf(b, "%8d %-13s %12s %12s %+9.1f %8.0f  %s\n", m.Size, m.Protocol, Micros(m.ModelPs), Micros(m.MeasuredPs),
			100*float64(m.MeasuredPs-m.ModelPs)/float64(m.ModelPs), 100*m.Band, word(m.OK))
	}
}

// Micros writes picoseconds as microseconds, rounded to the nanosecond, in
// integers so that no machine prints another digit.
func Micros(ps int64) string {
	sign := ""
	if ps < 0 {
		sign, ps = "-", -ps
	}
	ns := (ps + 500) / 1000
	return fmt.Sprintf("%s%d.%03d", sign, ns/1000, ns%1000)
}

func (r *Report) writeDigests(b *strings.Builder) {
	if len(r.Results.Digests) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%-14s %-16s  %s\n", "digest of", "frames", "wakes")
	for _, d := range r.Results.Digests {
		fmt.Fprintf(b, "%-14s %s  %s\n", d.Run, d.Frames, d.Wakes)
	}
}

// writeReads writes RDMA reads beside RDMA writes of the same level.
func writeReads(b *strings.Builder, reads, writes []PingPongResult) {
	if len(reads) == 0 {
		return
	}
	b.WriteString("\nRDMA read over a VI of reliable delivery, from PostSend to its completion, beside the half RTT of an RDMA write there:\n")
	fmt.Fprintf(b, "%8s %12s %12s %10s  %10s %10s  %s\n%8s %12s %12s %10s  %10s %10s\n", "size", "read", "write", "read is", "read", "write", "check", "bytes", "us", "us", "times", "MB/s", "MB/s")
	for _, p := range reads {
		rows, check := ofSize(p.Size, reads, writes)
		read, readRate := rows[0].cells()
		write, writeRate := rows[1].cells()
		times := "-"
		if rows[1] != nil && rows[1].HalfRTTPs > 0 {
			times = fmt.Sprintf("%.2f", float64(p.HalfRTTPs)/float64(rows[1].HalfRTTPs))
		}
		fmt.Fprintf(b, "%8d %12s %12s %10s  %10s %10s  %s\n", p.Size, read, write, times, readRate, writeRate, check)
	}
	if s := ReadSentence(reads, writes); s != "" {
		fmt.Fprintf(b, "%s\n", s)
	}
}

// ReadSentence compares RDMA reads with RDMA writes at 4 bytes and at 64 KiB.
// It is empty unless both sizes were measured with both operations.
func ReadSentence(reads, writes []PingPongResult) string {
	var cells []any
	for _, n := range []int{PaperSizes[0], PaperSizes[len(PaperSizes)-1]} {
		read, ok := HalfRTT(reads, n)
		write, also := HalfRTT(writes, n)
		if !ok || !also || write <= 0 {
			return ""
		}
		cells = append(cells, Micros(read), Micros(write), float64(read)/float64(write), Micros(read-write))
	}
	return fmt.Sprintf("A read of 4 bytes takes %s us, a write %s us: %.2f times, %s us more. At 64 KiB a read takes %s us, a write %s us: %.2f times, %s us more.", cells...)
}
