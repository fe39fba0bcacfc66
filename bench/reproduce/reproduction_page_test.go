// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/params"
)

// docs/explanation/reproduction.md explains the bands, budgets and expected
// values of this package, so it must hold the same ones; and its statements
// about the result must follow from the measured values.
func TestReproductionPage(t *testing.T) {
	body, err := os.ReadFile("../../docs/explanation/reproduction.md")
	require.NoError(t, err)
	page := string(body)
	has := func(format string, args ...any) {
		t.Helper()
		text := fmt.Sprintf(format, args...)
		require.True(t, strings.Contains(page, text) || strings.Contains(strings.Join(strings.Fields(page), " "), text), "docs/explanation/reproduction.md does not say %q", text)
	}

	var sum int64
	for name, budget := range latencyBudget {
		has("| %s | %.2f |\n", name, float64(budget)/1e6)
		sum += budget
	}
	has("| | sum | %.2f |", float64(sum)/1e6)
	var steps float64
	for _, m := range regexp.MustCompile(`(?m)^\| \d+ \| [^|]+ \| ([\d.]+) \| \d* *\|`).FindAllStringSubmatch(page, -1) {
		us, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		steps += us
	}
	require.InDelta(t, float64(sum)/1e6, steps, 1e-6, "the steps of the budget")
	for _, v := range variants {
		if f := v.foreseen; f != nil {
			has("| %s | %.2f | %.1f | %.1f | %.1f |\n", v.name, f[figureShort], f[figureFrame], f[figureBandwidth], f[figureSlope])
		}
	}
	for _, name := range []string{"HostPostTime", "HostReceiveWaitTime", "MacReactClocks", "MviaPacketTime", "MviaWakeTime", "TcpPacketTime", "TcpWakeTime",
		"BridgeReadInitialClocks", "BridgeReadWaitEvery", "BridgeWriteWaitEvery", "MacReadWaitEvery", "MacWriteWaitEvery"} {
		require.Contains(t, params.CalibratedTargets, name)
		has("`%s`", name)
	}
	require.Len(t, params.CalibratedTargets, 12, "the page names as many")

	var r report.Results
	measured, err := os.ReadFile("testdata/measured.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(measured, &r))
	for _, x := range r.Targets {
		if x.ID == "T12" || x.ID == "T5" && x.Low == 0 || x.ID == "T8" && x.Low == 0 {
			continue // no number of the paper
		}
		low, high := fmt.Sprint(x.Low), fmt.Sprint(x.High)
		require.True(t, strings.Contains(page, low+" to "+high), "%s, %s: the page has no band %s to %s", x.ID, x.Quantity, low, high)
	}
	for _, p := range r.Paths {
		if p.Protocol != rig.MviaSend.Key() && p.Protocol != rig.TCPStream.Key() {
			continue
		}
		var charged int64
		for _, row := range p.Rows {
			switch row.Name {
			case report.StepBus, report.StepWire, report.StepRest:
			default:
				charged += row.Ps
			}
		}
		has("%.1f", float64(charged)/1e6)
		has("(%.0f %%)", 100*float64(charged)/float64(p.HalfRTTPs))
	}
	checkGains(t, r, has)
}

// checkGains checks the page's extrapolation of the gain of an RDMA write.
func checkGains(t *testing.T, r report.Results, has func(format string, args ...any)) {
	t.Helper()
	half := map[string]map[int]float64{}
	for _, m := range r.ModelCurve {
		if half[m.Protocol] == nil {
			half[m.Protocol] = map[int]float64{}
		}
		half[m.Protocol][m.Size] = report.Microseconds(m.MeasuredPs)
	}
	write, send := half[rig.RDMAWrite.Key()], half[rig.SendReceive.Key()]
	gain := func(size, write, send float64) float64 { return size/write - size/send }
	for _, n := range []int{4, 4096, 65536} {
		has("| %d | %.3f |\n", n, gain(float64(n), write[n], send[n]))
	}
	rate := 32768 / (write[65536] - write[32768])
	fill, gap := write[65536]-65536/rate, send[65536]-write[65536]
	has("a = %.1f us and R = %.1f MB/s", fill, rate)
	has("a gap of %.2f us", gap)
	at := func(size float64) float64 { return gain(size, fill+size/rate, fill+size/rate+gap) }
	has("the gain is %.3f MB/s at 256 KiB", at(262144))
	require.InDelta(t, 0.100, at(305<<10), 0.0005)
	require.InDelta(t, 0.15, at(199<<10), 0.0005)
	has("| %d | 0.10, computed", 305<<10)
	has("0.100 at 305 KiB")
	has("this card would have %.1f", 262144/(fill+262144/rate))
}
