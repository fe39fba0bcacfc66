// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"hvia/layout"
	"hvia/sim/bridge"
)

// FaultSyntaxError locates the error in a specification of faults.
type FaultSyntaxError struct {
	Text string // the specification
	At   int    // byte of Text at which Part starts
	Part string // the wrong part
	Why  string
}

func (e *FaultSyntaxError) Error() string {
	return fmt.Sprintf("wire faults %q: at character %d, %q: %s", e.Text, e.At+1, e.Part, e.Why)
}

func (e *FaultSyntaxError) Unwrap() error { return ErrWireFaults }

// word is a part of a specification and its position.
type word struct {
	text string
	at   int
}

// split cuts a word at a separator, and trims space from the pieces.
func (w word) split(separator string) []word {
	var out []word
	for at, rest := w.at, w.text; ; {
		piece, after, found := strings.Cut(rest, separator)
		out = append(out, word{piece, at}.trim())
		if !found {
			return out
		}
		at, rest = at+len(piece)+len(separator), after
	}
}

const blanks = " \t\n"

func (w word) trim() word {
	text := strings.TrimLeft(w.text, blanks)
	return word{strings.TrimRight(text, blanks), w.at + len(w.text) - len(text)}
}

func (w word) fields() []word {
	var out []word
	for w = w.trim(); w.text != ""; w = w.trim() {
		n := strings.IndexAny(w.text, blanks)
		if n < 0 {
			n = len(w.text)
		}
		out = append(out, word{w.text[:n], w.at})
		w = word{w.text[n:], w.at + n}
	}
	return out
}

// ParseWireFaults parses a specification, for example "drop=1%,corrupt=0.1%" or
// "0>1:drop=message 7 frame 3 vi 2; 1>0:cut=2ms..3ms". The grammar is in
// docs/how-to/make-the-wire-fail.md. The error is a *FaultSyntaxError. An empty
// text is a wire without faults.
func ParseWireFaults(text string) (WireFaults, error) {
	var f WireFaults
	p := &faultParser{text: text}
	if whole := (word{text, 0}).trim(); whole.text != "" {
		for _, clause := range whole.split(";") {
			p.clause(clause, &f)
		}
	}
	if p.err != nil {
		return WireFaults{}, p.err
	}
	return f, nil
}

// faultParser keeps the first error. Later results are meaningless.
type faultParser struct {
	text string
	err  error
}

func (p *faultParser) fail(w word, why string, values ...any) {
	if p.err == nil {
		p.err = &FaultSyntaxError{Text: p.text, At: w.at, Part: w.text, Why: fmt.Sprintf(why, values...)}
	}
}

func (p *faultParser) clause(clause word, f *WireFaults) {
	if seed, ok := strings.CutPrefix(clause.text, "seed="); ok {
		w := word{seed, clause.at + len("seed=")}
		if f.Seed != 0 {
			p.fail(clause, "the seed is given twice")
		}
		f.Seed = p.number(w, 1, math.MaxUint64)
		return
	}
	direction := BothDirections
	if before, _, found := strings.Cut(clause.text, ":"); found {
		w := (word{before, clause.at}).trim()
		direction = parseDirection(w.text)
		if direction == BothDirections {
			p.fail(w, "must be a direction, 0>1 or 1>0; of a cable to a switch, with a node from 0 to %d for 3, 3>switch, switch>3 or 3<>switch", layout.BridgeMaxNodes-1)
		}
		n := len(before) + 1
		clause = word{clause.text[n:], clause.at + n}
	}
	for _, w := range clause.split(",") {
		f.Faults = append(f.Faults, p.fault(w, direction))
	}
}

// parseDirection returns BothDirections for an unknown direction.
func parseDirection(text string) WireDirection {
	for d := FromNode0; d <= SwitchCable(layout.BridgeMaxNodes-1); d++ {
		if text != "" && text == d.String() {
			return d
		}
	}
	return BothDirections
}

func faultNames() []string {
	var names []string
	for k := range layout.WireFaultLink + 1 {
		names = append(names, faultName(k))
	}
	return names
}

func (p *faultParser) fault(w word, direction WireDirection) WireFault {
	f := WireFault{Direction: direction}
	name, _, found := strings.Cut(w.text, "=")
	kind := (word{name, w.at}).trim()
	k := slices.Index(faultNames(), kind.text)
	if k < 0 {
		p.fail(kind, "must be a kind of fault: %s", strings.Join(faultNames(), ", "))
		return f
	}
	f.Kind = layout.WireFault(k)
	if !found {
		p.fail(w, "say which frames, for example %s=1%%", kind.text)
		return f
	}
	terms := word{w.text[len(name)+1:], w.at + len(name) + 1}.fields()
	seen := map[string]bool{}
	for len(terms) > 0 {
		first := terms[0]
		n := p.term(&f, terms)
		for _, name := range termNames(first.text) {
			if seen[name] {
				p.fail(first, "%s is given twice", name)
			}
			seen[name] = true
		}
		if p.err != nil {
			return f
		}
		terms = terms[n:]
	}
	if f.Kind == layout.WireFaultLink && !seen["down"] {
		p.fail(w, "%s", linkForm)
	}
	if why := f.wrong(); why != "" {
		p.fail(w, "%s", why)
	}
	return f
}

// termNames returns what a term sets. No two terms of a fault may set the same.
func termNames(text string) []string {
	switch {
	case strings.HasSuffix(text, "%"):
		return []string{"a share"}
	case strings.Contains(text, ".."):
		return []string{"a window"}
	}
	return []string{text}
}

// term parses one term of a fault and returns its number of words.
func (p *faultParser) term(f *WireFault, terms []word) int {
	first, s := terms[0], &f.Frames
	switch {
	case strings.HasSuffix(first.text, "%"):
		s.Share = p.share(first)
		return 1
	case strings.Contains(first.text, ".."):
		s.From, s.To = p.window(first)
		return 1
	case first.text == "down" && f.Kind == layout.WireFaultLink:
		return 1
	case first.text == "first":
		s.First = true
		return 1
	case first.text == "last":
		s.Last = true
		return 1
	}
	want := "must be a share (1%%), a window (2ms..3ms), or one of frame, every, message, vi, operation, sequence, first, last, type"
	of := map[layout.WireFault]string{
		layout.WireFaultReorder: ", behind, within", layout.WireFaultCorrupt: ", bits", layout.WireFaultTruncate: ", to",
		layout.WireFaultDelay: ", by", layout.WireFaultPause: ", for",
	}[f.Kind]
	names := []string{"frame", "every", "message", "vi", "operation", "sequence", "type"}
	if of != "" {
		names = append(names, strings.Split(of, ", ")[1:]...)
	}
	if !slices.Contains(names, first.text) {
		p.fail(first, want+"%s", of)
		return 1
	}
	if len(terms) == 1 {
		p.fail(first, "its value is missing")
		return 1
	}
	value := terms[1]
	narrow := func(lo, hi uint64) uint32 { return uint32(p.number(value, lo, hi)) }
	switch first.text {
	case "frame":
		s.Frame = narrow(1, math.MaxUint32)
	case "every":
		s.Every = narrow(1, math.MaxUint32)
	case "message":
		s.Message = narrow(1, math.MaxUint32)
	case "sequence":
		s.Sequence = new(narrow(0, math.MaxUint32))
	case "vi":
		s.VI = new(uint8(narrow(0, math.MaxUint8)))
	case "type":
		s.Type = uint16(narrow(1, math.MaxUint16))
	case "operation":
		for o := range layout.FrameOperationAcknowledge + 1 {
			if operationName(o) == value.text {
				s.Operation = new(o)
			}
		}
		if s.Operation == nil {
			p.fail(value, "must be an operation of the VIA header, for example %s or %s", operationName(layout.FrameOperationSend), operationName(layout.FrameOperationRDMAWrite))
		}
	case "behind":
		f.Behind = narrow(1, layout.BridgeMaxHeldFrames)
	case "within":
		f.Within = p.span(value)
	case "bits":
		f.Bits = narrow(1, mostBits)
	case "to":
		f.Bytes = narrow(1, layout.MaxFrame)
	case "by", "for":
		f.Least, f.Most = p.spans(value)
	}
	return 2
}

func (p *faultParser) number(w word, lo, hi uint64) uint64 {
	base, digits := 10, w.text
	if hex, ok := strings.CutPrefix(digits, "0x"); ok {
		base, digits = 16, hex
	}
	v, err := strconv.ParseUint(digits, base, 64)
	if err != nil || v < lo || v > hi || strings.HasPrefix(digits, "+") {
		p.fail(w, "must be a whole number from %d to %d", lo, hi)
		return lo
	}
	return v
}

// decimal parses a number with at most `places` digits after the point. Its
// result is in units of the last place.
func decimal(text string, places int) (uint64, bool) {
	whole, part, point := strings.Cut(text, ".")
	if whole == "" || (point && part == "") || len(part) > places || strings.Trim(whole+part, "0123456789") != "" {
		return 0, false
	}
	v, err := strconv.ParseUint(whole+part+strings.Repeat("0", places-len(part)), 10, 64)
	return v, err == nil
}

func (p *faultParser) share(w word) *Share {
	v, ok := decimal(strings.TrimSuffix(w.text, "%"), percentDigits)
	if !ok || v > uint64(WholeShare) {
		p.fail(w, "must be a share from 0%% to 100%%, with at most %d digits behind the point", percentDigits)
		return nil
	}
	return new(Share(v))
}

func (p *faultParser) time(w word) bridge.Time {
	for i, unit := range []string{"ps", "ns", "us", "ms", "s"} {
		digits, ok := strings.CutSuffix(w.text, unit)
		if !ok || strings.Trim(digits, "0123456789.") != "" {
			continue
		}
		v, ok := decimal(digits, 3*i)
		if ok && v <= uint64(longestSpan) {
			return bridge.Time(v)
		}
	}
	p.fail(w, "must be a simulated time up to %v in ps, ns, us, ms or s, whole picoseconds, for example 1.5ms", longestSpan)
	return 0
}

func (p *faultParser) window(w word) (from, to bridge.Time) {
	left, right, _ := strings.Cut(w.text, "..")
	to = bridge.Never
	if left != "" {
		from = p.time(word{left, w.at})
	}
	if right != "" {
		to = p.time(word{right, w.at + len(left) + len("..")})
	}
	if p.err == nil && from >= to {
		p.fail(w, "a window ends after its beginning")
	}
	return from, to
}

func (p *faultParser) span(w word) bridge.Time {
	t := p.time(w)
	if t == 0 {
		p.fail(w, "must be more than 0")
	}
	return t
}

// spans parses one time or two.
func (p *faultParser) spans(w word) (least, most bridge.Time) {
	left, right, both := strings.Cut(w.text, "..")
	if !both {
		t := p.span(w)
		return t, t
	}
	least, most = p.time(word{left, w.at}), p.span(word{right, w.at + len(left) + len("..")})
	if p.err == nil && least > most {
		p.fail(w, "the longest is shorter than the shortest")
	}
	return least, most
}
