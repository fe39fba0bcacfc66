// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/params"
)

// strong is a report that meets all targets and has all remarks on them.
func strong() *Report {
	r := New(params.Base, 1, Hashes{})
	r.Results = *asWanted()
	r.Results.Gains = []GainPoint{{Size: TenthSize, Gain: 0.102}}
	r.Results.Paths = []MessagePath{
		{Protocol: "mvia", Size: 4, HalfRTTPs: 57_600_000, Rows: []TimeShare{{"protocol", 53_300_000}, {StepBus, 2_800_000}, {StepWire, 1_140_000}, {StepRest, 360_000}}},
		{Protocol: "tcp", Size: 4, HalfRTTPs: 117_900_000, Rows: []TimeShare{{"wake", 81_220_000}, {"NIC", 32_380_000}, {StepBus, 2_800_000}, {StepWire, 1_200_000}, {StepRest, 300_000}}},
	}
	r.Numbers = []Parameter{{Name: "TcpWakeTime", Value: 81_220_000}}
	r.AddTargets(true)
	return r
}

func TestStrength(t *testing.T) {
	r := strong()
	require.Equal(t, []string{
		"Of 21 rows 10 are fitted (a parameter was set so that they come out), 4 derived (quotients of other rows) and 7 predicted (nothing was fitted to them); 3 of the predicted have a number in the paper.",
		"The paper prints no size for its largest bandwidths and no list of sizes: 65,536 bytes and the 12 lengths are this project's reading.",
		"T8 (Figure 11) is a charged constant by construction and says nothing about the card.",
		"Charged costs are 93 % of M-VIA's and 96 % of TCP/IP's half round trip of 4 bytes; 81 us of TCP/IP's are its wake, which is fitted to T2 and unexplained.",
		"T7, gain: measured 0.06 MB/s at 4 bytes, 0.10 at 7 bytes and 0.40 at 64 KiB; computed, not measured, because the card's limit is 64 KiB: 0.11 at 256 KiB, 0.10 at 291 KiB.",
		"The paper's “1.4 to 0.1 MB/s depending on the size” can be read in two ways. If 0.1 is the smallest gain, it is at the short end, and T7 is met. If the gain shrinks to 0.1 as the size grows, it is 0.40 at 64 KiB, and T7 is missed.",
	}, r.Strength())
	for _, write := range []func(*strings.Builder) error{
		func(b *strings.Builder) error { return r.WriteText(b) }, func(b *strings.Builder) error { return r.WriteSummary(b) },
	} {
		var b strings.Builder
		require.NoError(t, write(&b))
		for _, s := range r.Strength() {
			require.Contains(t, b.String(), "\n- "+s+"\n")
		}
		require.Regexp(t, `\nT1 .* predicted +ok\n`, b.String())
		require.Regexp(t, `\nT3 .* fitted +ok\n`, b.String())
		require.Regexp(t, `\nT11 .* derived +ok\n`, b.String())
	}
	// There is no sentence about what was not measured.
	r = strong()
	r.Results.Paths = r.Results.Paths[:1]
	r.Results.Gains = nil
	require.Len(t, r.Strength(), 3)
	r.Results.Targets = nil
	require.Empty(t, r.Strength())
}

// By hand: 65536 B / (685.9 + 6 * 317.9) us less the same with 2.9 us more is
// the gain of 256 KiB on the line through 32 and 64 KiB.
func TestGains(t *testing.T) {
	r := strong()
	g := r.Results.Gains
	require.Len(t, g, 5)
	require.Equal(t, GainPoint{Size: 4, Gain: 0.059}, g[0])
	require.Equal(t, GainPoint{Size: 65536, Gain: 0.402}, g[2])
	require.Equal(t, 262144, g[3].Size)
	require.True(t, g[3].Computed)
	write := 685.9 + 6*317.9
	require.InDelta(t, 262144/write-262144/(write+2.9), g[3].Gain, 0.0006)
	require.True(t, g[4].Computed)
	require.LessOrEqual(t, g[4].Gain, tenthGain)
	require.Zero(t, g[4].Size%1024)
	require.Equal(t, "met", t7Word(0.05))
	require.Equal(t, "missed", t7Word(0.049))
	require.Equal(t, "missed", t7Word(0.151))

	// Without the ends no gain is computed.
	few := asWanted()
	few.Gains = []GainPoint{{Size: TenthSize, Gain: 0.1}}
	few.SendReceive = few.SendReceive[:11]
	few.addGains()
	require.Len(t, few.Gains, 1)
	require.Empty(t, few.readings())
}
