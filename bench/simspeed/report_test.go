// SPDX-License-Identifier: Apache-2.0

package simspeed

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/report"
	"hvia/costs"
	"hvia/layout"
)

func TestTimes(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		runs                 []float64
		first                float64
		least, median, ratio float64
	}{
		{"one run", []float64{3}, 3, 3, 3, 1},
		{"an odd number", []float64{5, 2, 3}, 4, 2, 3, 0.5},
		{"an even number", []float64{8, 2, 4, 3}, 1, 2, 3.5, 2},
		{"the first took no time", []float64{2}, 0, 2, 2, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runs := append([]float64(nil), tt.runs...)
			got := Times{Runs: tt.runs}
			got.summarize(&Times{Least: tt.first})
			require.Equal(t, Times{tt.least, tt.median, tt.ratio, runs}, got, "the runs stay in their order")
		})
	}
}

func TestDuration(t *testing.T) {
	for s, want := range map[float64]string{
		24.61: "24.61 s", 123.456: "123.5 s", 1: "1 s", 0.99949: "999.5 ms", 0.05: "50 ms", 0.0013861: "1.386 ms", 0.0005: "500 us", 1e-7: "0.100 us", 0: "0.000 us",
	} {
		require.Equal(t, want, duration(s))
	}
}

// sample is a report of two simulators, of which the second took no turn at the
// last measure and counts no clocks.
func sample() *Report {
	c := DefaultConfig()
	c.Runs, c.Programs = 3, []string{"/old/hvia-sim"}
	r := NewReport(c, report.Hashes{Layout: "1", Params: "2", RTL: "3"})
	for i, title := range []string{"64 KiB RDMA write", "4 B round trip"} {
		for k, name := range []string{"default", programName(0)} {
			row := &Row{Measure: title, Title: title, Simulator: name}
			if i == 0 && k == 0 {
				row.Clocks = 20_000
			}
			for n := range 3 * (2 - i) * (2 - k) / 2 {
				row.add(Sample{Wall: 0.05 * float64(k+1+n), CPU: 0.04 * float64(k+1)})
			}
			r.Rows = append(r.Rows, row)
		}
	}
	r.Rows[3].Wall.Runs, r.Rows[3].CPU.Runs = nil, nil
	r.summarize()
	return r
}

func TestWriteText(t *testing.T) {
	r := sample()
	r.Complete("v", nil, costs.ErrConfig)
	var b strings.Builder
	require.NoError(t, r.WriteText(&b))
	require.Equal(t, `Time of one operation, least and median of 3 runs (profile hvia-ge, 2 cards). x: least, over that of the first simulator.
Core clocks are those simulated on each card in a second of wall time, most and median.

operation          simulator        wall     median      x         CPU     median      x  core clocks    median
64 KiB RDMA write  default         50 ms     175 ms   1.00       40 ms      40 ms   1.00       400000    114286
64 KiB RDMA write  program 1      100 ms     150 ms   2.00       80 ms      80 ms   2.00
4 B round trip     default         50 ms     100 ms   1.00       40 ms      40 ms   1.00

program 1: /old/hvia-sim

not complete: bad configuration

layout 1  params 2  rtl 3
`, b.String())
}

func TestJSON(t *testing.T) {
	r := sample()
	var b strings.Builder
	require.NoError(t, report.WriteJSON(&b, r))
	var got struct {
		Schema     string
		Parameters struct {
			Runs, Cards int
			Programs    []string
		}
		Results []struct {
			Measure, Simulator string
			Wall               struct {
				Least  float64   `json:"least_s"`
				Median float64   `json:"median_s"`
				Runs   []float64 `json:"runs_s"`
				Ratio  float64
			}
			Rate *struct{ Most, Median float64 } `json:"clocks_per_s"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(b.String()), &got))
	require.Equal(t, Schema, got.Schema)
	require.Equal(t, []string{"/old/hvia-sim"}, got.Parameters.Programs)
	require.Len(t, got.Results, 3)
	require.InDelta(t, 400_000, got.Results[0].Rate.Most, 1)
	require.InDelta(t, 2, got.Results[1].Wall.Ratio, 1e-9)
	require.Nil(t, got.Results[1].Rate)
	require.Len(t, got.Results[2].Wall.Runs, 3)
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*Config){
		`no profile "x"`:                       func(c *Config) { c.Profile = "x" },
		"0 runs: 1 to 1000 are possible":       func(c *Config) { c.Runs = 0 },
		"1001 runs":                            func(c *Config) { c.Runs = maxRuns + 1 },
		"0 cards: an even number from 2 to 16": func(c *Config) { c.Cards = 0 },
		"3 cards":                              func(c *Config) { c.Cards = 3 },
		"18 cards":                             func(c *Config) { c.Cards = layout.BridgeMaxNodes + 2 },
		"program /nowhere is no executable file: ": func(c *Config) { c.Programs = []string{"/nowhere"} },
		"program / is no executable file":          func(c *Config) { c.Programs = []string{"/"} },
	} {
		c := DefaultConfig()
		require.NoError(t, c.Validate())
		change(&c)
		err := c.Validate()
		require.ErrorIs(t, err, costs.ErrConfig)
		require.ErrorContains(t, err, name)
	}
}
