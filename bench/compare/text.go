// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"hvia/bench/report"
	"hvia/host"
	"hvia/layout"
)

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
		fmt.Fprintf(&b, "wire faults of this run: %s\n", r.Wire)
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
			fmt.Fprintf(&b, "lost: %s, %s: %d messages did not arrive, or not complete\n", row.Protocol, row.What(), row.Lost)
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

// ordered returns the rows by subject, so that a table compares protocols line
// by line.
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

// table writes lines of cells; the first lines are heads. A first cell that
// repeats is left blank, and an empty line separates different ones.
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

// senders combines the initiating hosts: the sum of their work per message, and
// the mean use of their buses and cables.
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

// Columns of the work by layer. The agent's work for registrations and
// connections is excluded: it belongs to no message.
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
	fmt.Fprintf(b, "\nCPU time of %s: each host, both hosts per byte, both by layer; polling (loops\n"+
		"that found nothing) is not counted:\n", what)
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
	// fold breaks lines after the given number of clients.
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

// writeCounts reports overruns and retransmissions.
func (r *Report) writeCounts(b *strings.Builder) {
	columns := []layout.Counter{
		layout.CounterMacReceiveOverrun, layout.CounterReceiveOutOfOrder, layout.CounterRewind, layout.CounterRetryTimeout, layout.CounterRetransmitFrame,
	}
	lines := [][]string{{"", "node", "dropped", "overrun", "behind", "rewinds", "timeouts", "retrans"}}
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
	b.WriteString("\nFrames for the node that the full switch dropped or its full MAC (overrun), and frames behind a gap;\n" +
		"of the node's reliable connections, rewinds, timeouts and retransmitted frames:\n")
	table(b, 1, []int{r.protocolWidth(), 4, 8, 8, 8, 8, 8, 8}, lines)
}
