// SPDX-License-Identifier: Apache-2.0

// Package conformance checks a device and its library against VIPL. A case
// calls one of the 41 functions and names the status it must return; a scenario
// is a program for each of two hosts. [Run] runs both on a [Target].
//
// An attribute names each optional feature of a NIC. A NIC without the feature
// must reject the call: the case is then not supported, otherwise it fails.
package conformance

import (
	"errors"
	"fmt"

	"hvia/driver"
	"hvia/vipl"
)

// Case is a call of one VIPL function, with a parameter or in a state, and the
// status it must return. The reference page is generated from the cases.
type Case struct {
	Function string // of VIPL, without Vip
	When     string
	Want     vipl.Status
	Needs    *Need
	Only     driver.Device // the only one that has this case; "" = all
	slow     bool          // too long for a simulated device
	call     func(f *fixture) error
}

// Need is a feature that a NIC may lack.
type Need struct {
	Attribute string // of vipl.NICAttributes
	Status    vipl.Status
	has       func(vipl.NICAttributes) bool
	// use is the call that a NIC without the feature rejects with Status. If it
	// is nil, that is the call of the case.
	use func(e *Env) error
}

// rejected checks that the NIC rejects a feature it lacks.
func (n *Need) rejected(got error) error {
	if !has(got, n.Status) {
		return fmt.Errorf("%s says that the NIC lacks this, but the call gives %s, want %v", n.Attribute, Text(got), n.Status)
	}
	return nil
}

// missing returns the first need that a NIC lacks.
func missing(q vipl.NICAttributes, needs ...*Need) *Need {
	for _, n := range needs {
		if n != nil && !n.has(q) {
			return n
		}
	}
	return nil
}

func needLevel(l vipl.ReliabilityLevel) *Need {
	return &Need{
		"ReliabilityLevelSupport", vipl.ErrInvalidReliabilityLevel,
		func(q vipl.NICAttributes) bool { return q.ReliabilityLevelSupport&l != 0 },
		func(e *Env) error { return errOf(e.NIC.CreateVI(e.T, vipl.VIAttributes{ReliabilityLevel: l})) },
	}
}

var (
	needRead = &Need{
		"RDMAReadSupport", vipl.ErrInvalidRDMARead,
		func(q vipl.NICAttributes) bool { return q.RDMAReadSupport != 0 }, nil,
	}
	needCQ = &Need{
		"MaxCQ", vipl.ErrResource,
		func(q vipl.NICAttributes) bool { return q.MaxCQ > 0 },
		func(e *Env) error { return errOf(e.NIC.CreateCQ(e.T, 4)) },
	}
)

func needReadAt(l vipl.ReliabilityLevel) *Need {
	return &Need{
		"RDMAReadSupport", vipl.ErrInvalidRDMARead,
		func(q vipl.NICAttributes) bool { return q.RDMAReadSupport&l != 0 },
		func(e *Env) error {
			return errOf(e.NIC.CreateVI(e.T, vipl.VIAttributes{ReliabilityLevel: l, EnableRDMARead: true}))
		},
	}
}

func errOf[T any](_ T, err error) error { return err }

// has reports whether a call returned a status.
func has(got error, s vipl.Status) bool {
	if got == nil {
		return s == vipl.Success
	}
	return errors.Is(got, s)
}

// Statuses of many cases.
const (
	success    = vipl.Success
	invalid    = vipl.ErrInvalidParameter
	noResource = vipl.ErrResource
	wrongState = vipl.ErrInvalidState
)

// allCases returns the cases of all functions.
func allCases() []Case {
	var l caseList
	for _, add := range []func(*caseList){
		nicCases, viCases, waitCases, acceptCases, rejectCases, requestCases, peerCases,
		tagCases, registerCases, regionCases, queueCases, cqCases, errorCases,
	} {
		add(&l)
	}
	return l.cases
}

type caseList struct{ cases []Case }

func (l *caseList) add(function, when string, want vipl.Status, call func(f *fixture) error) *Case {
	l.cases = append(l.cases, Case{Function: function, When: when, Want: want, call: call})
	return &l.cases[len(l.cases)-1]
}

// onNIC adds the cases common to all functions of a NIC handle.
func (l *caseList) onNIC(function string, call func(f *fixture, n *vipl.NIC) error) {
	l.add(function, "no NIC handle", invalid, func(f *fixture) error { return call(f, nil) })
	l.add(function, "NIC handle was closed", invalid, func(f *fixture) error { return call(f, f.closedNIC()) })
}

// onVI adds a case for each state of the VI.
func (l *caseList) onVI(function string, wants map[string]vipl.Status, call func(f *fixture, v *vipl.VI) error) {
	for _, s := range []string{stateNil, stateDestroyed, stateIdle, statePending, stateConnected, stateError} {
		want, listed := wants[s]
		switch {
		case s == stateNil || s == stateDestroyed:
			want = invalid
		case !listed:
			continue
		}
		l.add(function, "VI: "+s, want, func(f *fixture) error { return call(f, f.in(s, vipl.VIAttributes{})) })
	}
	l.add(function, "VI's NIC handle was closed", invalid, func(f *fixture) error {
		n := must(vipl.OpenNIC(f.T, f.H))
		v := must(n.CreateVI(f.T, vipl.VIAttributes{}))
		check(n.Close(f.T))
		return call(f, v)
	})
}

func inAnyState(s vipl.Status) map[string]vipl.Status {
	return map[string]vipl.Status{stateIdle: s, statePending: s, stateConnected: s, stateError: s}
}

var onlyIdle = map[string]vipl.Status{stateIdle: success, statePending: wrongState, stateConnected: wrongState, stateError: wrongState}
