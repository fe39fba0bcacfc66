// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/vipl"
)

// setup is a panic: the reason why a program cannot go on, and the line.
type setup struct {
	err  error
	line string
}

// stop ends the program of the caller's caller with an error.
func stop(err error) {
	_, file, line, _ := runtime.Caller(2)
	panic(setup{err, fmt.Sprintf("%s:%d", filepath.Base(file), line)})
}

// check ends the program if a step failed. [Program] returns the error.
func check(err error) {
	if err != nil {
		stop(err)
	}
}

// step is check with the name of the step.
func step(err error, format string, args ...any) {
	if err != nil {
		stop(fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err))
	}
}

// must is check for a call that also returns a value.
func must[T any](v T, err error) T {
	if err != nil {
		stop(err)
	}
	return v
}

// must2 is must for two values.
func must2[T, U any](v T, w U, err error) (T, U) {
	if err != nil {
		stop(err)
	}
	return v, w
}

// caught turns the panic of a failed step into an error. It is deferred.
func caught(err *error) {
	switch p := recover().(type) {
	case nil:
	case setup:
		*err = fmt.Errorf("%s: %w", p.line, p.err)
	default:
		panic(p)
	}
}

// Program makes a program of a main that opens its NIC itself, if it needs one.
func Program(node int, name string, main Main) fabric.Program {
	return fabric.Program{Node: node, Name: name, Main: func(t *host.Thread, h *driver.Host) (err error) {
		e := &Env{T: t, H: h}
		defer func() { err = errors.Join(append(e.Fail, err)...) }()
		defer caught(&err)
		return main(e)
	}}
}

// Programs makes a program of each main, one node each, with an open NIC.
func Programs(mains ...Main) []fabric.Program {
	var out []fabric.Program
	for i, m := range mains {
		out = append(out, Program(i, "", func(e *Env) error {
			e.NIC = must(vipl.OpenNIC(e.T, e.H))
			return m(e)
		}))
	}
	return out
}
