// SPDX-License-Identifier: Apache-2.0

package digests

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"hvia/bench/report"
	"hvia/bench/rig"
)

// timedRuns are the runs of reproduce whose times are in the reference.
var timedRuns = []struct{ run, name string }{
	{rig.RDMAWrite.Key(), "RDMA write"}, {rig.SendReceive.Key(), "send and receive"}, {rig.ReliableWrite.Key(), "RDMA write, reliable delivery"}, {rig.RDMARead.Key(), "RDMA read"},
	{rig.MviaSend.Key(), "M-VIA"}, {rig.TCPStream.Key(), "TCP/IP"},
}

// WriteTimes writes latency and bandwidth of every protocol at each size as
// Markdown tables, with a column for each profile in the table.
func (d *Table) WriteTimes(w io.Writer) error {
	var b strings.Builder
	profiles := d.profiles()
	for i, t := range timedRuns {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "| %s |", t.name)
		for _, unit := range []string{"us", "MB/s"} {
			for _, p := range profiles {
				fmt.Fprintf(&b, " `%s`, %s |", p, unit)
			}
		}
		b.WriteString("\n|---:|" + strings.Repeat("---:|", 2*len(profiles)) + "\n")
		for _, n := range report.PaperSizes {
			var times, rates string
			for _, p := range profiles {
				ps, ok := d.halfRTT(p, t.run, n)
				if !ok {
					return fmt.Errorf("digests: no time of %s, %d bytes, profile %s: 'make digests ARGS=--update' records it", t.name, n, p)
				}
				times += fmt.Sprintf(" %s |", report.Micros(ps))
				rates += fmt.Sprintf(" %s |", report.Megabytes(report.BytesPerSecond(n, ps)))
			}
			fmt.Fprintf(&b, "| %d bytes |%s%s\n", n, times, rates)
		}
	}
	b.WriteString("\nRDMA read beside RDMA write, both of reliable delivery:\n\n")
	for _, p := range profiles {
		sentences := report.ReadSentence(d.rows(p, rig.RDMARead), d.rows(p, rig.ReliableWrite))
		fmt.Fprintf(&b, "- `%s`: %s\n", p, strings.Replace(sentences, ". At", ".\n  At", 1))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// rows are the recorded half round trips of a protocol.
func (d *Table) rows(profile string, x rig.Exchange) (rows []report.PingPongResult) {
	for _, n := range report.PaperSizes {
		if ps, ok := d.halfRTT(profile, x.Key(), n); ok {
			rows = append(rows, report.PingPongResult{Size: n, HalfRTTPs: ps})
		}
	}
	return rows
}

func (d *Table) profiles() (names []string) {
	for _, r := range d.Runs {
		if !slices.Contains(names, r.Profile) {
			names = append(names, r.Profile)
		}
	}
	return names
}

func (d *Table) halfRTT(profile, run string, size int) (ps int64, ok bool) {
	for _, r := range d.Runs {
		if r.Profile == profile && r.Workload == workloadReproduce && r.Run == run {
			ps, ok = r.Values[strconv.Itoa(size)+" half_rtt_ps"]
			return ps, ok
		}
	}
	return 0, false
}
