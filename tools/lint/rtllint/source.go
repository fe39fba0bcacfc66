// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The card has no delays: a clock cycle passes because work takes it, not to
// reach a time. Neither Verilator nor Yosys can check that, so this file checks
// the text for three kinds of finding:
//
//   - what hardware cannot have: delays, event controls, system tasks, other
//     languages, initial blocks that do more than fill a memory;
//   - every register that steps by a constant or shifts itself;
//   - every name that speaks of waiting.
//
// It also finds clocks that come out of logic (clocks).
//
// The table of allowances names the purpose of each exception. A reviewer
// decides whether a counter counts something or only lets time pass.

// allowances gives reasons by "module: name", without _q, _d, _i or _o. An
// entry of steps also allows the name.
type allowances struct {
	steps map[string]string
	names map[string]string // the module may be *, the name a pattern
}

const (
	checkHardware  = "not hardware"
	checkCounter   = "counter"
	checkShift     = "shift register"
	checkName      = "name"
	checkAllowance = "allowance"
	checkStruct    = "array of structs"
	checkMemories  = "memories"
	checkFormat    = "format"
	checkClock     = "clock"
)

// sources checks the text of modules, of their checkers and of the packages.
// With all, an unneeded allowance is a finding, too.
func (l *linter) sources(modules []module, all bool) ([]finding, error) {
	var findings []finding
	used := map[string]bool{}
	known := map[string]bool{}
	for _, m := range modules {
		known[m.name] = true
	}
	for _, dir := range l.dirs { // a subset's instances are modules, too
		names, err := filepath.Glob(filepath.Join(l.root, dir, "*.sv"))
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			known[strings.TrimSuffix(filepath.Base(n), ".sv")] = true
		}
	}
	var packages strings.Builder
	for _, rel := range l.packages {
		text, err := l.read(rel)
		if err != nil {
			return nil, err
		}
		packages.WriteString(text)
		findings = append(findings, notHardware(rel, text, known)...)
	}
	for _, m := range modules {
		text, err := l.read(m.file)
		if err != nil {
			return nil, err
		}
		findings = append(findings, notHardware(m.file, text, known)...)
		findings = append(findings, clocks(m.file, text)...)
		findings = append(findings, l.format(m)...)
		findings = append(findings, structArrays(m.file, text, packages.String())...)
		findings = append(findings, l.allowed.stepping(m, text, used)...)
		findings = append(findings, l.allowed.waiting(m, text, used)...)
		if m.checker == "" {
			continue
		}
		if text, err = l.read(m.checker); err != nil {
			return nil, err
		}
		known[m.name+"_checker"] = true
		findings = append(findings, notHardware(m.checker, text, known)...)
	}
	if !all {
		return findings, nil
	}
	for _, name := range slices.Sorted(maps.Keys(l.memories)) {
		if !known[name] {
			findings = append(findings, finding{module: name, check: checkMemories,
				text: fmt.Sprintf("there is no module %s: take it out of tools/lint/rtllint/memories.go", name)})
		}
	}
	for _, table := range []map[string]string{l.allowed.steps, l.allowed.names} {
		for _, k := range slices.Sorted(maps.Keys(table)) {
			if !used[k] {
				findings = append(findings, finding{module: strings.SplitN(k, ":", 2)[0], check: checkAllowance,
					text: fmt.Sprintf("%q is allowed and nothing needs it: take it out of tools/lint/rtllint/allowed.go", k)})
			}
		}
	}
	return findings, nil
}

func (l *linter) read(rel string) (string, error) {
	b, err := os.ReadFile(filepath.Join(l.root, rel))
	if err != nil {
		return "", fmt.Errorf("look at the text of a module: %w", err)
	}
	return code(string(b)), nil
}

var commentOrString = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/|"(?:[^"\\]|\\.)*"`)

// code blanks comments and the insides of strings; lines keep their numbers.
func code(text string) string {
	return commentOrString.ReplaceAllStringFunc(text, func(s string) string {
		if s[0] == '"' {
			return `"` + blank(s[1:len(s)-1]) + `"`
		}
		return blank(s)
	})
}

func blank(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return ' '
	}, s)
}

var port = regexp.MustCompile(`(?m)^ *(?:input|output)\s[^;/\n]*?(\w+) *,? *(?://.*)?$`)

// format finds violations of the style of CONTRIBUTING.md that need no parser,
// in a module and its checker.
func (l *linter) format(m module) []finding {
	var found []finding
	for _, rel := range []string{m.file, m.checker} {
		body, err := os.ReadFile(filepath.Join(l.root, rel))
		if err != nil {
			continue // no checker; the module's file was read before
		}
		text := string(body)
		add := func(offset int, message string) {
			f := at(rel, text, offset, "%s", message)
			f.check = checkFormat
			found = append(found, f)
		}
		offset := 0
		for line := range strings.Lines(text) {
			switch bare := strings.TrimSuffix(line, "\n"); {
			case len([]rune(bare)) > 100:
				add(offset, "more than 100 columns")
			case strings.ContainsRune(bare, '\t') || strings.TrimRight(bare, " ") != bare:
				add(offset, "a tab, or a space at the end of the line")
			}
			offset += len(line)
		}
		if rel == m.checker {
			continue
		}
		for _, p := range port.FindAllStringSubmatchIndex(text, -1) {
			if name := text[p[2]:p[3]]; !portSuffix.MatchString(name) {
				add(p[2], "port "+name+": end it in _i, _o, _ni or _no, or _oe for the enable of a pin")
			}
		}
	}
	return found
}

var portSuffix = regexp.MustCompile(`_(n?[io]|oe)$`)

func at(file, text string, offset int, format string, args ...any) finding {
	line := 1 + strings.Count(text[:offset], "\n")
	return finding{
		module: strings.TrimSuffix(filepath.Base(file), ".sv"), check: checkHardware,
		text: fmt.Sprintf("%s:%d: ", file, line) + fmt.Sprintf(format, args...),
	}
}

var (
	hash          = regexp.MustCompile(`#`)
	parameterList = regexp.MustCompile(`^#\s*\(`)
	before        = regexp.MustCompile(`(?:\bmodule\s+)?([A-Za-z_]\w*)\s*$`)
	moduleBefore  = regexp.MustCompile(`\bmodule\s+[A-Za-z_]\w*\s*$`)
	event         = regexp.MustCompile(`@`)
	alwaysBefore  = regexp.MustCompile(`\balways(?:_ff)?\s*$`)
	edges         = regexp.MustCompile(`^@\s*(?:\*|\(\s*\*\s*\)|\(\s*(?:pos|neg)edge\s+[\w.]+(?:\s+or\s+(?:pos|neg)edge\s+\w+)*\s*\))`)
	systemTask    = regexp.MustCompile(`\$([a-zA-Z_]\w*)`)
	language      = regexp.MustCompile(`\b(?:import|export)\s*"`)
	keyword       = regexp.MustCompile(`\b(?:wait|wait_order|fork|join|join_any|join_none|forever|final|specify|specparam|clocking|program|event|time|realtime|timeunit|timeprecision)\b`)
	timeLiteral   = regexp.MustCompile(`\b\d[\d_]*(?:\.\d+)?(?:fs|ps|ns|us|ms|s)\b`)
	directive     = regexp.MustCompile("`(?:timescale|ifdef|ifndef|elsif|else|endif|delay_mode_\\w+)\\b")
	initial       = regexp.MustCompile(`\binitial\b`)
)

// Only these system functions and tasks suit hardware: they are evaluated at
// elaboration, or used by checkers.
var systemTasks = []string{
	"bits", "clog2", "countones", "error", "fatal", "isunknown", "onehot", "onehot0", "readmemb", "readmemh", "signed", "size", "unsigned",
}

// notHardware finds what an FPGA cannot do.
func notHardware(file, text string, modules map[string]bool) []finding {
	var found []finding
	for _, p := range hash.FindAllStringIndex(text, -1) {
		head, tail := text[:p[0]], text[p[0]:]
		if parameterList.MatchString(tail) {
			if moduleBefore.MatchString(head[max(0, len(head)-200):]) {
				continue
			}
			if name := before.FindStringSubmatch(head[max(0, len(head)-200):]); name != nil && modules[name[1]] {
				continue
			}
		}
		found = append(found, at(file, text, p[0], "a delay: # may only begin the parameters of a module"))
	}
	for _, p := range event.FindAllStringIndex(text, -1) {
		head, tail := text[:p[0]], text[p[0]:]
		if !alwaysBefore.MatchString(head[max(0, len(head)-200):]) || !edges.MatchString(tail) {
			found = append(found, at(file, text, p[0], "an event control: @ may only follow always_ff or always, with edges or *"))
		}
	}
	for _, p := range systemTask.FindAllStringSubmatchIndex(text, -1) {
		if name := text[p[2]:p[3]]; !slices.Contains(systemTasks, name) {
			found = append(found, at(file, text, p[0], "$%s is of the simulator: only $%s are allowed", name, strings.Join(systemTasks, ", $")))
		}
	}
	for _, p := range language.FindAllStringIndex(text, -1) {
		found = append(found, at(file, text, p[0], "a function of another language (DPI)"))
	}
	for _, p := range keyword.FindAllStringIndex(text, -1) {
		found = append(found, at(file, text, p[0], "%q is of the simulator", text[p[0]:p[1]]))
	}
	for _, p := range timeLiteral.FindAllStringIndex(text, -1) {
		found = append(found, at(file, text, p[0], "%s is a time of the simulator: time is the timebase input", text[p[0]:p[1]]))
	}
	for _, p := range directive.FindAllStringIndex(text, -1) {
		found = append(found, at(file, text, p[0], "%s: there is one design, for simulation and synthesis, and no time scale", text[p[0]:p[1]]))
	}
	for _, p := range initial.FindAllStringIndex(text, -1) {
		if bad := notMemory(text, p[1]); bad != "" {
			found = append(found, at(file, text, p[0], "initial may only fill a memory, and here is %q: a register gets its value from reset", bad))
		}
	}
	return found
}

var (
	clockName = regexp.MustCompile(`\b\w*clk\w*\b`)
	// clockUse is where the name of a clock may stand: as a port, in an
	// event, alone in the connection of a clock's port.
	clockUse = regexp.MustCompile(`\binput\s[^;,()]*?\b\w*clk\w*|\bposedge\s+\w*clk\w*(?:\.\w+)?|\.\w*clk\w*(?:\s*\(\s*\w*clk\w*(?:\.\w+)?\s*\))?`)
	edge     = regexp.MustCompile(`\bposedge\s+(\w+)|\bnegedge\s+(\w+)`)
)

// asserts is the module whose flip-flops have an asynchronous reset.
const asserts = "hvia_cdc_reset_sync.sv"

// clocks finds clocks that come out of logic, and flip-flops clocked by other
// signals: a clock is a net from the top, which may be stopped only there.
func clocks(file, text string) []finding {
	var found []finding
	add := func(offset int, format string, args ...any) {
		f := at(file, text, offset, format, args...)
		f.check = checkClock
		found = append(found, f)
	}
	rest := clockUse.ReplaceAllStringFunc(text, blank)
	for _, p := range clockName.FindAllStringIndex(rest, -1) {
		add(p[0], "clock %s in an expression: connect a clock to a clock's port, by itself", text[p[0]:p[1]])
	}
	for _, p := range edge.FindAllStringSubmatchIndex(text, -1) {
		switch {
		case p[2] >= 0 && !clockName.MatchString(text[p[2]:p[3]]):
			add(p[0], "%s is no clock: name a clock with clk", text[p[2]:p[3]])
		case p[4] >= 0 && filepath.Base(file) != asserts:
			add(p[0], "a falling edge of %s: flip-flops take a reset at the rising edge of their clock; only %s asserts one at once", text[p[4]:p[5]], asserts)
		}
	}
	return found
}

var (
	forHeader   = regexp.MustCompile(`\bfor\s*\((?:[^()]|\([^()]*\))*\)`)
	block       = regexp.MustCompile(`\b(begin|end)\b(?:\s*:\s*\w+)?`)
	beginsBlock = regexp.MustCompile(`^\s*begin\b`)
	fills       = regexp.MustCompile(`^([A-Za-z_]\w*)\s*\[[^=]*\]\s*(?:<=|=)[^=]`)
	reads       = regexp.MustCompile(`^\$readmem[bh]\s*\(`)
)

// notMemory returns the first statement of an initial block, whose body begins
// at offset, that does not write a word of a memory; "" if all do.
func notMemory(text string, offset int) string {
	body := forHeader.ReplaceAllStringFunc(text[offset:], blank)
	if beginsBlock.MatchString(body) {
		depth, end := 0, len(body)
		for _, p := range block.FindAllStringSubmatchIndex(body, -1) {
			if body[p[2]:p[3]] == "begin" {
				depth++
			} else if depth--; depth == 0 {
				end = p[1]
				break
			}
		}
		body = block.ReplaceAllString(body[:end], " ")
	} else if i := strings.IndexByte(body, ';'); i >= 0 {
		body = body[:i]
	}
	for _, s := range strings.Split(body, ";") {
		s = strings.TrimSpace(s)
		if s == "" || reads.MatchString(s) {
			continue
		}
		m := fills.FindStringSubmatch(s)
		if m == nil || !regexp.MustCompile(`\b(?:logic|reg|bit)\b[^;=]*\b`+m[1]+`\s*\[`).MatchString(text) {
			return s
		}
	}
	return ""
}

var (
	structType = regexp.MustCompile(`\b(?:struct|union)\b[^{;]*\{`)
	declared   = regexp.MustCompile(`^\s*((?:\w+\s*,\s*)*\w+)\s*([\[;,])`)
	aliased    = regexp.MustCompile(`\btypedef\s+(?:\w+\s*::\s*)?(\w+)\s+(\w+)\s*;`)
	lastWord   = regexp.MustCompile(`\w+$`)
)

// structArrays finds unpacked arrays of structs and unions. If the type has a
// name, Yosys drops the dimension and makes a register of the memory.
func structArrays(file, text, packages string) []finding {
	message := func(offset int, name string) finding {
		f := at(file, text, offset, "%s is an array of structs, of which Yosys makes one register: declare its elements as plain vectors", name)
		f.check = checkStruct
		return f
	}
	var found []finding
	types := map[string]bool{}
	for i, body := range []string{packages, text} {
		for _, p := range structType.FindAllStringIndex(body, -1) {
			end, depth := p[1], 1
			for ; end < len(body) && depth > 0; end++ {
				switch body[end] {
				case '{':
					depth++
				case '}':
					depth--
				}
			}
			d := declared.FindStringSubmatch(body[end:])
			switch {
			case d == nil:
			case d[2] == "[" && i == 1:
				found = append(found, message(p[0], lastWord.FindString(d[1])))
			default:
				types[d[1]] = true
			}
		}
		for more := true; more; {
			more = false
			for _, a := range aliased.FindAllStringSubmatch(body, -1) {
				if types[a[1]] && !types[a[2]] {
					types[a[2]], more = true, true
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		declaration := regexp.MustCompile(`\b` + name + `\s+((?:\w+\s*,\s*)*\w+)\s*\[`)
		for _, p := range declaration.FindAllStringSubmatchIndex(text, -1) {
			found = append(found, message(p[0], lastWord.FindString(text[p[2]:p[3]])))
		}
	}
	return found
}

// The amount of a step: a number or a constant.
const constant = `(?:\d*\s*'s?[bdohBDOH]\s*[0-9a-fA-F_]+|'[01]|\d+\b|(?:\d+|[A-Za-z_]\w*)'\(\s*(?:\d+|[A-Z]\w*)\s*\)|(?:\w+_pkg::)?[A-Z]\w*)`

var (
	stepAfter  = regexp.MustCompile(`\b([a-z]\w*)(?:\s*\[[^\]]*\])?\s*\)*\s*[-+]\s*` + constant)
	stepBefore = regexp.MustCompile(constant + `\s*\+\s*\(*\s*([a-z]\w*)`)
	stepShort  = regexp.MustCompile(`\b([a-z]\w*)(?:\s*\[[^\]]*\])?\s*(?:\+\+|--|[-+]=)`)
	shiftBy    = regexp.MustCompile(`\b([a-z]\w*)\s*(?:<<|>>)\s*` + constant)
	slice      = regexp.MustCompile(`\b([a-z]\w*)\s*\[`)
	assigned   = regexp.MustCompile(`(?:^|[^\w.:!<>=])([a-z]\w*)(?:\s*\[[^\]]*\])?\s*(?:<=|=)(?:[^=]|$)`)
	identifier = regexp.MustCompile(`[A-Za-z_]\w*`)
	concat     = regexp.MustCompile(`\{[^{}]*\}`)
)

// base is a signal's name without the suffix of a register or its next value.
func base(name string) string {
	for _, s := range []string{"_q", "_d"} {
		if b, ok := strings.CutSuffix(name, s); ok && b != "" {
			return b
		}
	}
	return name
}

type statement struct {
	offset int
	text   string
	to     []string        // assigned signals
	reads  map[string]bool // signals in it
}

// statements returns the statements that assign or step.
func statements(text string) (all []statement) {
	offset := 0
	for _, s := range strings.SplitAfter(text, ";") {
		st := statement{offset: offset + len(s) - len(strings.TrimLeft(s, " \n")), text: s}
		for _, p := range assigned.FindAllStringSubmatch(s, -1) {
			st.to = append(st.to, base(p[1]))
		}
		if len(st.to) == 0 && !stepShort.MatchString(s) {
			offset += len(s)
			continue // a declaration
		}
		st.reads = map[string]bool{}
		for _, id := range identifier.FindAllString(s, -1) {
			st.reads[base(id)] = true
		}
		all = append(all, st)
		offset += len(s)
	}
	return all
}

// stepping finds registers that count by a constant or shift themselves,
// directly or through one other signal.
func (a allowances) stepping(m module, text string, used map[string]bool) []finding {
	text = forHeader.ReplaceAllStringFunc(text, blank) // loops over generated hardware
	all := statements(text)
	// from reports whether a statement that assigns to reads name.
	from := func(to, name string) bool {
		for _, s := range all {
			if s.reads[name] && slices.Contains(s.to, to) {
				return true
			}
		}
		return false
	}
	var found []finding
	reported := map[string]bool{}
	report := func(s statement, name, check string) {
		key := m.name + ": " + name
		if reported[key] {
			return
		}
		reported[key] = true
		if a.steps[key] != "" {
			used[key] = true
			return
		}
		f := at(m.file, text, s.offset, "%s steps or shifts by itself: if it counts or holds something, and does not only let time pass, say what in tools/lint/rtllint/allowed.go under %q", name, key)
		f.check = check
		found = append(found, f)
	}
	for _, s := range all {
		var stepping, shifting []string
		for _, r := range []*regexp.Regexp{stepAfter, stepBefore} {
			for _, p := range r.FindAllStringSubmatch(s.text, -1) {
				stepping = append(stepping, base(p[1]))
			}
		}
		for _, p := range stepShort.FindAllStringSubmatch(s.text, -1) {
			report(s, base(p[1]), checkCounter)
		}
		for _, p := range shiftBy.FindAllStringSubmatch(s.text, -1) {
			shifting = append(shifting, base(p[1]))
		}
		for _, c := range concat.FindAllString(s.text, -1) {
			for _, p := range slice.FindAllStringSubmatch(c, -1) {
				shifting = append(shifting, base(p[1]))
			}
		}
		for _, kind := range []struct {
			names []string
			check string
		}{{stepping, checkCounter}, {shifting, checkShift}} {
			for _, name := range kind.names {
				if slices.Contains(s.to, name) {
					report(s, name, kind.check)
					continue
				}
				for _, by := range s.to {
					if kind.check == checkCounter && from(name, by) {
						report(s, name, kind.check)
					}
				}
			}
		}
	}
	return found
}

var (
	word    = regexp.MustCompile(`[A-Z]+(?:[a-z]+)?|[a-z]+`)
	waiting = regexp.MustCompile(`^(?:a?wait|delay|idle|pause?|dead|latency|latencie|sleep|timer|timeout|resting|patience|backoff|settle?|stall|linger|dwell|throttl|cooldown|warmup)(?:s|e|ed|d|ing)?$`)
	foreign = regexp.MustCompile(`[.$'\x60]\s*$|::\s*$`)
)

// waiting finds signals, constants and states that speak of waiting.
func (a allowances) waiting(m module, text string, used map[string]bool) []finding {
	var found []finding
	reported := map[string]bool{}
	for _, p := range identifier.FindAllStringIndex(text, -1) {
		if foreign.MatchString(text[max(0, p[0]-4):p[0]]) {
			continue // a port of another module, a name of a package
		}
		name := base(text[p[0]:p[1]])
		for _, s := range []string{"_i", "_o", "_e", "_t", "_no", "_ni"} {
			name = strings.TrimSuffix(name, s)
		}
		if reported[name] || !slices.ContainsFunc(word.FindAllString(name, -1), func(w string) bool { return waiting.MatchString(strings.ToLower(w)) }) {
			continue
		}
		reported[name] = true
		if a.allows(m.name, name, used) {
			continue
		}
		f := at(m.file, text, p[0], "the name %s speaks of waiting: nothing here lets time pass; name it for what it does, or say why in tools/lint/rtllint/allowed.go under %q", name, m.name+": "+name)
		f.check = checkName
		found = append(found, f)
	}
	return found
}

func (a allowances) allows(module, name string, used map[string]bool) bool {
	allowed := a.steps[module+": "+name] != ""
	for key, reason := range a.names {
		in, pattern, _ := strings.Cut(key, ": ")
		if in != "*" && in != module || reason == "" {
			continue
		}
		if ok, err := path.Match(pattern, name); err == nil && ok {
			used[key], allowed = true, true
		}
	}
	return allowed
}
