// SPDX-License-Identifier: Apache-2.0

package digests

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hvia/bench/compare"
	"hvia/bench/faults"
	"hvia/bench/report"
	"hvia/bench/reproduce"
	"hvia/bench/rig"
	"hvia/costs"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/verilate"
)

// Schema names the format of a Table in JSON.
const Schema = "hvia-digests/1"

// File is the path of the Table in the checkout.
const File = "bench/digests/testdata/digests.json"

// Config selects the runs.
type Config struct {
	Profiles []string
	Short    bool // only the runs that take seconds
	Jobs     int  // simulations at the same time
	sim.Checks

	// Progress, if not nil, receives what has been done. It must not block.
	Progress func(rig.Progress)
}

// DefaultConfig is every run in every profile.
func DefaultConfig() Config {
	c := Config{Jobs: 2}
	for _, p := range params.Profiles {
		c.Profiles = append(c.Profiles, p.Name)
	}
	return c
}

// Validate rejects what cannot be run.
func (c Config) Validate() error {
	if len(c.Profiles) == 0 {
		return fmt.Errorf("%w: no profiles: give at least one", costs.ErrConfig)
	}
	for i, p := range c.Profiles {
		if err := rig.CheckProfile(p); err != nil {
			return err
		}
		if slices.Contains(c.Profiles[:i], p) {
			return fmt.Errorf("%w: profile %s is listed twice", costs.ErrConfig, p)
		}
	}
	if err := rig.CheckJobs(c.Jobs); err != nil {
		return err
	}
	return nil
}

// Table holds digests and times of runs, to compare with those of a later
// version.
type Table struct {
	Schema string   `json:"schema"`
	Runs   []Record `json:"runs"`
}

// Record is one run of one command.
type Record struct {
	Profile  string `json:"profile"`
	Workload string `json:"workload"` // the command that repeats it, without --profile
	Run      string `json:"run"`      // protocol, experiment or cell of it
	report.Parts
	Values map[string]int64 `json:"values,omitempty"` // printed times and rates, in ps and bytes per second
}

func (r Record) key() string { return r.Profile + " " + r.Workload + " " + r.Run }

// digestWorkload is a command whose runs are digested.
type digestWorkload struct {
	name  string
	short bool // it takes seconds
	run   func(ctx context.Context, profile string, checks sim.Checks) ([]Record, error)
}

// workloadReproduce measures all sizes.
const workloadReproduce = "reproduce"

func digestWorkloads() []digestWorkload {
	list := []digestWorkload{reproduceWorkload(workloadReproduce, false, nil), reproduceWorkload("reproduce -s 4,1400 -n 1 -x 1", true, func(c *reproduce.Config) {
		c.Sizes, c.Iterations, c.Warmup = []int{4, 1400}, 1, 1
	})}
	// Runs repeat bit for bit, so a few messages of each suffice.
	add := func(pattern, flags string, short bool, messages, warmup int, sizes []int, change func(*compare.Config)) {
		c := compare.DefaultConfig(pattern)
		c.Messages, c.Warmup, c.Sizes = messages, warmup, sizes
		name := fmt.Sprintf("compare %s -n %d -x %d", pattern, messages, warmup)
		if len(sizes) > 0 {
			name += " -s " + strings.Trim(strings.ReplaceAll(fmt.Sprint(sizes), " ", ","), "[]")
		}
		if change != nil {
			change(&c)
		}
		list = append(list, compareWorkload(name+flags, short, c))
	}
	add(compare.PatternPingPong, "", false, 3, 1, compare.DefaultConfig(compare.PatternPingPong).Sizes, nil)
	add(compare.PatternStream, "", false, 48, 12, []int{64, 1024, 16384}, nil)
	add(compare.PatternRequestReply, "", false, 12, 2, nil, nil)
	add(compare.PatternManyToOne, "", false, 24, 6, []int{1024, 16384}, nil)
	add(compare.PatternManyToOne, " --nodes 4", false, 24, 6, []int{1024, 16384}, func(c *compare.Config) {
		c.Nodes, c.Clients, c.Protocols = 4, 3, compare.DefaultProtocols(4)
	})
	every := " --protocols " + strings.Join(compare.Protocols(), ",")
	add(compare.PatternPingPong, every, true, 2, 1, []int{4, 4096}, func(c *compare.Config) { c.Protocols = compare.Protocols() })
	matrix := faults.DefaultConfig()
	short := matrix
	short.Kinds = []string{"drop"}
	return append(list, matrixWorkload("faults --matrix", false, matrix), matrixWorkload("faults --matrix --kinds drop", true, short))
}

func reproduceWorkload(name string, short bool, change func(*reproduce.Config)) digestWorkload {
	return digestWorkload{name, short, func(ctx context.Context, profile string, checks sim.Checks) ([]Record, error) {
		c := reproduce.DefaultConfig()
		c.Profile, c.Checks, c.NoPrediction = profile, checks, true
		if change != nil {
			change(&c)
		}
		r, err := reproduce.Run(ctx, c)
		if err != nil {
			return nil, err
		}
		if err := r.Failed(); err != nil {
			return nil, err
		}
		var runs []Record
		for _, d := range r.Results.Digests {
			runs = append(runs, Record{Run: d.Run, Parts: d.Parts, Values: printedTimes(&r.Results, d.Run)})
		}
		return runs, nil
	}}
}

// printedTimes are the times of a run in the report.
func printedTimes(r *report.Results, run string) map[string]int64 {
	m := map[string]int64{}
	pingPong := func(rows []report.PingPongResult, s *report.Stages) {
		for _, p := range rows {
			m[fmt.Sprintf("%d half_rtt_ps", p.Size)], m[fmt.Sprintf("%d hardware_ps", p.Size)] = p.HalfRTTPs, p.HardwarePs
		}
		if s != nil {
			for _, row := range s.Rows {
				m["stage "+row.Name] = row.MeanPs
			}
		}
	}
	switch run {
	case "rdma_write":
		pingPong(r.RDMAWrite, r.Stages)
		if b := r.Bursts; b != nil {
			m["system bus bytes_per_s"], m["MAC bus bytes_per_s"] = b.SystemBytesPerSec, b.MACBytesPerSec
		}
	case "send_receive":
		pingPong(r.SendReceive, r.SendReceiveStages)
	case "rdma_read":
		pingPong(r.RDMARead, nil)
	case "reliable_write":
		pingPong(r.ReliableWrite, nil)
	case "mvia":
		pingPong(r.Mvia, nil)
	case "tcp":
		pingPong(r.Tcp, nil)
	case "cross_traffic":
		pingPong(r.CrossTraffic.RDMAWrite, nil)
	case "receive_side":
		for _, p := range r.PostReceive {
			m[fmt.Sprintf("%d post_receive_ps", p.Size)] = p.MeanPs
		}
		for _, p := range r.ReceiveWait {
			m[fmt.Sprintf("%d receive_wait_ps", p.Size)] = p.MeanPs
		}
	case "first_write":
		for _, p := range r.FirstWrite {
			m[fmt.Sprintf("%d connect_ps", p.Size)], m[fmt.Sprintf("%d offers_ps", p.Size)], m[fmt.Sprintf("%d message_ps", p.Size)] = p.ConnectPs, p.OffersPs, p.MessagePs
		}
	}
	for _, p := range r.Paths {
		if p.Protocol == run {
			for _, row := range p.Rows {
				m["path "+row.Name] = row.Ps
			}
		}
	}
	return m
}

func compareWorkload(name string, short bool, c compare.Config) digestWorkload {
	return digestWorkload{name, short, func(ctx context.Context, profile string, checks sim.Checks) ([]Record, error) {
		c := c
		c.Profile, c.Checks = profile, checks
		r, err := compare.Run(ctx, c)
		if err != nil {
			return nil, err
		}
		if err := r.Failed(); err != nil {
			return nil, err
		}
		var runs []Record
		for _, d := range r.Digests {
			runs = append(runs, Record{Run: d.Protocol, Parts: d.Parts, Values: printedRates(r, d.Protocol)})
		}
		return runs, nil
	}}
}

// printedRates are the times and rates of a protocol in the report.
func printedRates(r *compare.Report, protocol string) map[string]int64 {
	m := map[string]int64{}
	for _, row := range r.Rows {
		if row.Protocol != protocol {
			continue
		}
		at := row.What() + " "
		if l := row.Latency; l != nil {
			m[at+"mean_ps"], m[at+"p50_ps"], m[at+"p99_ps"], m[at+"max_ps"] = l.MeanPs, l.P50Ps, l.P99Ps, l.MaxPs
		}
		if row.BytesPerSec > 0 {
			m[at+"bytes_per_s"] = row.BytesPerSec
		}
		if row.Lost > 0 {
			m[at+"lost"] = int64(row.Lost)
		}
		for n, h := range row.Hosts {
			m[at+"work_ps of host "+strconv.Itoa(n)] = h.WorkPs
		}
	}
	return m
}

func matrixWorkload(name string, short bool, c faults.Config) digestWorkload {
	return digestWorkload{name, short, func(ctx context.Context, profile string, checks sim.Checks) ([]Record, error) {
		c := c
		c.Profile, c.Checks = profile, checks
		matrix, err := faults.Run(ctx, c)
		if err != nil {
			return nil, err
		}
		var runs []Record
		for _, cell := range matrix.Cells {
			runs = append(runs, Record{Run: cell.Kind + " " + cell.Level + " " + cell.Operation, Parts: cell.Parts})
		}
		return runs, nil
	}}
}

// Run makes the runs. Their order does not depend on Jobs.
func Run(ctx context.Context, c Config) (_ *Table, err error) {
	defer func() { err = rig.Stopped(ctx, "digests", err) }()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	type task struct {
		profile  string
		workload digestWorkload
		runs     []Record
	}
	var tasks []*task
	for _, profile := range c.Profiles {
		// Builds run one at a time, before the runs use the processors.
		if _, err := (sim.Build{Profile: profile, Full: c.Checkers}).Program(ctx); err != nil {
			return nil, fmt.Errorf("digests: %w", err)
		}
		for _, w := range digestWorkloads() {
			if !c.Short || w.short {
				tasks = append(tasks, &task{profile: profile, workload: w})
			}
		}
	}
	tally := rig.Tally{Show: c.Progress, Total: len(tasks)}
	runs := make([]func(context.Context) error, len(tasks))
	for i, t := range tasks {
		runs[i] = func(ctx context.Context) (err error) {
			if t.runs, err = t.workload.run(ctx, t.profile, c.Checks); err != nil {
				return fmt.Errorf("digests: %s, profile %s: %w", t.workload.name, t.profile, err)
			}
			tally.Count(rig.Progress{What: t.profile + ", " + t.workload.name})
			return nil
		}
	}
	if err := rig.Together(ctx, c.Jobs, runs); err != nil {
		return nil, err
	}
	d := &Table{Schema: Schema}
	for _, t := range tasks {
		for _, r := range t.runs {
			r.Profile, r.Workload = t.profile, t.workload.name
			d.Runs = append(d.Runs, r)
		}
	}
	return d, nil
}

// Difference is one changed value. Was or Is is empty if that table lacks it.
type Difference struct {
	Profile, Workload, Run, Value string
	Was, Is                       string
}

// The values of a run that are digests.
const (
	valueFrames = "frames"
	valueWakes  = "wakes"
)

// OnlyWakes reports whether only wakes of hosts have changed.
func OnlyWakes(list []Difference) bool {
	return !slices.ContainsFunc(list, func(d Difference) bool { return d.Value != valueWakes })
}

// Differences compares runs with those of an older table. If the newer table is
// complete, runs that it lacks count as differences.
func (d *Table) Differences(was *Table, complete bool) []Difference {
	var list []Difference
	old := map[string]Record{}
	for _, r := range was.Runs {
		old[r.key()] = r
	}
	for _, r := range d.Runs {
		list = append(list, differences(r, old[r.key()].flat(), r.flat())...)
		delete(old, r.key())
	}
	if complete {
		for _, r := range was.Runs {
			if _, gone := old[r.key()]; gone {
				list = append(list, differences(r, r.flat(), nil)...)
			}
		}
	}
	return list
}

func differences(of Record, was, is map[string]string) (list []Difference) {
	names := maps.Clone(is)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, was)
	for _, name := range slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(valueOrder(a), valueOrder(b)), cmp.Compare(a, b))
	}) {
		if was[name] != is[name] {
			list = append(list, Difference{of.Profile, of.Workload, of.Run, name, was[name], is[name]})
		}
	}
	return list
}

// valueOrder puts the digests before the times.
func valueOrder(name string) int {
	if name == valueFrames || name == valueWakes {
		return 0
	}
	return 1
}

// flat is every value of a run by its name.
func (r Record) flat() map[string]string {
	m := map[string]string{}
	for name, v := range r.Values {
		m[name] = strconv.FormatInt(v, 10)
	}
	if r.Frames != "" {
		m[valueFrames], m[valueWakes] = r.Frames, r.Wakes
	}
	return m
}

func digestsPath() (string, error) {
	root, err := verilate.Root()
	return filepath.Join(root, File), err
}

// Read reads the table of this program's checkout.
func Read() (*Table, error) {
	path, err := digestsPath()
	if err != nil {
		return nil, err
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("digests: %w: 'make digests ARGS=--update' writes it", err)
	}
	d := &Table{}
	if err := json.Unmarshal(body, d); err != nil {
		return nil, fmt.Errorf("digests: %s: %w: 'make digests ARGS=--update' writes it anew", path, err)
	}
	if d.Schema != Schema {
		return nil, fmt.Errorf("digests: %s has schema %q, want %q: 'make digests ARGS=--update' writes it anew", path, d.Schema, Schema)
	}
	return d, nil
}

// Save writes the table into the checkout and returns its path.
func (d *Table) Save() (string, error) {
	path, err := digestsPath()
	if err != nil {
		return "", err
	}
	return report.Save(filepath.Dir(path), filepath.Base(path), d.WriteJSON)
}

// WriteJSON writes a line for each run, so that version control shows changes
// by run.
func (d *Table) WriteJSON(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "{\n\"schema\": %q,\n\"runs\": [", d.Schema)
	for i, r := range d.Runs {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "\n%s", line)
	}
	b.WriteString("\n]\n}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteText writes both digests of each run, grouped by command.
func (d *Table) WriteText(w io.Writer) error {
	var b strings.Builder
	last := ""
	for _, r := range d.Runs {
		if head := fmt.Sprintf("%s, %s", r.Profile, r.Workload); head != last {
			fmt.Fprintf(&b, "%s\n", head)
			last = head
		}
		fmt.Fprintf(&b, "  %-48s frames %s  wakes %s\n", r.Run, r.Frames, r.Wakes)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteDifferences writes a line for each value that differs.
func WriteDifferences(w io.Writer, list []Difference) error {
	var b strings.Builder
	last := ""
	for _, d := range list {
		if head := fmt.Sprintf("%s, %s, %s", d.Profile, d.Workload, d.Run); head != last {
			fmt.Fprintf(&b, "%s\n", head)
			last = head
		}
		fmt.Fprintf(&b, "  %-40s was %-18s is %s\n", d.Value, cmp.Or(d.Was, "not there"), cmp.Or(d.Is, "not there"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
