// SPDX-License-Identifier: Apache-2.0

package house

import (
	"fmt"
	"path"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// A row's pattern can match only a text that contains one of the strings in
// needs. Searching for these first makes the check three times faster.
type row struct {
	not   *regexp.Regexp
	needs []string
	use   string
}

// glossary has a pattern for each row of rejected phrases. It contains ordinary
// words only if they have no other sense here.
var glossary = []row{
	phrase(`refus(al|als|e|es|ed|ing)`, "NAK (on the wire), reject (an argument)"),
	phrase(`answers? (of|to) (a|the|its|an) (RDMA )?reads?|read'?s answers?`, "read response"),
	phrase(`go(es)? back to|went back|going[- ]back`, "rewind"),
	phrase(`(sen[dt]|sends|sending) again`, "retransmit"),
	phrase(`(own|foreign) (message|request|frame)s?`, "request, response"),
	phrase(`told|tells? (the|an?|its?|of|who|how|what|which|whether|them|apart)`, "report, notify, receive"),
	phrase(`whoever|whom|(the )?ones? who|who wants`, "the caller, the peer, the waiter"),
	phrase(`looks? (that )?finds? nothing|look(s|ed|ing)? anew|takes? (that|a) look`, "poll, empty poll"),
	phrase(`hand(s|ed|ing)? back`, "return, complete"),
	phrase(`on (its|their) way|under way`, "in flight"),
	phrase(`takes? (all |their |its |the )?descriptors (back|of|off|from)`, "reap"),
	phrase(`kept by`, "owned by, held in"),
	phrase(`offer(s|ed|ing)? (an? |the |its |their )?(registered )?(regions?|memory)|(regions?|memory) offered`, "advertise"),
	phrase(`offen[cs]es?|offend(s|ed|ing|er|ers)?`, "protocol violation, violate"),
	phrase(`hungry|patient`, "starved, low priority"),
	phrase(`places? (in|of) (an?|the|its) ring`, "slot"),
	phrase(`so many`, "N, the given number"),
	phrase(`in the place of`, "instead of"),
	phrase(`of (its|their|his|your|one's) own`, "separate, own"),
	phrase(`in vain`, "without effect, empty"),
	phrase(`as ever|for good[.,;:)]`, "unchanged, permanently"),
	phrase(`mend(s|ed|ing)?`, "fix"),
	phrase(`wants? (the|an?|its?|every|all|no|to)`, "require"),
	phrase(`(is|are|be|was|were|goes|falls?|becomes?|stays?) quiet|quietness|(stands?|stood|standing) still`, "idle, quiescent"),
	phrase(`begun|(is|are|was|were|be|been|being) ended`, "started, finished"),
	phrase(`(no|has|have|had|enough|more|makes?|is|find|finds|without|free) room|room (for|in|left)`, "capacity, space"),
	phrase(`(is|are|be|was|were|comes?|came|arrives?) whole`, "complete"),
	phrase(`(bad|failing|cut) wires?|wires? that fails?`, "lossy link, fault injection"),
	phrase(`benches|unit bench|(the|an?|each|every|this|its) bench`, "unit test, testbench; experiments for bench/"),
	phrase(`judge[sd]?|judging`, "reference model, oracle; check"),
	phrase(`planted`, "injected bug, mutant"),
}

func phrase(pattern, use string) row {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		panic(err)
	}
	not := regexp.MustCompile(`(?i)(^|[^\w/.])(` + strings.ReplaceAll(pattern, " ", `\s+`) + `)([^\w/]|$)`)
	return row{not, needs(tree), use}
}

// needs returns words such that every match of the pattern contains at least
// one; nil if it finds none.
func needs(tree *syntax.Regexp) []string {
	shortest := func(words []string) (n int) {
		for i, w := range words {
			if i == 0 || len(w) < n {
				n = len(w)
			}
		}
		return n
	}
	var best []string
	switch tree.Op {
	case syntax.OpLiteral:
		for _, w := range strings.Fields(string(tree.Rune)) {
			if len(w) > shortest(best) {
				best = []string{w}
			}
		}
	case syntax.OpCapture:
		return needs(tree.Sub[0])
	case syntax.OpConcat:
		for _, s := range tree.Sub {
			if words := needs(s); shortest(words) > shortest(best) {
				best = words
			}
		}
	case syntax.OpAlternate:
		for _, s := range tree.Sub {
			words := needs(s)
			if words == nil {
				return nil
			}
			best = append(best, words...)
		}
	}
	return best
}

// The widest line of each kind of text, in columns; a tab has four.
const (
	widthGo       = 80
	widthMarkdown = 100
	widthSV       = 100
)

var (
	quotation = regexp.MustCompile(`(?s)“[^”]*”|"[^"\n]*(\n[^"\n]+)?"`)
	codeSpan  = regexp.MustCompile("(?s)`[^`\n]*(\n[^`\n]+)?`")
	fence     = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	target    = regexp.MustCompile(`\]\([^)]*\)`)
	visible   = regexp.MustCompile(`[^\n]`)
	directive = regexp.MustCompile(`^\s*//(go:|nolint|line |lint:)`)
)

// CheckTextOf returns the findings of CheckText in folders or files of a
// checkout.
func CheckTextOf(root string, folders ...string) ([]Violation, error) {
	var all []Violation
	err := walk(root, func(name string, body []byte) error {
		if within(name, folders) {
			all = append(all, CheckText(name, body)...)
		}
		return nil
	})
	return all, err
}

// CheckText checks comments, pages and messages against the glossary and the
// widths.
func CheckText(name string, body []byte) []Violation {
	language := languageOf(name)
	if language == "" || name == "tools/house/language.go" || isGenerated(name) || generatedPage(name, string(body)) {
		return nil
	}
	var v []Violation
	for _, text := range prose(language, name, string(body)) {
		lower := strings.ToLower(text)
		for _, g := range glossary {
			if g.needs != nil && !slices.ContainsFunc(g.needs, func(w string) bool { return strings.Contains(lower, w) }) {
				continue
			}
			for _, at := range g.not.FindAllStringSubmatchIndex(text, -1) {
				hit := strings.Join(strings.Fields(text[at[4]:at[5]]), " ")
				hit = strings.ReplaceAll(hit, " // ", " ")
				v = append(v, Violation{name, lineOf(text, at[4]), fmt.Sprintf("%q: the glossary says %s", hit, g.use)})
			}
		}
	}
	return append(v, checkWidths(language, name, string(body))...)
}

// prose returns a file with only its prose: comment marks, code, quotations and
// link targets are blank.
func prose(language, name, body string) []string {
	blank := func(s string, patterns ...*regexp.Regexp) string {
		for _, p := range patterns {
			s = p.ReplaceAllStringFunc(s, func(m string) string { return visible.ReplaceAllString(m, " ") })
		}
		return s
	}
	if language == "Markdown" {
		return []string{blank(body, fence, codeSpan, quotation, target)}
	}
	_, literals, comments := separate(name, body)
	comments = blank(strings.ReplaceAll(comments, "//", "  "), codeSpan, quotation)
	if language == "SystemVerilog" {
		return []string{comments}
	}
	return []string{comments, strings.ReplaceAll(literals, `"`, " ")}
}

func checkWidths(language, name, body string) []Violation {
	var v []Violation
	fenced := false
	for i, l := range strings.Split(body, "\n") {
		text := strings.TrimSpace(l)
		limit := 0
		switch {
		case path.Ext(name) == ".go":
			if strings.HasPrefix(text, "//") && !directive.MatchString(l) {
				limit = widthGo
			}
		case language == "SystemVerilog":
			limit = widthSV
		case language == "C++":
			if strings.HasPrefix(text, "//") {
				limit = widthSV
			}
		case language == "Markdown":
			if strings.HasPrefix(text, "```") {
				fenced = !fenced
			}
			if !fenced && !strings.HasPrefix(text, "|") && !strings.HasPrefix(text, "<!--") {
				limit = widthMarkdown
			}
		}
		if n := len([]rune(strings.ReplaceAll(l, "\t", "    "))); limit > 0 && n > limit {
			v = append(v, Violation{name, i + 1, fmt.Sprintf("%d columns, at most %d", n, limit)})
		}
	}
	return v
}

func within(name string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool {
		return f == "." || name == f || strings.HasPrefix(name, f+"/")
	})
}
