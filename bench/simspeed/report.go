// SPDX-License-Identifier: Apache-2.0

package simspeed

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"hvia/bench/report"
)

// Schema names the shape of a Report.
const Schema = "hvia-bench-sim/1"

// Report has a row for each measure and simulator.
type Report struct {
	report.Envelope
	Parameters Parameters `json:"parameters"`
	Rows       []*Row     `json:"results"`
}

type Parameters struct {
	report.Parameters
	Runs     int      `json:"runs"`
	Cards    int      `json:"cards"`
	Build    bool     `json:"build,omitempty"`
	Checkers bool     `json:"checkers,omitempty"`
	Programs []string `json:"programs,omitempty"`
}

// Row is the time of one operation with one simulator.
type Row struct {
	Measure   string `json:"measure"`
	Title     string `json:"-"`
	Simulator string `json:"simulator"`
	Wall      Times  `json:"wall"`
	CPU       Times  `json:"cpu"`
	// Core clocks that one operation takes on each card, without those that are
	// skipped, and their rate in wall time.
	Clocks float64 `json:"clocks,omitempty"`
	Rate   *Rate   `json:"clocks_per_s,omitempty"`
}

// Times are in seconds.
type Times struct {
	Least  float64   `json:"least_s"`
	Median float64   `json:"median_s"`
	Ratio  float64   `json:"ratio"` // of Least to that of the first simulator
	Runs   []float64 `json:"runs_s"`
}

// Rate is clocks per second.
type Rate struct {
	Most   float64 `json:"most"`
	Median float64 `json:"median"`
}

// NewReport returns a report without rows.
func NewReport(c Config, h report.Hashes) *Report {
	return &Report{
		Envelope:   report.Envelope{Schema: Schema, Environment: h},
		Parameters: Parameters{report.Parameters{Profile: c.Profile, Seed: seed}, c.Runs, c.Cards, c.Build, c.Checkers, c.Programs},
		Rows:       []*Row{},
	}
}

// Measured reports whether there is anything to print.
func (r *Report) Measured() bool { return len(r.Rows) > 0 }

// Failed returns no error: no time is wrong.
func (r *Report) Failed() error { return nil }

func (r *Row) add(s Sample) {
	r.Wall.Runs, r.CPU.Runs = append(r.Wall.Runs, s.Wall), append(r.CPU.Runs, s.CPU)
}

// countClocks fills in the clocks of an operation of the stream.
func (r *Report) countClocks(ctx context.Context, c Config, simulators []simulator) (err error) {
	for _, w := range c.workloads {
		if w.name != stream {
			continue
		}
		k := slices.IndexFunc(r.Rows, func(r *Row) bool { return r.Measure == stream })
		for i, s := range simulators {
			if r.Rows[k+i].Clocks, err = w.clocks(ctx, c, s.path); err != nil {
				return fmt.Errorf("bench-sim: %s, simulator %s: count clocks: %w", w.title, s.name, err)
			}
		}
	}
	return nil
}

// summarize removes rows without a run and computes the others.
func (r *Report) summarize() {
	r.Rows = slices.DeleteFunc(r.Rows, func(r *Row) bool { return len(r.Wall.Runs) == 0 })
	var first *Row
	for _, row := range r.Rows {
		if first == nil || first.Measure != row.Measure {
			first = row
		}
		row.Wall.summarize(&first.Wall)
		row.CPU.summarize(&first.CPU)
		if row.Clocks > 0 {
			row.Rate = &Rate{row.Clocks / row.Wall.Least, row.Clocks / row.Wall.Median}
		}
	}
}

// summarize computes the rest from Runs, of which there is at least one.
func (t *Times) summarize(first *Times) {
	s := slices.Sorted(slices.Values(t.Runs))
	n := len(s)
	t.Least, t.Median = s[0], (s[(n-1)/2]+s[n/2])/2
	if first.Least > 0 {
		t.Ratio = t.Least / first.Least
	}
}

// WriteText writes a line for each row.
func (r *Report) WriteText(w io.Writer) error {
	p := r.Parameters
	var b strings.Builder
	fmt.Fprintf(&b, "Time of one operation, least and median of %d runs (profile %s, %d cards). x: least, over that of the first simulator.\n", p.Runs, p.Profile, p.Cards)
	fmt.Fprintf(&b, "Core clocks are those simulated on each card in a second of wall time, most and median.\n\n")
	fmt.Fprintf(&b, "%-18s %-10s %10s %10s %6s  %10s %10s %6s  %11s %9s\n", "operation", "simulator", "wall", "median", "x", "CPU", "median", "x", "core clocks", "median")
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "%-18s %-10s %s  %s%s\n", row.Title, row.Simulator, row.Wall, row.CPU, row.Rate)
	}
	for i, path := range p.Programs {
		fmt.Fprintf(&b, "\n%s: %s", programName(i), path)
	}
	if len(p.Programs) > 0 {
		b.WriteString("\n")
	}
	if r.Error != nil {
		fmt.Fprintf(&b, "\nnot complete: %s\n", r.Error.Message)
	}
	fmt.Fprintf(&b, "\n%s", r.Sources())
	_, err := io.WriteString(w, b.String())
	return err
}

func (t Times) String() string {
	return fmt.Sprintf("%10s %10s %6.2f", duration(t.Least), duration(t.Median), t.Ratio)
}

func (r *Rate) String() string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("  %11.0f %9.0f", r.Most, r.Median)
}

// duration has four digits.
func duration(s float64) string {
	unit := "s"
	for _, u := range []string{"ms", "us"} {
		if s < 1 {
			s, unit = s*1000, u
		}
	}
	if s < 1 {
		return fmt.Sprintf("%.3f %s", s, unit)
	}
	return fmt.Sprintf("%.4g %s", s, unit)
}
