// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/vipl"
)

// setup is a panic value: the failed step's error and line.
type setup struct {
	err  error
	line string
}

// stop ends the program with an error that names the line of the caller of a
// helper here or in a must_test.go.
func stop(err error) {
	_, file, line, ok := runtime.Caller(1)
	for i := 2; ok && strings.HasPrefix(filepath.Base(file), "must"); i++ {
		_, file, line, ok = runtime.Caller(i)
	}
	panic(setup{err, fmt.Sprintf("%s:%d", filepath.Base(file), line)})
}

// Check ends the program if a step failed. [Program] returns the error.
func Check(err error) {
	if err != nil {
		stop(err)
	}
}

func check(err error) { Check(err) }

// Step is [Check] with the name of the step.
func Step(err error, format string, args ...any) {
	if err != nil {
		stop(fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err))
	}
}

// must is [Check] for a call that also returns a value.
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

// Program makes a program of a main that opens its NIC itself if needed.
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
