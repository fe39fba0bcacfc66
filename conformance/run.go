// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/fabric"
	"hvia/host"
	"hvia/sim"
	"hvia/vipl"
)

// Target is a device under test. Its Run gives the programs separate hosts.
type Target struct {
	Name      string
	Device    driver.Device
	Simulated bool // leaves out cases that take too long in the simulator
	// Run runs programs on hosts with the device until all have returned.
	Run func(ctx context.Context, list ...fabric.Program) error
}

// fakeTarget is a card without RTL, or M-VIA over NICs without RTL. It checks
// that the agents release all resources of the programs.
func fakeTarget(d driver.Device) Target {
	return Target{Name: "fake-" + string(d), Device: d, Run: func(ctx context.Context, list ...fabric.Program) error {
		nodes := map[int]bool{}
		for _, p := range list {
			nodes[p.Node] = true
		}
		f, err := drivertest.NewOf(d, len(nodes), len(fabric.Participants(list)))
		if err != nil {
			return err
		}
		defer f.Close()
		err = fabric.RunOn(ctx, f, fabric.RunConfig{Device: d, Seed: 1}, list...)
		for i := range nodes {
			if n := f.Node(i).InUse(); n != 0 && err == nil {
				err = fmt.Errorf("node %d: %d frames are still in use", i, n)
			}
		}
		return err
	}}
}

// Simulated is a device in the simulator. Every run must be reproducible.
func Simulated(name string, c fabric.RunConfig) Target {
	return Target{Name: name, Device: c.Device, Simulated: true, Run: func(ctx context.Context, list ...fabric.Program) error {
		c.Finished = func(f *sim.Fabric) error {
			d, err := f.Digest(ctx)
			if err == nil && !d.Reproducible {
				err = errors.New("the run is not reproducible: something outside of simulated time took part")
			}
			return err
		}
		return fabric.Run(ctx, c, list...)
	}}
}

// has reports whether a case applies to the target.
func (t Target) has(c Case) bool {
	return (c.Only == "" || c.Only == t.Device) && !(c.slow && t.Simulated)
}

// Attributes are those of the target's NIC.
func (t Target) Attributes(ctx context.Context) (q vipl.NICAttributes, err error) {
	err = t.Run(ctx, Programs(func(e *Env) error { q = e.NIC.Query(); return nil })...)
	return q, err
}

// Verdict is the outcome of a case.
type Verdict string

// Verdicts.
const (
	Pass         Verdict = "pass"
	Fail         Verdict = "fail"
	NotSupported Verdict = "not supported" // and rejected, as required
)

// Result is the outcome of a case or of a scenario; a scenario has the Function
// [ScenarioGroup].
type Result struct {
	Function string  `json:"function"`
	Case     string  `json:"case"`
	Verdict  Verdict `json:"verdict"`
	Reason   string  `json:"reason,omitempty"` // of a failure; or the missing attribute
}

// ScenarioGroup is the Function of scenarios.
const ScenarioGroup = "scenarios"

// Name is the name that filters match.
func (r Result) Name() string { return r.Function + "/" + r.Case }

// result makes a verdict. need is the feature the NIC lacks, or nil.
func result(function, name string, need *Need, err error) Result {
	r := Result{Function: function, Case: name, Verdict: Pass}
	switch {
	case err != nil:
		r.Verdict, r.Reason = Fail, err.Error()
	case need != nil:
		r.Verdict, r.Reason = NotSupported, need.Attribute
	}
	return r
}

// Run runs the cases and scenarios that match a filter (nil matches all) and
// reports each. The cases share one run of the target; each scenario has a
// separate one. It returns an error if the target or the context fails before
// all verdicts.
func Run(ctx context.Context, t Target, filter func(name string) bool, report func(Result)) error {
	q, err := t.Attributes(ctx)
	if err != nil {
		return fmt.Errorf("conformance: query the NIC of %s: %w", t.Name, err)
	}
	takes := func(function, name string) bool {
		return filter == nil || filter(Result{Function: function, Case: name}.Name())
	}
	var cases []Case
	for _, c := range allCases() {
		if t.has(c) && takes(c.Function, c.When) {
			cases = append(cases, c)
		}
	}
	if err := t.runCases(ctx, q, cases, report); err != nil {
		return err
	}
	for _, s := range slices.Concat(Scenarios, habits, lostCases) {
		if s.on(t.Device) && takes(ScenarioGroup, s.Name) {
			report(t.runScenario(ctx, q, s))
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

// runCases runs cases one after another. If the run breaks, the remaining cases
// fail with its error.
func (t Target) runCases(ctx context.Context, q vipl.NICAttributes, cases []Case, report func(Result)) error {
	if len(cases) == 0 {
		return nil
	}
	done := 0
	err := t.Run(ctx, casePrograms(cases, q, func(r Result) {
		done++
		report(r)
	})...)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil && done < len(cases) {
		err = errors.New("the programs ended")
	}
	for _, c := range cases[done:] {
		report(result(c.Function, c.When, nil, fmt.Errorf("not run: %w", err)))
	}
	if err != nil && done == len(cases) {
		return fmt.Errorf("conformance: after the cases on %s: %w", t.Name, err)
	}
	return nil
}

func (t Target) runScenario(ctx context.Context, q vipl.NICAttributes, s Scenario) Result {
	return result(ScenarioGroup, s.Name, missing(q, s.needs...), t.Run(ctx, Programs(MainsOf(s)...)...))
}

// casePrograms are the caller, a second thread of its node, and the partner on
// the other node.
func casePrograms(cases []Case, q vipl.NICAttributes, report func(Result)) []fabric.Program {
	later := make(chan func(t *host.Thread), 1)
	return []fabric.Program{
		Program(0, "calls", func(e *Env) error {
			e.NIC = must(vipl.OpenNIC(e.T, e.H))
			f := &fixture{Env: e, later: later, buf: must(e.NIC.Alloc(e.T, bufferBytes))}
			for i, c := range cases {
				need := missing(q, c.Needs)
				report(result(c.Function, c.When, need, f.play(fmt.Sprintf("case-%d", i), c, need)))
				Step(f.renew(), "after %s, %s", c.Function, c.When)
			}
			close(later)
			return errors.Join(e.T.Send(host.ThreadID{Node: 1, Rank: 1}, []byte("end")), e.T.Send(host.ThreadID{Node: 0, Rank: 2}, nil))
		}),
		Program(0, "does something meanwhile", func(e *Env) error {
			for {
				must2(e.T.Receive(host.Never))
				do, open := <-later
				if !open {
					return nil
				}
				check(e.T.Sleep(500 * host.Microsecond))
				do(e.T)
			}
		}),
		Program(1, "partner", func(e *Env) error {
			e.NIC = must(vipl.OpenNIC(e.T, e.H))
			return functionPartner(e)
		}),
	}
}

// play makes the call of a case.
func (f *fixture) play(name string, c Case, need *Need) error {
	f.name = name
	clear(f.buf.Bytes())
	err := f.try(c, need)
	failed := f.Fail
	f.Fail = nil
	return errors.Join(append(failed, err)...)
}

// renew releases the resources of a case with its NIC handle, and waits until
// the partner is ready.
func (f *fixture) renew() error {
	if err := f.nic.Close(f.T); err != nil {
		return err
	}
	if err := f.T.Send(host.ThreadID{Node: 1, Rank: 1}, []byte("ready")); err != nil {
		return err
	}
	if m, ok, err := f.T.Receive(10 * host.Second); err != nil || !ok || string(m.Data) != "ready" {
		return errors.Join(err, errors.New("the partner is not ready"))
	}
	return nil
}

// try makes the call on a fresh NIC handle.
func (f *fixture) try(c Case, need *Need) (err error) {
	f.nic = must(vipl.OpenNIC(f.T, f.H))
	defer caught(&err)
	switch {
	case need != nil && need.use != nil:
		return need.rejected(need.use(f.Env))
	case need != nil:
		return need.rejected(c.call(f))
	}
	if got := c.call(f); !has(got, c.Want) {
		return fmt.Errorf("%s, want %v", Text(got), c.Want)
	}
	return nil
}
