// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func sample() *Report {
	r := New("hvia-ge", 7, Hashes{Layout: "00000000000000aa", Params: "00000000000000bb", RTL: "00000000000000cc"})
	r.Results.RDMAWrite = []PingPongResult{
		{Size: 4, HalfRTTPs: 9_123_456, HardwarePs: 9_000_000, HostPs: 123_456, BytesPerSec: BytesPerSecond(4, 9_123_456), Verified: true},
		{Size: 65536, HalfRTTPs: 1_000_000_000, HardwarePs: 999_000_000, HostPs: 1_000_000, BytesPerSec: BytesPerSecond(65536, 1_000_000_000), Verified: true},
	}
	r.Results.SendReceive = []PingPongResult{
		{Size: 4, HalfRTTPs: 12_023_456, HardwarePs: 9_150_000, HostPs: 2_873_456, BytesPerSec: BytesPerSecond(4, 12_023_456), Verified: true},
		{Size: 16, HalfRTTPs: 12_100_000, HardwarePs: 9_200_000, HostPs: 2_900_000, BytesPerSec: BytesPerSecond(16, 12_100_000), Verified: true},
	}
	r.Results.Bursts = &Bursts{SystemBytesPerSec: 120_040_000, MACBytesPerSec: 116_960_000}
	r.Results.SendReceiveStages = &Stages{Size: 4, Rows: []Stage{{"header parse", 9_000_000}, {"status", 150_000}}}
	r.Notes = []string{"not compared with the paper yet"}
	r.Wall = Wall{BuildSeconds: 12.34, Seconds: 3.21, RDMAWrite: []WallRow{{Size: 4, Seconds: 0.5, Cycles: 1_000_000, CyclesPerSecond: 2_000_000}},
		SendReceive: []WallRow{{Size: 16, Seconds: 0.6, Cycles: 1_200_000, CyclesPerSecond: 2_000_000}}}
	return r
}

func TestReportText(t *testing.T) {
	var b strings.Builder
	require.NoError(t, sample().WriteText(&b))
	require.Equal(t, `RDMA write ping-pong, one-way = RTT/2, simulated time (profile hvia-ge, seed 7)
layout 00000000000000aa  params 00000000000000bb  rtl 00000000000000cc

    size     half RTT     hardware         host       rate  check       wall     sim cycles
   bytes           us           us           us       MB/s                 s     per wall s
       4        9.123        9.000        0.123       0.44  ok          0.50        2000000
   65536     1000.000      999.000        1.000      65.54  ok             -              -

The same with send and receive, whose gap is their half RTT less that of an RDMA write:
    size     half RTT     hardware         host       rate  check        gap       wall     sim cycles
   bytes           us           us           us       MB/s                us          s     per wall s
       4       12.023        9.150        2.873       0.33  ok         2.900          -              -
      16       12.100        9.200        2.900       1.32  ok             -       0.60        2000000

Where the hardware time of a send of 4 bytes goes (mean, from the trace port):
       9.000 us  header parse
       0.150 us  status
       9.150 us  from the doorbell's store to the peer's receive descriptor

512-byte bursts without a pause: system bus 120.0 MB/s, MAC bus 117.0 MB/s

wall: 3.2 s; the build of the simulator took 12.3 s
note: not compared with the paper yet
`, b.String())
}

// A column with the budget stands beside the times if there is one.
func TestWaterfallText(t *testing.T) {
	r := sample()
	r.Results.Waterfall = []WaterfallRow{{"post", 5_250_000, 5_250_000}, {"card", 0, 7_000_000}}
	text := func() string {
		var b strings.Builder
		require.NoError(t, r.WriteText(&b))
		return b.String()
	}
	require.Contains(t, text(), `, and what the model of the paper's card allows:
    measured       budget
          us           us
       5.250        5.250  post
       7.000            -  card
      12.250        5.250  in all
`)
	r.Results.Waterfall[0].BudgetPs = 0
	require.Contains(t, text(), `(mean, from programs and trace port):
    measured
          us
       5.250  post
       7.000  card
      12.250  in all
`)
}

func TestReportTextSaysWhatIsWrong(t *testing.T) {
	r := sample()
	r.Results.RDMAWrite[1].Verified = false
	r.Misses = []string{"4 bytes: 9.1 us, the target is 8 us"}
	r.Error = &failure{"stopped"}
	var b strings.Builder
	require.NoError(t, r.WriteText(&b))
	require.Contains(t, b.String(), "  FAIL ")
	require.Contains(t, b.String(), "\nmiss: 4 bytes: 9.1 us, the target is 8 us\n")
	require.Contains(t, b.String(), "\nnot complete: stopped\n")
}

// The published format: these keys, in this order, numbers as numbers.
func TestReportJSON(t *testing.T) {
	r := sample()
	r.Results.RDMAWrite, r.Results.SendReceive = r.Results.RDMAWrite[:1], r.Results.SendReceive[:1]
	r.Results.SendReceiveStages = nil
	r.Notes = nil
	var b strings.Builder
	require.NoError(t, WriteJSON(&b, r))
	require.Equal(t, `{
  "schema": "hvia-report/2",
  "environment": {
    "layout": "00000000000000aa",
    "params": "00000000000000bb",
    "rtl": "00000000000000cc"
  },
  "wall": {
    "build_seconds": 12.34,
    "seconds": 3.21,
    "rdma_write": [
      {
        "size": 4,
        "seconds": 0.5,
        "simulated_cycles": 1000000,
        "cycles_per_s": 2000000
      }
    ],
    "send_receive": [
      {
        "size": 16,
        "seconds": 0.6,
        "simulated_cycles": 1200000,
        "cycles_per_s": 2000000
      }
    ]
  },
  "parameters": {
    "profile": "hvia-ge",
    "seed": 7
  },
  "results": {
    "rdma_write": [
      {
        "size": 4,
        "half_rtt_ps": 9123456,
        "hardware_ps": 9000000,
        "host_ps": 123456,
        "bytes_per_s": 438430,
        "verified": true
      }
    ],
    "send_receive": [
      {
        "size": 4,
        "half_rtt_ps": 12023456,
        "hardware_ps": 9150000,
        "host_ps": 2873456,
        "bytes_per_s": 332683,
        "verified": true
      }
    ],
    "bursts": {
      "system_bytes_per_s": 120040000,
      "mac_bytes_per_s": 116960000
    }
  }
}
`, b.String())
}

// An empty list is a list, so that a reader needs no special case.
func TestReportWithoutResults(t *testing.T) {
	var b strings.Builder
	r := New("hvia-ge", 1, Hashes{})
	require.NoError(t, WriteJSON(&b, r))
	require.Contains(t, b.String(), `"rdma_write": []`)
	require.Contains(t, b.String(), `"send_receive": []`)
	require.Error(t, r.Failed())
}

func TestVerified(t *testing.T) {
	r := sample()
	require.NoError(t, r.Failed())
	r.Results.RDMAWrite[0].Verified = false
	require.Error(t, r.Failed())
	r = sample()
	r.Results.SendReceive[1].Verified, r.Results.SendReceive[1].Fault = false, "byte 1"
	require.Error(t, r.Failed())
	require.Equal(t, []string{"16 bytes by send and receive: byte 1"}, r.Faults())
	r = sample()
	r.Results.ReceiveWait = []ReceiveWaitResult{{Size: 4}, {Size: 16, Fault: "byte 2"}}
	r.Results.Prediction = &Prediction{RDMAWrite: []PingPongResult{{Size: 4, Fault: "byte 3"}}, ReceiveWait: []ReceiveWaitResult{{Size: 64, Fault: "byte 4"}}}
	require.Equal(t, []string{"4 bytes before the fit: byte 3", "16 bytes at the receiving side: byte 2", "64 bytes at the receiving side: byte 4"}, r.Faults())
}

func TestRepeatableLeavesOutTheMachine(t *testing.T) {
	a, b := sample(), sample()
	b.Wall = Wall{Seconds: 99, RDMAWrite: []WallRow{{Size: 16}}}
	x, err := a.Repeatable()
	require.NoError(t, err)
	y, err := b.Repeatable()
	require.NoError(t, err)
	require.Equal(t, string(x), string(y))
	require.Equal(t, 3.21, a.Wall.Seconds, "the report itself is unchanged")

	b.Results.RDMAWrite[0].HardwarePs++
	y, err = b.Repeatable()
	require.NoError(t, err)
	require.NotEqual(t, string(x), string(y))
}

func TestSave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dir")
	for range 2 { // the second time over the first
		path, err := sample().Save(dir)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(dir, "report.json"), path)
		body, err := os.ReadFile(path)
		require.NoError(t, err)
		var got Report
		require.NoError(t, json.Unmarshal(body, &got))
		require.Equal(t, *sample(), got)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "report.json and report.txt: no temporary file stays")
	var text strings.Builder
	require.NoError(t, sample().WriteText(&text))
	tables, err := os.ReadFile(filepath.Join(dir, "report.txt"))
	require.NoError(t, err)
	require.Equal(t, text.String(), string(tables))
}

func TestSaveNamesThePathItCouldNotWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err := sample().Save(file)
	require.ErrorContains(t, err, filepath.Join(file, "report.txt"))
}

func TestBytesPerSecond(t *testing.T) {
	tests := []struct {
		size int
		ps   int64
		want int64
	}{
		{4, 9_123_456, 438_430},
		{1, 1_000_000_000_000, 1},
		{1, 1_000_000_000_001, 0},
		{8 << 20, 1_000_000, 8_388_608_000_000},
		{0, 5, 0},
		{5, 0, 0},
		{5, -1, 0},
		{math.MaxInt, 1, math.MaxInt64},
		{80 << 20, 9, math.MaxInt64},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, BytesPerSecond(tt.size, tt.ps), "%d bytes in %d ps", tt.size, tt.ps)
	}
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 8<<20).Draw(t, "size")
		ps := rapid.Int64Range(1, 1<<50).Draw(t, "ps")
		want := float64(size) * 1e12 / float64(ps)
		if want < 9e18 && math.Abs(float64(BytesPerSecond(size, ps))-want) > 1+want*1e-12 {
			t.Fatalf("BytesPerSecond(%d, %d) = %d, want about %f", size, ps, BytesPerSecond(size, ps), want)
		}
	})
}

func TestMicroseconds(t *testing.T) {
	for ps, want := range map[int64]string{0: "0.000", 499: "0.000", 500: "0.001", 9_123_456: "9.123", 1_000_000: "1.000", 999_999_600: "1000.000", -1_500_000: "-1.500"} {
		require.Equal(t, want, Micros(ps))
	}
}

// The summary has a row for each size, with every protocol.
func TestWriteSummary(t *testing.T) {
	r := sample()
	r.Results.Mvia = []PingPongResult{{Size: r.Results.RDMAWrite[0].Size, HalfRTTPs: 57_600_000, BytesPerSec: 69_444, Verified: true}}
	r.Results.Tcp = []PingPongResult{{Size: r.Results.RDMAWrite[0].Size, HalfRTTPs: 117_900_000, BytesPerSec: 33_927}}
	r.Misses = []string{"T99"}
	var b strings.Builder
	require.NoError(t, r.WriteSummary(&b))
	lines := strings.Split(b.String(), "\n")
	row := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "57.600") })
	require.Positive(t, row, b.String())
	require.Regexp(t, fmt.Sprintf(`^ +%d .* 57\.600 +0\.07 +117\.900 +0\.03  FAIL$`, r.Results.RDMAWrite[0].Size), lines[row])
	require.Contains(t, b.String(), "\nmiss: T99\n")
	require.Contains(t, b.String(), "layout "+r.Environment.Layout)
}

// A message with wrong bytes is reported, with the protocol.
func TestFaultsOfBaselines(t *testing.T) {
	r := sample()
	r.Results.Mvia = []PingPongResult{{Size: 4, Verified: true}, {Size: 64, Fault: "byte 3"}}
	r.Results.Tcp = []PingPongResult{{Size: 16, Fault: "byte 0"}}
	r.Results.Prediction = &Prediction{Tcp: []PingPongResult{{Size: 256, Fault: "byte 9"}}}
	require.Subset(t, r.Faults(), []string{"64 bytes by M-VIA: byte 3", "16 bytes by TCP/IP: byte 0", "256 bytes by TCP/IP before the fit: byte 9"})
	require.Len(t, r.Faults(), 3)
	require.Error(t, r.Failed())
}
