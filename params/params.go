// SPDX-License-Identifier: Apache-2.0

// Package params is the one source of every number that is not a layout: its
// value, unit, source and tag. Rendered from it: rtl/gen/hvia_params_pkg.sv,
// sim/gen/hvia_params.h and docs/reference/params.md. The committed files are
// those of the base profile; package params/profile renders the others.
package params

//go:generate go run ./internal/cmd/paramsgen

import "fmt"

// Class says where a parameter takes effect.
type Class int

// Classes of parameters.
const (
	Elaboration Class = iota // widths and counts, fixed when the RTL is built
	Model                    // the simulator's bus, SDRAM, MAC, PHY and wire figures
	Host                     // costs of the host processor, charged in timed mode
	Driver                   // defaults that the driver is built with
)

func (c Class) String() string {
	switch c {
	case Elaboration:
		return "elaboration"
	case Model:
		return "model"
	case Host:
		return "host"
	case Driver:
		return "driver"
	}
	return fmt.Sprintf("Class(%d)", int(c))
}

// Tag is the provenance of a value.
type Tag string

// Tags of values. A value fitted to a target of the paper carries
// Calibrated("T8") with the target's name; CalibratedTargets lists them.
const (
	Paper     Tag = "PAPER"     // printed in the paper
	Sourced   Tag = "SOURCED"   // data sheet, standard or source code
	Structure Tag = "STRUCTURE" // follows from a choice of this design
	Guess     Tag = "GUESS"     // estimated, not fitted
)

// Calibrated is the tag of a value fitted to one target of the paper.
func Calibrated(target string) Tag { return Tag("CALIBRATED(" + target + ")") }

// CalibratedTargets lists the only parameters that may be fitted, and to what.
var CalibratedTargets = map[string]Tag{
	"HostPostTime":            Calibrated("T8"),
	"HostReceiveWaitTime":     Calibrated("T5"),
	"MacReactClocks":          Calibrated("T3"),
	"BridgeReadInitialClocks": Calibrated("T10"),
	"BridgeReadWaitEvery":     Calibrated("T10"),
	"BridgeWriteWaitEvery":    Calibrated("T10"),
	"MacReadWaitEvery":        Calibrated("T10"),
	"MacWriteWaitEvery":       Calibrated("T10"),
	"MviaPacketTime":          Calibrated("T4"),
	"MviaWakeTime":            Calibrated("T2"),
	"TcpPacketTime":           Calibrated("T4"),
	"TcpWakeTime":             Calibrated("T2"),
}

// Param is one number.
type Param struct {
	Name   string
	Class  Class
	Value  int64
	Prior  int64  // guess before the fit; 0 = none
	Unit   string // "1" for counts
	Tag    Tag
	Source string // where the value comes from
	Doc    string
	// A run may replace the value by one from Least to Most; both 0: never.
	Least, Most int64
}

// Replaceable says whether a run may replace the value.
func (p Param) Replaceable() bool { return p.Class == Model || p.Class == Host }

// Profile is a named set of values: the base table with some replaced.
type Profile struct {
	Name     string
	Doc      string
	Replaces map[string]int64
}

// Base is the name of the base profile, the paper's card.
const Base = "hvia-ge"

// Profiles lists the boards, the base profile first.
var Profiles = []Profile{
	{Name: Base, Doc: "the paper's card: 32-bit, 33 MHz system PCI, PC100 SDRAM, Gigabit Ethernet"},
	{
		Name: "hvia-ge-66",
		Doc:  "the same card with 64-bit, 66 MHz PCI on both sides; the period is 15 ns for PCI's nominal 15.15; what is counted in clocks stays",
		Replaces: map[string]int64{
			"SystemBusBits": 64, "MacBusBits": 64,
			"SystemClockPeriod": 15000, "MacClockPeriod": 15000,
		},
	},
}

// Set is the numbers of one profile.
type Set struct {
	Profile
	// Hash identifies this version of all numbers and the profile. A
	// simulator reports the hash of the set it was built from.
	Hash uint64
}

// ForProfile returns the numbers of a profile; an empty name means Base.
func ForProfile(name string) (Set, error) {
	if name == "" {
		name = Base
	}
	var names []string
	for _, p := range Profiles {
		if p.Name == name {
			return Set{Profile: p, Hash: hashes[name]}, nil
		}
		names = append(names, p.Name)
	}
	return Set{}, fmt.Errorf("params: no profile %q: there is %q", name, names)
}

// Table returns every parameter with the values of this profile.
func (s Set) Table() []Param {
	t := Table()
	for i, p := range t {
		if v, ok := s.Replaces[p.Name]; ok {
			t[i].Value = v
		}
	}
	return t
}

// Lookup returns the value of a parameter.
func (s Set) Lookup(name string) (int64, error) {
	for _, p := range s.Table() {
		if p.Name == name {
			return p.Value, nil
		}
	}
	return 0, fmt.Errorf("params: no parameter %q", name)
}

// Table returns every parameter with the values of the base profile.
func Table() []Param { return append([]Param(nil), table...) }

// Lookup returns the value of a parameter in a profile.
func Lookup(profile, name string) (int64, error) {
	s, err := ForProfile(profile)
	if err != nil {
		return 0, err
	}
	return s.Lookup(name)
}
