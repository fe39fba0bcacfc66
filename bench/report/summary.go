// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strings"
)

// WriteSummary writes what a reader of the paper needs first: the four
// protocols side by side, where the time of a short message goes, and the
// targets. WriteText has every table.
func (r *Report) WriteSummary(w io.Writer) error {
	var b strings.Builder
	if r.writeHead(&b, "Half round trip and bandwidth") {
		r.writeSideBySide(&b)
	}
	if s := ReadSentence(r.Results.RDMARead, r.Results.ReliableWrite); s != "" {
		fmt.Fprintf(&b, "\nOver a VI of reliable delivery: %s\n", s)
	}
	writePaths(&b, r.Results.Paths)
	writeFirstWrites(&b, r.Results.FirstWrite)
	writeTargets(&b, r.Results.Targets)
	r.writeStrength(&b)
	if curve := r.Results.ModelCurve; len(curve) > 0 {
		inside := 0
		for _, p := range curve {
			if p.OK {
				inside++
			}
		}
		fmt.Fprintf(&b, "\nBetween these points, where the paper prints nothing: %d of %d latencies lie within 5 to 15 %% of the model (docs/explanation/reproduction.md).\n", inside, len(curve))
	}
	r.Results.Ablations.writeText(&b)
	r.writeEnd(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeHead writes the first lines of a text. It reports whether tables of RDMA
// writes follow; a run may have ablations only.
func (r *Report) writeHead(b *strings.Builder, title string) bool {
	tables := len(r.RDMAWrite) > 0
	if !tables {
		title = "The card with parts of its design switched off"
	}
	fmt.Fprintf(b, "%s, simulated time (profile %s, seed %d)\n%s", title, r.Profile, r.Seed, r.Sources())
	if tables {
		b.WriteString("\n")
	}
	return tables
}

// writeSideBySide writes a row for each size and two columns for each protocol.
func (r *Report) writeSideBySide(b *strings.Builder) {
	all := [][]PingPongResult{r.Results.RDMAWrite, r.Results.SendReceive, r.Results.Mvia, r.Results.Tcp}
	heads, units := fmt.Sprintf("%8s", "size"), fmt.Sprintf("%8s", "bytes")
	for i := range all {
		heads += fmt.Sprintf("   %-18s", protocolNames[i].name)
		units += fmt.Sprintf("%12s %8s", "us", "MB/s")
	}
	fmt.Fprintf(b, "%s\n%s  check\n", strings.TrimRight(heads, " "), units)
	for _, first := range r.Results.RDMAWrite {
		rows, check := ofSize(first.Size, all...)
		line := fmt.Sprintf("%8d", first.Size)
		for _, p := range rows {
			half, rate := p.cells()
			line += fmt.Sprintf("%12s %8s", half, rate)
		}
		fmt.Fprintf(b, "%s  %s\n", line, check)
	}
}

// writeEnd writes the lines below all tables.
func (r *Report) writeEnd(b *strings.Builder) {
	fmt.Fprintf(b, "\nwall: %.1f s; the build of the simulator took %.1f s\n", r.Wall.Seconds, r.Wall.BuildSeconds)
	for _, f := range r.Faults() {
		fmt.Fprintf(b, "wrong: %s\n", f)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(b, "note: %s\n", n)
	}
	for _, m := range r.Misses {
		fmt.Fprintf(b, "miss: %s\n", m)
	}
	if r.Error != nil {
		fmt.Fprintf(b, "not complete: %s\n", r.Error.Message)
	}
}
