// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"strings"

	"hvia/bench/report"
)

// Schema names the shape of a Report.
const Schema = "hvia-demo/2"

// Report is one RDMA write, step by step in simulated time.
type Report struct {
	report.Envelope
	Parameters `json:"parameters"`
	Results    `json:"results"`
}

type Parameters struct {
	report.Parameters
	Size int `json:"size"`
}

type Results struct {
	Steps  []Step `json:"steps"`
	Digest string `json:"digest,omitempty"`
	report.Parts
	Verified bool   `json:"verified"`
	Fault    string `json:"fault,omitempty"` // the first byte that was wrong
}

// NewReport returns a report without steps.
func NewReport(c Config, h report.Hashes) *Report {
	return &Report{
		Envelope:   report.Envelope{Schema: Schema, Environment: h},
		Parameters: Parameters{report.Parameters{Profile: c.Profile, Seed: c.Seed}, c.Size},
		Results:    Results{Steps: []Step{}},
	}
}

// Measured reports whether there is anything to print.
func (r *Report) Measured() bool { return len(r.Steps) > 0 }

// Failed returns an error if the results are no success.
func (r *Report) Failed() error {
	if !r.Verified {
		return fmt.Errorf("the receiver's memory is not what was sent (seed %d): %s", r.Seed, r.Fault)
	}
	return nil
}

// Step is one event.
type Step struct {
	TimePs int64  `json:"time_ps"` // since the programs of both hosts began
	Node   int    `json:"node"`
	Where  string `json:"where"` // program, card block or wire
	What   string `json:"what"`
	Frame  int    `json:"frame,omitempty"` // of a message of several, from 1
}

// maxFramesTold is the number of frames of a message that the text lists.
const maxFramesTold = 4

func (r *Report) frames() int {
	n := 0
	for _, s := range r.Steps {
		n = max(n, s.Frame)
	}
	return n
}

// WriteText writes the steps, with the time since the step before.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "One RDMA write of %d bytes, simulated time (profile %s, seed %d)\n\n", r.Size, r.Profile, r.Seed)
	fmt.Fprintf(&b, "%12s %10s  %-4s  %-18s %s\n", "us", "+us", "node", "where", "what")
	last, hidden := int64(0), 0
	told := func() {
		if hidden > 0 {
			fmt.Fprintf(&b, "%12s %10s  %-4s  %-18s %s\n", "", "", "", "...", fmt.Sprintf("%d steps of frames between the first and the last (all with --json)", hidden))
			hidden = 0
		}
	}
	frames := r.frames()
	for i, s := range r.Steps {
		if frames > maxFramesTold && s.Frame > 1 && s.Frame < frames {
			hidden++
			continue
		}
		told()
		if i == 0 {
			last = s.TimePs
		}
		what := s.What
		if s.Frame > 0 {
			what = fmt.Sprintf("frame %d of %d: %s", s.Frame, frames, what)
		}
		fmt.Fprintf(&b, "%12s %10s  %-4d  %-18s %s\n", report.Micros(s.TimePs), report.Micros(s.TimePs-last), s.Node, s.Where, what)
		last = s.TimePs
	}
	told()
	if r.Error != nil {
		fmt.Fprintf(&b, "\nnot complete: %s\n", r.Error.Message)
	} else if r.Verified {
		fmt.Fprintf(&b, "\nverified: all %d bytes are in place and none beside them changed\n", r.Size)
	} else {
		fmt.Fprintf(&b, "\nFAIL: the receiver's memory is not what was sent: %s\n", r.Fault)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
