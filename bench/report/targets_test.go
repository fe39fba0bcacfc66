// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// asWanted are results that meet every target: the model's curve with the
// paper's gap, and a RecvWait of 15 us and 9.3 ns a byte.
func asWanted() *Results {
	r := &Results{Bursts: &Bursts{SystemBytesPerSec: 120_000_000, MACBytesPerSec: 117_000_000}}
	for _, m := range modelTable {
		r.RDMAWrite = append(r.RDMAWrite, PingPongResult{Size: m.size, HalfRTTPs: m.write * 100_000})
		r.SendReceive = append(r.SendReceive, PingPongResult{Size: m.size, HalfRTTPs: m.send * 100_000})
		r.Mvia = append(r.Mvia, PingPongResult{Size: m.size, HalfRTTPs: m.mvia * 100_000})
		r.Tcp = append(r.Tcp, PingPongResult{Size: m.size, HalfRTTPs: m.tcp * 100_000})
		r.PostReceive = append(r.PostReceive, PostReceiveResult{m.size, 6_000_000, 6_000_000, 6_000_000})
		r.ReceiveWait = append(r.ReceiveWait, ReceiveWaitResult{Size: m.size, MeanPs: 15_000_000 + 9_300*int64(m.size)})
	}
	return r
}

func missed(list []Target) (ids []string) {
	for _, t := range list {
		if !t.OK {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

func ids(list []Target) (ids []string) {
	for _, t := range list {
		ids = append(ids, t.ID)
	}
	return ids
}

func TestTargetsMet(t *testing.T) {
	r := asWanted()
	list := targetsOf(r, false)
	require.Equal(t, []string{"T1", "T2", "T2", "T3", "T4", "T4", "T5", "T5", "T6", "T7", "T8", "T8", "T9", "T10", "T10", "T11", "T11", "T11", "T11", "T12", "T12"}, ids(list))
	require.Empty(t, missed(list))
	at := map[string]Target{}
	for _, x := range slices.Backward(list) {
		at[x.ID] = x
		require.NotEmpty(t, x.Unit)
		if x.ID != "T12" { // a count of lengths, which must be 0
			require.Less(t, x.Low, x.High)
		}
		require.Contains(t, []string{KindPrediction, KindCalibration, KindDerived}, x.Kind)
	}
	// By hand: 65536 B / 685.9 us; the largest gain lies at 4 KiB, 4096/88.5 -
	// 4096/91.4, the smallest at 4 B, 4/12.7 - 4/15.6.
	require.Equal(t, 12.7, at["T1"].Calibrated)
	require.Equal(t, 95.547, at["T3"].Calibrated)
	require.Equal(t, 2.9, at["T5"].Calibrated)
	require.Equal(t, 1.468, at["T6"].Calibrated)
	require.Equal(t, 0.059, at["T7"].Calibrated)
	require.Equal(t, 9.3, at["T9"].Calibrated)
	require.Nil(t, at["T9"].Paper)
	require.Equal(t, 120.0, at["T10"].Calibrated)
	require.Equal(t, 57.6, at["T2"].Calibrated)
	require.Equal(t, 63.498, at["T4"].Calibrated, "65536 B / 1032.1 us")
	require.Equal(t, 4.535, at["T11"].Calibrated, "57.6 / 12.7")
	require.Equal(t, KindDerived, at["T11"].Kind)
	require.Equal(t, 0.0, at["T12"].Calibrated)
	require.Equal(t, 12.7, *at["T1"].Predicted, "nothing was fitted: it is a prediction")
	require.Nil(t, at["T5"].Predicted, "its level was fitted")
	require.Equal(t, KindPrediction, at["T3"].Kind)
}

// With a fitted parameter off its prior, predictions come from the run before
// the fit, and the bandwidth is a calibration.
func TestTargetsAfterAFit(t *testing.T) {
	r := asWanted()
	list := targetsOf(r, true)
	for _, x := range list {
		require.Nil(t, x.Predicted, "%s: there was no run before the fit", x.ID)
	}
	before := asWanted()
	for i := range before.RDMAWrite {
		before.RDMAWrite[i].HalfRTTPs -= 600_000
		before.SendReceive[i].HalfRTTPs -= 500_000
	}
	before.Mvia[0].HalfRTTPs = 55_000_000
	r.Prediction = &Prediction{RDMAWrite: before.RDMAWrite, SendReceive: before.SendReceive, Mvia: before.Mvia}
	list = targetsOf(r, true)
	require.Equal(t, []string{"T2", "T2"}, ids(list[1:3]))
	require.Equal(t, 55.0, *list[1].Predicted)
	require.Equal(t, 57.6, list[1].Calibrated)
	require.Nil(t, list[2].Predicted, "TCP/IP was not measured before the fit")
	r.Mvia, r.Tcp = nil, nil
	list = targetsOf(r, true)
	require.Equal(t, KindCalibration, list[1].Kind)
	require.Equal(t, 12.1, *list[0].Predicted)
	require.Equal(t, 12.7, list[0].Calibrated)
	require.Equal(t, Rounded(65536/685.3), *list[1].Predicted)
	require.Nil(t, list[2].Predicted)
	require.Equal(t, 0.0, *list[3].Predicted, "flat")
	require.Nil(t, list[8].Predicted, "T9: not measured before the fit")
}

// Each target is missed by what violates it, and no other is.
func TestTargetsMissed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Results)
		want   []string
	}{
		{"slow", func(r *Results) { r.RDMAWrite[0].HalfRTTPs = 13_150_000; r.SendReceive[0].HalfRTTPs = 16_050_000 }, []string{"T1"}},
		{"too fast to be true", func(r *Results) { r.RDMAWrite[0].HalfRTTPs = 11_800_000; r.SendReceive[0].HalfRTTPs = 14_600_000 }, []string{"T1", "T11", "T11"}},
		{"little bandwidth", func(r *Results) { r.RDMAWrite[11].HalfRTTPs = 708_000_000; r.SendReceive[11].HalfRTTPs = 710_900_000 }, []string{"T3"}},
		{"a long gap", func(r *Results) {
			for i := range r.SendReceive {
				r.SendReceive[i].HalfRTTPs += 350_000
			}
		}, []string{"T5"}},
		{"a gap that is not flat", func(r *Results) { r.SendReceive[11].HalfRTTPs += 800_000 }, []string{"T5"}},
		{"gain", func(r *Results) { r.SendReceive[7].HalfRTTPs = 92_000_000 }, []string{"T6"}},
		{"no gain", func(r *Results) { r.SendReceive[0].HalfRTTPs = 15_000_000 }, []string{"T7"}},
		{"a slow post", func(r *Results) {
			for i := range r.PostReceive {
				r.PostReceive[i] = PostReceiveResult{r.PostReceive[i].Size, 6_400_000, 6_400_000, 6_400_000}
			}
		}, []string{"T8"}},
		{"a post that depends on size", func(r *Results) { r.PostReceive[3].MaxPs = 6_400_000 }, []string{"T8"}},
		{"a steep RecvWait", func(r *Results) {
			for i := range r.ReceiveWait {
				r.ReceiveWait[i].MeanPs += 1000 * int64(r.ReceiveWait[i].Size)
			}
		}, []string{"T9"}},
		{"a RecvWait that falls", func(r *Results) { r.ReceiveWait[2].MeanPs = r.ReceiveWait[1].MeanPs }, []string{"T9"}},
		{"a RecvWait that is no line", func(r *Results) { r.ReceiveWait[10].MeanPs = r.ReceiveWait[11].MeanPs - 1 }, []string{"T9"}},
		{"a slow M-VIA", func(r *Results) { r.Mvia[0].HalfRTTPs = 58_200_000 }, []string{"T2"}},
		{"a fast M-VIA", func(r *Results) { r.Mvia[0].HalfRTTPs = 57_000_000 }, []string{"T2"}},
		{"a slow TCP/IP", func(r *Results) { r.Tcp[11].HalfRTTPs = 1_104_000_000 }, []string{"T4"}},
		{"a fast TCP/IP", func(r *Results) { r.Tcp[11].HalfRTTPs = 1_080_000_000 }, []string{"T4"}},
		{"another ratio", func(r *Results) { r.Tcp[0].HalfRTTPs = 126_000_000 }, []string{"T2", "T11"}},
		{"another ratio of bandwidths", func(r *Results) { r.Mvia[11].HalfRTTPs = 1_090_000_000 }, []string{"T4", "T11"}},
		{"M-VIA is ahead at one length", func(r *Results) { r.Mvia[4].HalfRTTPs = 49_900_000 }, []string{"T12"}},
		{"slow bursts", func(r *Results) { r.Bursts.SystemBytesPerSec = 118_700_000 }, []string{"T10"}},
		{"fast bursts", func(r *Results) { r.Bursts.MACBytesPerSec = 118_300_000 }, []string{"T10"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := asWanted()
			tt.change(r)
			require.Equal(t, tt.want, missed(targetsOf(r, false)))
		})
	}
}

// A target is left out when one of its sizes was not measured.
func TestTargetsOfFewerSizes(t *testing.T) {
	r := asWanted()
	r.Mvia, r.Tcp = nil, r.Tcp[1:11]
	r.RDMAWrite, r.SendReceive, r.PostReceive, r.ReceiveWait, r.Bursts = r.RDMAWrite[:1], r.SendReceive[:1], r.PostReceive[:1], r.ReceiveWait[:1], nil
	require.Equal(t, []string{"T1"}, ids(targetsOf(r, false)))
	r = asWanted()
	r.RDMAWrite = r.RDMAWrite[1:]
	require.Equal(t, []string{"T2", "T2", "T3", "T4", "T4", "T8", "T8", "T9", "T10", "T10", "T11", "T11"}, ids(targetsOf(r, false)))
	r = asWanted()
	r.ReceiveWait = slices.Delete(r.ReceiveWait, 8, 9)
	require.NotContains(t, ids(targetsOf(r, false)), "T9")
	require.Empty(t, targetsOf(&Results{}, true))
	// Additional sizes change nothing.
	r = asWanted()
	r.RDMAWrite = append([]PingPongResult{{Size: 5, HalfRTTPs: 1}}, r.RDMAWrite...)
	r.ReceiveWait = append(r.ReceiveWait, ReceiveWaitResult{Size: 100_000, MeanPs: 1})
	require.Equal(t, targetsOf(asWanted(), false), targetsOf(r, false))
	// An interrupted run has rows of zeros at worst.
	for _, x := range targetsOf(&Results{RDMAWrite: []PingPongResult{{Size: 4}, {Size: 65536}}}, false) {
		require.False(t, math.IsNaN(x.Calibrated) || math.IsInf(x.Calibrated, 0), "%s", x.ID)
	}
}

func TestMisses(t *testing.T) {
	r := sample()
	r.Results.RDMAWrite[0].HalfRTTPs = 13_500_000
	r.AddTargets(true)
	require.Equal(t, []string{
		"T1: half round trip of an RDMA write of 4 bytes: 13.5 us, accepted are 11.9 to 13.1, the paper has 12.5",
		"T3: bandwidth of RDMA writes of 65,536 bytes: 65.536 MB/s, accepted are 92.6 to 98.4, the paper has 95.5",
	}, r.Misses)
	var text strings.Builder
	require.NoError(t, r.WriteText(&text))
	require.Regexp(t, `\nT1 .* 12\.5 .* 13\.5 .* miss\n`, text.String())
	require.Regexp(t, `\nT10 .* ok\n`, text.String())
	require.Contains(t, text.String(), "\nmiss: T1: ")

	r = sample()
	r.Results = *asWanted()
	r.Results.ReceiveWait[2].MeanPs = 1
	r.AddTargets(true)
	require.Len(t, r.Misses, 1)
	require.Contains(t, r.Misses[0], "T9: VipRecvWait, slope from 2,048 bytes on: 9.3 ns/B, accepted are 8.37 to 10.23; in the band, but")

	// Another card has no figures in the paper.
	r = sample()
	r.Profile = "hvia-ge-66"
	r.AddTargets(true)
	require.Empty(t, r.Results.Targets)
	require.Empty(t, r.Results.ModelCurve)
	require.Empty(t, r.Misses)
}

func TestModelCurve(t *testing.T) {
	r := asWanted()
	list := modelCurveOf(r)
	require.Len(t, list, 4*len(PaperSizes))
	for i, m := range list {
		require.True(t, m.OK)
		require.Equal(t, m.ModelPs, m.MeasuredPs)
		require.Equal(t, PaperSizes[i%len(PaperSizes)], m.Size, "the model has the paper's sizes")
	}
	require.Equal(t, ModelPoint{Size: 1024, Protocol: "send_receive", ModelPs: 52_800_000, MeasuredPs: 52_800_000, Band: 0.05, OK: true}, list[12+4])
	// 10 % up to 256 bytes, 5 % above.
	r.RDMAWrite[3].HalfRTTPs = 24_500_000     // +9.9 % of 22.3
	r.RDMAWrite[0].HalfRTTPs = 14_000_000     // +10.2 % of 12.7
	r.RDMAWrite[4].HalfRTTPs = 47_300_000     // -5.2 % of 49.9
	r.SendReceive[11].HalfRTTPs = 723_000_000 // +4.97 % of 688.8
	r.Mvia[5].HalfRTTPs = 117_000_000         // +14.8 % of 101.9
	r.Tcp[9].HalfRTTPs = 334_000_000          // -15.3 % of 394.1
	var out []int
	for _, m := range modelCurveOf(r) {
		if !m.OK {
			out = append(out, m.Size)
		}
	}
	require.Equal(t, []int{4, 1024, 16384}, out)
}

func TestModelTableIsOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/explanation/reproduction.md")
	require.NoError(t, err)
	for _, m := range modelTable {
		tenths := func(v int64) string { return fmt.Sprintf("%d.%d", v/10, v%10) }
		require.Contains(t, string(page), fmt.Sprintf("| %d | %s | %s | %s | %s |\n", m.size, tenths(m.write), tenths(m.send), tenths(m.mvia), tenths(m.tcp)))
	}
}

func TestLine(t *testing.T) {
	slope, r2 := line([]float64{1, 2, 3}, []float64{5, 7, 9})
	require.InDelta(t, 2, slope, 1e-12)
	require.InDelta(t, 1, r2, 1e-12)
	// By hand: slope 1, R^2 = (2)^2/(2*8/3).
	slope, r2 = line([]float64{0, 1, 2}, []float64{0, 2, 2})
	require.InDelta(t, 1, slope, 1e-12)
	require.InDelta(t, 0.75, r2, 1e-12)
	slope, r2 = line([]float64{1, 1}, []float64{1, 2})
	require.Zero(t, slope)
	require.Zero(t, r2)
}
