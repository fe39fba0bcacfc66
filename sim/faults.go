// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"hvia/layout"
	"hvia/sim/bridge"
)

// ErrWireFaults is returned for impossible faults of the wire.
var ErrWireFaults = errors.New("wire faults")

// WireFaults are the faults that the wire injects. They depend only on the
// seed, the frames and their times. In each direction each kind makes separate
// choices, which the rate of another kind does not change.
type WireFaults struct {
	Seed   uint64 // the models' seed if 0
	Faults []WireFault
}

// WireFault is a kind of fault, the selection of its frames, and its details.
// All faults are decided for a frame when it is sent. A lost frame has no other
// fault.
type WireFault struct {
	Kind      layout.WireFault
	Direction WireDirection
	Frames    FrameSelection // for Cut and Link only From and To

	Least, Most bridge.Time // Delay, Pause: the delay, drawn evenly; a Pause without them lasts until Frames.To
	Behind      uint32      // Reorder: how many others pass: 1
	Within      bridge.Time // Reorder: latest time at which it continues: 1 ms
	Bits        uint32      // Corrupt: number of flipped bits; 1 to 8 by seed if 0
	Bytes       uint32      // Truncate: remaining bytes of frame and FCS; by seed if 0
}

// FrameSelection selects frames of one direction: those that match all given
// conditions.
type FrameSelection struct {
	From, To bridge.Time // the preamble starts at From or later and before To; if To is 0, at any time

	// Fields. All but Type belong to the VIA header, so frames without one do
	// not match.
	Type        uint16 // EtherType
	VI          *uint8 // index of the sender's VI
	Operation   *layout.FrameOperation
	Sequence    *uint32
	First, Last bool   // of a message
	Message     uint32 // the n-th that its VI sends, from 1

	// Of the matching frames (with Message: of the message's frames) the n-th,
	// from 1, and every n-th.
	Frame, Every uint32
	// The share of those that the seed selects.
	Share *Share
}

// WireDirection names directions of cables: FromNode0 and FromNode1 of the
// cable between two nodes; ToSwitch, FromSwitch and SwitchCable of cables to a
// switch.
type WireDirection int

// Directions.
const (
	BothDirections WireDirection = iota // of all cables
	FromNode0                           // 0>1
	FromNode1                           // 1>0
	firstSwitchWay
)

// switchWay is a direction of a node's cable to a switch.
type switchWay int

const (
	toSwitch switchWay = iota
	fromSwitch
	switchCable
	switchWays
)

func switchDirection(node int, way switchWay) WireDirection {
	if node < 0 || node >= layout.BridgeMaxNodes {
		return -1 // every fabric rejects this
	}
	return firstSwitchWay + WireDirection(node*int(switchWays)+int(way))
}

// ToSwitch is the direction from a node to the switch.
func ToSwitch(node int) WireDirection { return switchDirection(node, toSwitch) }

// FromSwitch is the direction from the switch to a node.
func FromSwitch(node int) WireDirection { return switchDirection(node, fromSwitch) }

// SwitchCable is both directions of a node's cable to the switch.
func SwitchCable(node int) WireDirection { return switchDirection(node, switchCable) }

// atSwitch returns the node and the way of a direction on a cable to a switch.
// For any other direction ok is false.
func (d WireDirection) atSwitch() (node int, way switchWay, ok bool) {
	if d < firstSwitchWay || d > SwitchCable(layout.BridgeMaxNodes-1) {
		return 0, 0, false
	}
	k := int(d - firstSwitchWay)
	return k / int(switchWays), switchWay(k % int(switchWays)), true
}

// Share is a probability in parts of WholeShare.
type Share uint32

// WholeShare is the share of all frames.
const WholeShare Share = 1_000_000_000

const (
	perPercent    = WholeShare / 100
	percentDigits = 7 // after the point
	defaultWithin = bridge.Millisecond
	longestSpan   = 1000 * bridge.Second
	mostBits      = 64
)

// Percent is a share for WireFault.
func Percent(p float64) *Share {
	s := Share(math.Round(p * float64(perPercent)))
	return &s
}

func (s Share) String() string {
	text := fmt.Sprintf("%d.%0*d", s/perPercent, percentDigits, s%perPercent)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + "%"
}

func (d WireDirection) String() string {
	switch d {
	case FromNode0:
		return "0>1"
	case FromNode1:
		return "1>0"
	}
	if node, way, ok := d.atSwitch(); ok {
		return fmt.Sprintf([]string{toSwitch: "%d>switch", fromSwitch: "switch>%d", switchCable: "%d<>switch"}[way], node)
	}
	return ""
}

func faultName(k layout.WireFault) string { return strings.ToLower(k.String()) }

func operationName(o layout.FrameOperation) string { return strings.ToLower(o.String()) }

const linkForm = "a link takes the word down, a window and nothing else: link=down 2ms..3ms, or link=down 2ms.. for ever"

// wrong returns the error of a fault, in the words of a specification.
func (f WireFault) wrong() string {
	s := f.Frames
	window := s.To != 0
	other := s
	other.From, other.To = 0, 0
	_, way, ofSwitch := f.Direction.atSwitch()
	is := func(kinds ...layout.WireFault) bool { return slices.Contains(kinds, f.Kind) }
	switch {
	case f.Kind > layout.WireFaultLink:
		return fmt.Sprintf("there is no kind %d", f.Kind)
	case f.Direction != BothDirections && f.Direction.String() == "":
		return fmt.Sprintf("there is no direction %d", f.Direction)
	case s.From < 0 || (window && s.From >= s.To) || (!window && s.From != 0):
		return fmt.Sprintf("a window from %v to %v", s.From, s.To)
	case s.Share != nil && *s.Share > WholeShare:
		return fmt.Sprintf("a share of %d in %d", *s.Share, WholeShare)
	case f.Kind == layout.WireFaultCut && (!window || other != FrameSelection{}):
		return "a cut takes a window and nothing else: cut=2ms..3ms, or cut=2ms.. for ever"
	case f.Kind == layout.WireFaultLink && (!window || other != FrameSelection{}):
		return linkForm
	case f.Kind == layout.WireFaultLink && f.Direction != BothDirections && (!ofSwitch || way != switchCable):
		return fmt.Sprintf("a link is down in both directions: leave out %v, or name a cable to a switch (2<>switch:link=down 2ms..3ms)", f.Direction)
	case f.Kind == layout.WireFaultPause && f.Most == 0 && (!window || s.To == bridge.Never || other != FrameSelection{}):
		return "a pause takes a window with an end and nothing else (pause=2ms..3ms), or frames and how long (pause=frame 17 for 1ms)"
	case s == FrameSelection{}:
		return fmt.Sprintf("say which frames, for example %s=1%%", faultName(f.Kind))
	case f.Kind == layout.WireFaultDelay && f.Most == 0:
		return "say how long: by 20us, or by 5us..20us"
	case f.Least < 0 || f.Least > f.Most || f.Most > longestSpan || (f.Most != 0 && !is(layout.WireFaultDelay, layout.WireFaultPause)):
		return fmt.Sprintf("a %s of %v to %v", faultName(f.Kind), f.Least, f.Most)
	case f.Within < 0 || f.Within > longestSpan || f.Behind > layout.BridgeMaxHeldFrames || (!is(layout.WireFaultReorder) && (f.Within != 0 || f.Behind != 0)):
		return fmt.Sprintf("a %s behind %d frames within %v", faultName(f.Kind), f.Behind, f.Within)
	case f.Bits > mostBits || (f.Bits != 0 && !is(layout.WireFaultCorrupt)):
		return fmt.Sprintf("a %s of %d bits", faultName(f.Kind), f.Bits)
	case f.Bytes > layout.MaxFrame || (f.Bytes != 0 && !is(layout.WireFaultTruncate)):
		return fmt.Sprintf("a %s to %d bytes", faultName(f.Kind), f.Bytes)
	}
	return ""
}

func spanText(t bridge.Time) string { return strings.ReplaceAll(t.String(), " ", "") }

func spansText(least, most bridge.Time) string {
	if least == most {
		return spanText(most)
	}
	return spanText(least) + ".." + spanText(most)
}

// String returns the fault's specification without its direction.
func (f WireFault) String() string {
	s := f.Frames
	var terms []string
	add := func(name string, value any) { terms = append(terms, fmt.Sprintf("%s %v", name, value)) }
	if f.Kind == layout.WireFaultLink {
		terms = append(terms, "down")
	}
	if s.Share != nil {
		terms = append(terms, s.Share.String())
	}
	if s.Message != 0 {
		add("message", s.Message)
	}
	if s.Frame != 0 {
		add("frame", s.Frame)
	}
	if s.Every != 0 {
		add("every", s.Every)
	}
	if s.VI != nil {
		add("vi", *s.VI)
	}
	if s.Operation != nil {
		add("operation", operationName(*s.Operation))
	}
	if s.Sequence != nil {
		add("sequence", *s.Sequence)
	}
	if s.First {
		terms = append(terms, "first")
	}
	if s.Last {
		terms = append(terms, "last")
	}
	if s.Type != 0 {
		add("type", fmt.Sprintf("%#04x", s.Type))
	}
	if s.To != 0 {
		window := spanText(s.From) + ".."
		if s.To != bridge.Never {
			window += spanText(s.To)
		}
		terms = append(terms, window)
	}
	if f.Most != 0 {
		add(map[bool]string{true: "for", false: "by"}[f.Kind == layout.WireFaultPause], spansText(f.Least, f.Most))
	}
	if f.Behind != 0 {
		add("behind", f.Behind)
	}
	if f.Within != 0 {
		add("within", spanText(f.Within))
	}
	if f.Bits != 0 {
		add("bits", f.Bits)
	}
	if f.Bytes != 0 {
		add("to", f.Bytes)
	}
	return faultName(f.Kind) + "=" + strings.Join(terms, " ")
}

// String returns the specification, which parses to the same faults.
func (f WireFaults) String() string {
	var clauses []string
	if f.Seed != 0 {
		clauses = append(clauses, fmt.Sprintf("seed=%d", f.Seed))
	}
	for i, fault := range f.Faults {
		switch {
		case i > 0 && fault.Direction == f.Faults[i-1].Direction:
			clauses[len(clauses)-1] += "," + fault.String()
		case fault.Direction == BothDirections:
			clauses = append(clauses, fault.String())
		default:
			clauses = append(clauses, fault.Direction.String()+":"+fault.String())
		}
	}
	return strings.Join(clauses, "; ")
}

// Set parses a specification. With String and Type, WireFaults can be the value
// of a flag.
func (f *WireFaults) Set(text string) error {
	v, err := ParseWireFaults(text)
	if err != nil {
		return err
	}
	*f = v
	return nil
}

// Type names the value of a flag.
func (*WireFaults) Type() string { return "faults" }

// MarshalText returns the specification.
func (f WireFaults) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText parses a specification.
func (f *WireFaults) UnmarshalText(text []byte) error { return f.Set(string(text)) }

// ways returns the directions in the simulator's words for a fabric of n nodes,
// or why there are none.
func (d WireDirection) ways(nodes int, switched bool) (ways []string, why string) {
	node, way, ofSwitch := d.atSwitch()
	switch {
	case nodes < 2:
		return nil, fmt.Sprintf("a fabric of %d nodes has no wire", nodes)
	case !switched && ofSwitch:
		return nil, fmt.Sprintf("direction %v: there is a cable between the two nodes and no switch: say 0>1 or 1>0", d)
	case !switched:
		for node, one := range []WireDirection{FromNode0, FromNode1} {
			if d == BothDirections || d == one {
				ways = append(ways, strconv.Itoa(node))
			}
		}
		return ways, ""
	case d == FromNode0 || d == FromNode1:
		return nil, fmt.Sprintf("direction %v: there is a switch between the nodes: say whose cable and which of its directions, for example %v or %v", d, ToSwitch(0), FromSwitch(1))
	case ofSwitch && node >= nodes:
		return nil, fmt.Sprintf("direction %v: there are %d nodes, counted from 0", d, nodes)
	}
	for n := range nodes {
		for _, w := range []switchWay{toSwitch, fromSwitch} {
			if d == BothDirections || n == node && (way == w || way == switchCable) {
				ways = append(ways, switchDirection(n, w).String())
			}
		}
	}
	return ways, ""
}

// Check reports errors of the faults for a fabric of the given number of nodes,
// with or without a switch, without starting one.
func (f WireFaults) Check(nodes int, switched bool) error {
	_, err := f.arguments(nodes, switched)
	return err
}

// arguments returns the simulator's arguments for a fabric of the given number
// of nodes.
func (f WireFaults) arguments(nodes int, switched bool) ([]string, error) {
	var args []string
	for i, fault := range f.Faults {
		if why := fault.wrong(); why != "" {
			return nil, fmt.Errorf("%w: fault %d of %d (%v): %s", ErrWireFaults, i+1, len(f.Faults), fault, why)
		}
		ways, why := fault.Direction.ways(nodes, switched)
		if why != "" {
			return nil, fmt.Errorf("%w: fault %d of %d (%v): %s", ErrWireFaults, i+1, len(f.Faults), fault, why)
		}
		for _, way := range ways {
			args = append(args, "--wire-fault", fault.argument(way))
		}
	}
	if len(args) != 0 && f.Seed != 0 {
		args = append(args, "--wire-fault-seed", strconv.FormatUint(f.Seed, 10))
	}
	return args, nil
}

// argument returns a fault in one direction, in the simulator's words.
func (f WireFault) argument(way string) string {
	s := f.Frames
	text := fmt.Sprintf("%v %s", f.Kind, way)
	add := func(given bool, name string, value uint64) {
		if given {
			text += fmt.Sprintf(" %s=%d", name, value)
		}
	}
	add(s.From != 0, "from", uint64(s.From))
	add(s.To != 0 && s.To != bridge.Never, "to", uint64(s.To))
	add(s.Type != 0, "type", uint64(s.Type))
	if s.VI != nil {
		add(true, "vi", uint64(*s.VI))
	}
	if s.Operation != nil {
		add(true, "operation", uint64(*s.Operation))
	}
	if s.Sequence != nil {
		add(true, "sequence", uint64(*s.Sequence))
	}
	add(s.First, "first", 1)
	add(s.Last, "last", 1)
	add(s.Message != 0, "message", uint64(s.Message))
	add(s.Frame != 0, "frame", uint64(s.Frame))
	add(s.Every != 0, "every", uint64(s.Every))
	if s.Share != nil {
		add(true, "share", uint64(*s.Share))
	}
	add(f.Most != 0, "least", uint64(f.Least))
	add(f.Most != 0, "most", uint64(f.Most))
	if f.Kind == layout.WireFaultReorder {
		within := f.Within
		if within == 0 {
			within = defaultWithin
		}
		add(f.Behind != 0, "behind", uint64(f.Behind))
		add(true, "within", uint64(within))
	}
	add(f.Bits != 0, "bits", uint64(f.Bits))
	add(f.Bytes != 0, "bytes", uint64(f.Bytes))
	return text
}
