// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"hvia/bench/report"
	"hvia/bench/rig"
)

// outcome is the report of an experiment.
type outcome interface {
	Complete(version string, argv []string, failed error)
	Measured() bool // there is more to print than an error
	Failed() error  // error if a complete run is no success
	WriteText(io.Writer) error
}

// run runs an experiment, sets the hook for its progress and completes the head
// of its report. Without a report it uses the empty one.
func run[R outcome](a *app, cmd *cobra.Command, json bool, hook *func(rig.Progress), empty R, measure func(context.Context) (R, error)) (R, error) {
	p := a.newProgress(json)
	*hook = p.hook()
	rep, err := empty, needCheckout()
	if err == nil {
		var none R
		if rep, err = measure(cmd.Context()); any(rep) == any(none) {
			rep = empty
		}
	}
	p.done()
	if failed := rep.Failed(); err == nil && failed != nil {
		err = fmt.Errorf("%s: %w", cmd.Name(), failed)
	}
	rep.Complete(newVersionReport().Version, a.args, err)
	return rep, err
}

// print writes the report, also of a failed run: as JSON or, if there are
// results, with write.
func (a *app) print(cmd *cobra.Command, rep outcome, json bool, write func(io.Writer) error, to io.Writer, failed error) error {
	if json {
		write = func(w io.Writer) error { return report.WriteJSON(w, rep) }
	} else if !rep.Measured() {
		return failed
	}
	if err := write(to); err != nil {
		return errors.Join(failed, fmt.Errorf("%s: print the report: %w", cmd.Name(), err))
	}
	return failed
}

// publish prints the report of a reproduction and saves it in a directory,
// which may be "".
func (a *app) publish(cmd *cobra.Command, rep *report.Report, json bool, write func(io.Writer) error, dir string, failed error) error {
	failed = a.print(cmd, rep, json, write, a.Stdout, failed)
	if dir == "" || !rep.Measured() {
		return failed
	}
	path, err := rep.Save(dir)
	if err != nil {
		return errors.Join(failed, fmt.Errorf("%s: %w", cmd.Name(), err))
	}
	if !json {
		fmt.Fprintf(a.Stdout, "report: %s\n", path)
	}
	return failed
}
