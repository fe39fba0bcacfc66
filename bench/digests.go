// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"hvia/bench/report"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/verilate"
)

// DigestsSchema names the format of a DigestTable in JSON.
const DigestsSchema = "hvia-digests/1"

// DigestsFile is where the checkout keeps its DigestTable.
const DigestsFile = "bench/testdata/digests.json"

// DigestsConfig says which runs are made and digested.
type DigestsConfig struct {
	Profiles []string
	Short    bool // only the runs that take seconds
	Jobs     int  // simulations at a time

	// Progress, if not nil, receives what has been done. It must not block.
	Progress func(Progress)
}

// DefaultDigestsConfig is every run in every profile.
func DefaultDigestsConfig() DigestsConfig {
	c := DigestsConfig{Jobs: 2}
	for _, p := range params.Profiles {
		c.Profiles = append(c.Profiles, p.Name)
	}
	return c
}

// Validate rejects what cannot be run.
func (c DigestsConfig) Validate() error {
	if len(c.Profiles) == 0 {
		return fmt.Errorf("%w: no profiles: give at least one", ErrConfig)
	}
	for i, p := range c.Profiles {
		if err := validProfile(p); err != nil {
			return err
		}
		if slices.Contains(c.Profiles[:i], p) {
			return fmt.Errorf("%w: profile %s is listed twice", ErrConfig, p)
		}
	}
	if c.Jobs < 1 || c.Jobs > maxDigestJobs {
		return fmt.Errorf("%w: %d jobs: 1 to %d are possible", ErrConfig, c.Jobs, maxDigestJobs)
	}
	return nil
}

const maxDigestJobs = 64

// DigestTable is what runs did, in a form that a later version can be compared
// with: a change that should not move a simulated time leaves it as it is.
type DigestTable struct {
	Schema string        `json:"schema"`
	Runs   []DigestedRun `json:"runs"`
}

// DigestedRun is one run of one command.
type DigestedRun struct {
	Profile  string `json:"profile"`
	Workload string `json:"workload"` // the command that repeats it, without --profile
	Run      string `json:"run"`      // protocol, experiment or cell of it
	report.Parts
	Values map[string]int64 `json:"values,omitempty"` // printed times and rates, in ps and bytes per second
}

func (r DigestedRun) key() string { return r.Profile + " " + r.Workload + " " + r.Run }

// digestWorkload is a command whose runs are digested.
type digestWorkload struct {
	name  string
	short bool // it takes seconds
	run   func(ctx context.Context, profile string) ([]DigestedRun, error)
}

// workloadReproduce has the times of all sizes.
const workloadReproduce = "reproduce"

func digestWorkloads() []digestWorkload {
	list := []digestWorkload{reproduceWorkload(workloadReproduce, false, nil), reproduceWorkload("reproduce -s 4,1400 -n 1 -x 1", true, func(c *ReproduceConfig) {
		c.Sizes, c.Iterations, c.Warmup = []int{4, 1400}, 1, 1
	})}
	// Runs repeat to the bit, so that few messages of each do.
	compare := func(pattern, flags string, short bool, messages, warmup int, sizes []int, change func(*CompareConfig)) {
		c := DefaultCompareConfig(pattern)
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
	compare(PatternPingPong, "", false, 3, 1, DefaultCompareConfig(PatternPingPong).Sizes, nil)
	compare(PatternStream, "", false, 48, 12, []int{64, 1024, 16384}, nil)
	compare(PatternRequestReply, "", false, 12, 2, nil, nil)
	compare(PatternManyToOne, "", false, 24, 6, []int{1024, 16384}, nil)
	compare(PatternManyToOne, " --nodes 4", false, 24, 6, []int{1024, 16384}, func(c *CompareConfig) {
		c.Nodes, c.Clients, c.Protocols = 4, 3, DefaultProtocols(4)
	})
	every := " --protocols " + strings.Join(CompareProtocols(), ",")
	compare(PatternPingPong, every, true, 2, 1, []int{4, 4096}, func(c *CompareConfig) { c.Protocols = CompareProtocols() })
	matrix := DefaultFaultMatrixConfig()
	short := matrix
	short.Kinds = []string{"drop"}
	return append(list, matrixWorkload("faults --matrix", false, matrix), matrixWorkload("faults --matrix --kinds drop", true, short))
}

func reproduceWorkload(name string, short bool, change func(*ReproduceConfig)) digestWorkload {
	return digestWorkload{name, short, func(ctx context.Context, profile string) ([]DigestedRun, error) {
		c := DefaultReproduceConfig()
		c.Profile, c.noPrediction = profile, true
		if change != nil {
			change(&c)
		}
		r, err := Reproduce(ctx, c)
		if err != nil {
			return nil, err
		}
		if faults := r.Faults(); len(faults) > 0 {
			return nil, errors.New(faults[0])
		}
		var runs []DigestedRun
		for _, d := range r.Results.Digests {
			runs = append(runs, DigestedRun{Run: d.Run, Parts: d.Parts, Values: printedTimes(&r.Results, d.Run)})
		}
		return runs, nil
	}}
}

// printedTimes are the times that the report shows of a run.
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

func compareWorkload(name string, short bool, c CompareConfig) digestWorkload {
	return digestWorkload{name, short, func(ctx context.Context, profile string) ([]DigestedRun, error) {
		c := c
		c.Profile = profile
		r, err := Compare(ctx, c)
		if err != nil {
			return nil, err
		}
		if faults := r.Faults(); len(faults) > 0 {
			return nil, errors.New(faults[0])
		}
		var runs []DigestedRun
		for _, d := range r.Digests {
			runs = append(runs, DigestedRun{Run: d.Protocol, Parts: d.Parts, Values: r.printed(d.Protocol)})
		}
		return runs, nil
	}}
}

// printed are the times and rates that the report shows of a protocol.
func (r *CompareReport) printed(protocol string) map[string]int64 {
	m := map[string]int64{}
	for _, row := range r.Rows {
		if row.Protocol != protocol {
			continue
		}
		at := row.what() + " "
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

func matrixWorkload(name string, short bool, c FaultMatrixConfig) digestWorkload {
	return digestWorkload{name, short, func(ctx context.Context, profile string) ([]DigestedRun, error) {
		c := c
		c.Profile = profile
		matrix, err := RunFaultMatrix(ctx, c)
		if err != nil {
			return nil, err
		}
		var runs []DigestedRun
		for _, cell := range matrix.Cells {
			runs = append(runs, DigestedRun{Run: cell.Kind + " " + cell.Level + " " + cell.Operation, Parts: cell.Parts})
		}
		return runs, nil
	}}
}

// Digests makes the runs. Their order does not depend on Jobs.
func Digests(ctx context.Context, c DigestsConfig) (_ *DigestTable, err error) {
	defer func() { err = stopped(ctx, "digests", err) }()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	type task struct {
		profile  string
		workload digestWorkload
		runs     []DigestedRun
		err      error
	}
	var tasks []*task
	for _, profile := range c.Profiles {
		// One build at a time, before anything else has the processors.
		if _, err := sim.ProfileSimulator(ctx, profile); err != nil {
			return nil, fmt.Errorf("digests: %w", err)
		}
		for _, w := range digestWorkloads() {
			if !c.Short || w.short {
				tasks = append(tasks, &task{profile: profile, workload: w})
			}
		}
	}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	var next, done atomic.Int64
	var all sync.WaitGroup
	for range c.Jobs {
		all.Go(func() {
			for {
				k := int(next.Add(1)) - 1
				if k >= len(tasks) || running.Err() != nil {
					return
				}
				t := tasks[k]
				if t.runs, t.err = t.workload.run(running, t.profile); t.err != nil {
					cancel()
					return
				}
				if n := int(done.Add(1)); c.Progress != nil {
					c.Progress(Progress{What: t.profile + ", " + t.workload.name, Done: n, Total: len(tasks)})
				}
			}
		})
	}
	all.Wait()
	d := &DigestTable{Schema: DigestsSchema}
	for _, t := range tasks {
		if t.err != nil && (ctx.Err() != nil || !errors.Is(t.err, context.Canceled)) {
			return nil, fmt.Errorf("digests: %s, profile %s: %w", t.workload.name, t.profile, t.err)
		}
		for _, r := range t.runs {
			r.Profile, r.Workload = t.profile, t.workload.name
			d.Runs = append(d.Runs, r)
		}
	}
	return d, ctx.Err()
}

// DigestDifference is one value that is not what it was. Was or Is is empty if
// one side does not have it.
type DigestDifference struct {
	Profile, Workload, Run, Value string
	Was, Is                       string
}

// The values of a run that are digests.
const (
	valueFrames = "frames"
	valueWakes  = "wakes"
)

// OnlyWakes is true if only what hosts were woken for has changed.
func OnlyWakes(list []DigestDifference) bool {
	return !slices.ContainsFunc(list, func(d DigestDifference) bool { return d.Value != valueWakes })
}

// Differences compares runs with those of a table from before. Runs that only
// the older table has count if the newer one is meant to be complete.
func (d *DigestTable) Differences(was *DigestTable, complete bool) []DigestDifference {
	var list []DigestDifference
	old := map[string]DigestedRun{}
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

func differences(of DigestedRun, was, is map[string]string) (list []DigestDifference) {
	names := maps.Clone(is)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, was)
	for _, name := range slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(valueOrder(a), valueOrder(b)), cmp.Compare(a, b))
	}) {
		if was[name] != is[name] {
			list = append(list, DigestDifference{of.Profile, of.Workload, of.Run, name, was[name], is[name]})
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
func (r DigestedRun) flat() map[string]string {
	m := map[string]string{}
	for name, v := range r.Values {
		m[name] = strconv.FormatInt(v, 10)
	}
	if r.Frames != "" {
		m[valueFrames], m[valueWakes] = r.Frames, r.Wakes
	}
	return m
}

// digestsPath is where a checkout keeps its table.
func digestsPath() (string, error) {
	root, err := verilate.Root()
	return filepath.Join(root, DigestsFile), err
}

// ReadDigests reads the table of the checkout that this program works in.
func ReadDigests() (*DigestTable, error) {
	path, err := digestsPath()
	if err != nil {
		return nil, err
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("digests: %w: 'make digests ARGS=--update' writes it", err)
	}
	d := &DigestTable{}
	if err := json.Unmarshal(body, d); err != nil {
		return nil, fmt.Errorf("digests: %s: %w: 'make digests ARGS=--update' writes it anew", path, err)
	}
	if d.Schema != DigestsSchema {
		return nil, fmt.Errorf("digests: %s has schema %q, want %q: 'make digests ARGS=--update' writes it anew", path, d.Schema, DigestsSchema)
	}
	return d, nil
}

// Save writes the table into the checkout and returns its path.
func (d *DigestTable) Save() (string, error) {
	path, err := digestsPath()
	if err != nil {
		return "", err
	}
	return report.Save(filepath.Dir(path), filepath.Base(path), d.WriteJSON)
}

// WriteJSON writes a line for each run, so that a version control system shows
// which have changed.
func (d *DigestTable) WriteJSON(w io.Writer) error {
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

// WriteText writes both digests of each run, those of a command below its name.
func (d *DigestTable) WriteText(w io.Writer) error {
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
func WriteDifferences(w io.Writer, list []DigestDifference) error {
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
