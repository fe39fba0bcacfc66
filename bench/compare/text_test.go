// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/report"
	"hvia/layout"
	"hvia/sim"
)

// shownCompare is a report with everything that a page can show.
func shownCompare(c Config) *Report {
	pattern := c.Pattern
	c.Params = map[string]int64{"HostPollPeriod": 100_000}
	c.Faults = sim.WireFaults{Faults: []sim.WireFault{{Kind: layout.WireFaultDrop, Frames: sim.FrameSelection{Share: sim.Percent(1)}}}}
	r := NewReport(c, report.Hashes{Layout: "0123456789abcdef", Params: "1123456789abcdef", RTL: "2123456789abcdef"})
	use := func(k int64) ([]HostUse, []WireUse) {
		return []HostUse{
				{WorkPs: 5_250_000 * k, PollPs: 1_000, Layers: map[string]int64{"library": 5_000_000 * k, "copy": 250_000 * k}, BusPpm: 123_449},
				{WorkPs: 2_000_000 * k, PollPs: 20_000_000, Layers: map[string]int64{"interrupt": 2_000_000 * k}, BusPpm: 0},
			},
			[]WireUse{{84 * k, 999_950}, {0, 0}}
	}
	for i, name := range c.Protocols {
		k := int64(10*i + 1)
		for _, size := range []int{4, 65536} {
			row := Row{Protocol: name, Size: size, Messages: 32, Latency: &Latency{12_500_499 * k, 12_500_500 * k, 13_000_000 * k, 14_000_000 * k, 15_000_000 * k}, BytesPerSec: 95_500_000 / k, Verified: true}
			row.Hosts, row.Wire = use(k)
			for n := 2; n < c.Nodes; n++ {
				row.Hosts, row.Wire = append(row.Hosts, row.Hosts[0]), append(row.Wire, WireUse{Ppm: int64(n)})
				row.ToServer = &WireUse{1538, 987_654}
			}
			if pattern == PatternRequestReply {
				row.Size = 0
				if size != 4 {
					continue
				}
			}
			if pattern == PatternManyToOne {
				row.FairnessPpm = 970_123
				for n := range c.Clients {
					row.Clients = append(row.Clients, []int64{30_000_000, 20_000_000, 25_500_000, 20_000_000}[n%4])
				}
			}
			row.Steady = c.oneWay() && size == 4
			if size == 65536 && i == 1 {
				row.Lost, row.Latency = 3, nil
				row.Verified, row.Fault = false, "message 3: byte 4 of 65536 is 0x00, want 0x01"
			}
			r.Rows = append(r.Rows, row)
		}
		if pattern == PatternRequestReply {
			for j := range r.Mix {
				r.Rows = append(r.Rows, Row{Protocol: name, Kind: &r.Mix[j], Messages: 50 * (j + 1), Latency: &Latency{1, 2, 3, 4, 5}, Verified: true})
			}
		}
		digest := Digest{Protocol: name, Digest: fmt.Sprintf("%016x", i), Parts: report.Parts{Frames: fmt.Sprintf("%016x", i+16), Wakes: fmt.Sprintf("%016x", i+32)}}
		retransmitted := []*uint64{nil, new(uint64(15))}[i%2]
		digest.Wire = &WireEffect{2940, map[string]uint64{"drop": 12}, retransmitted}
		if c.switched() {
			digest.Nodes = make([]NodeCounts, c.Nodes)
			digest.Nodes[0].Card = map[string]uint64{"Rewind": 3, "RetryTimeout": 1, "RetransmitFrame": 48, "TransmitFrame": 1000}
			digest.Nodes[1] = NodeCounts{map[string]uint64{"MacReceiveOverrun": 12, "ReceiveOutOfOrder": 30}, 5000, 6, 65536}
			digest.Nodes[2].Card = map[string]uint64{"TransmitFrame": 1000}
		}
		r.Digests = append(r.Digests, digest)
	}
	r.Complete("devel", []string{"compare"}, errors.New("compare: tcp: node 1 went away"))
	return r
}

// The output equals testdata. HVIA_UPDATE=1 rewrites it: check the difference
// before you commit it.
func TestCompareForms(t *testing.T) {
	shown := map[string]Config{}
	for _, pattern := range Patterns() {
		c := DefaultConfig(pattern)
		c.Protocols = []string{"rdma", "tcp"}
		shown[pattern] = c
	}
	many := manyNodes(DefaultConfig(PatternManyToOne), MaxNodes)
	many.Protocols = []string{"rdma", "send-rd"}
	shown["n-to-1-nodes"] = many
	for name, c := range shown {
		r := shownCompare(c)
		var text, json, bench bytes.Buffer
		require.NoError(t, r.WriteText(&text))
		require.NoError(t, report.WriteJSON(&json, r))
		require.NoError(t, r.WriteBench(&bench))
		for form, got := range map[string]string{"txt": text.String(), "json": json.String(), "bench": bench.String()} {
			path := filepath.Join("testdata", name+"."+form)
			if os.Getenv("HVIA_UPDATE") == "1" {
				require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), got, "%s", path)
		}
		for line := range strings.Lines(text.String()) {
			require.LessOrEqual(t, len(strings.TrimRight(line, "\n")), 100, "%s: %s", name, line)
		}
		// benchstat parses a result: a name, a number, and pairs of value and
		// unit.
		for line := range strings.Lines(bench.String()) {
			if strings.HasPrefix(line, "Benchmark") {
				require.Regexp(t, `^Benchmark[A-Za-z]+(/[a-z]+=[a-z0-9-]+|/mix)+ \d+( [0-9.]+ [A-Za-z0-9/-]+)+\n$`, line)
			} else {
				require.Regexp(t, `^[a-z-]+: \S+\n$`, line)
			}
		}
	}
}
