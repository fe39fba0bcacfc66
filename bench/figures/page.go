// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"hvia/bench/report"
)

//go:embed page.html.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page is the input of the template.
type page struct {
	Title   string
	Lead    []string
	Facts   [][2]string
	Failed  string   // why the report is not complete
	Wrong   []string // wrong bytes
	Summary []string
	Misses  []string
	Missing []string
	Notes   []string
	Targets []targetRow
	Strong  []string // how strong the targets are
	Figures []pageFigure
	First   *pageTable // first writes of connections
	Designs *pageTable // ablations
	Params  *pageTable
}

// targetRow is one row of the table of targets, in words.
type targetRow struct {
	ID, Quantity, Unit, Paper, Predicted, Calibrated, Accepted, Kind, Result string
	OK                                                                       bool
}

type pageFigure struct {
	ID, Head, Missing string
	SVG               template.HTML // drawn here, all text in it escaped
	Caption           []string
	Tables            []pageTable
}

type pageTable struct {
	Label, Caption string
	Heads          []pageCell
	Rows           []pageRow
}

type pageRow struct {
	Name  pageCell
	Cells []pageCell
}

// pageCell is text; numbers are aligned to the right.
type pageCell struct {
	Text   string
	Number bool
}

func (t table) page(label string) pageTable {
	cells := func(row []string) []pageCell {
		var list []pageCell
		for k, c := range row {
			list = append(list, pageCell{c, t.align[k] == 'r'})
		}
		return list
	}
	p := pageTable{Label: label, Caption: t.caption, Heads: cells(t.heads)}
	for _, row := range t.rows {
		all := cells(row)
		p.Rows = append(p.Rows, pageRow{all[0], all[1:]})
	}
	return p
}

func (s *study) page(figures []*figure) (*page, error) {
	p := &page{
		Title:   "HVIA: the measurements of the paper, reproduced",
		Wrong:   s.Faults(),
		Misses:  s.Misses,
		Notes:   s.Notes,
		Missing: s.missing(figures),
		Facts: [][2]string{
			{"profile", s.Profile}, {"seed", fmt.Sprint(s.Seed)}, {"hash of the layouts", orDash(s.Environment.Layout)},
			{"hash of the parameters", orDash(s.Environment.Params)}, {"hash of the RTL", orDash(s.Environment.RTL)}, {"shape of the report", s.Schema},
		},
		Lead: []string{
			"HVIA re-creates HVIA-GE, the network card of the 2004 paper “A VIA-based RDMA Mechanism for High Performance PC Cluster Systems”, as open RTL between models of the parts around it: host bridge, PCI, SDRAM, MAC and wire. Two hosts with a card each exchange messages, and every byte of every message is checked.",
			"All times are simulated. For one profile, one seed and one set of hashes they come out the same on every machine, and this page with them. No wall time is shown.",
		},
	}
	if s.Error != nil {
		p.Failed = s.Error.Message
	}
	if s.paper {
		p.summarize(s)
	} else {
		p.Title = fmt.Sprintf("HVIA: prediction for profile %s", s.Profile)
		p.Lead = append(p.Lead, fmt.Sprintf("The profile %s is not the paper's card. The paper has no numbers for it, so nothing here is compared with it: every figure is a prediction of the model.", s.Profile))
		p.Summary = []string{"No targets: the paper printed no numbers for this profile."}
	}
	for n, f := range figures {
		g := pageFigure{ID: f.file, Head: f.head, Missing: f.missing, Caption: slices.DeleteFunc(slices.Clone(f.caption), func(c string) bool { return c == "" })}
		if f.picture != nil {
			svg, err := f.picture.inlineSVG(f.file)
			if err != nil {
				return nil, err
			}
			g.SVG = template.HTML(svg)
		}
		for k, t := range f.tables {
			g.Tables = append(g.Tables, t.page(fmt.Sprintf("table-%d-%d", n+1, k+1)))
		}
		p.Figures = append(p.Figures, g)
	}
	if t, ok := s.firstWrites(); ok {
		q := t.page("table-first-write")
		p.First = &q
	}
	if t, ok := s.designs(); ok {
		q := t.page("table-designs")
		p.Designs = &q
	}
	if t, ok := s.parameters(); ok {
		q := t.page("table-parameters")
		p.Params = &q
	}
	return p, nil
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// summarize counts the targets that are met.
func (p *page) summarize(s *study) {
	held := 0
	var missed []string
	for _, t := range s.Results.Targets {
		row := targetRow{
			ID: t.ID, Quantity: t.Quantity, Unit: unit(t.Unit), Paper: number(t.Paper), Predicted: number(t.Predicted), Calibrated: plain(t.Calibrated),
			Accepted: plain(t.Low) + " to " + plain(t.High), Kind: report.KindWord(t.Kind), Result: verdict(t.OK), OK: t.OK,
		}
		p.Targets = append(p.Targets, row)
		if t.OK {
			held++
		} else {
			missed = append(missed, fmt.Sprintf("%s (%s)", t.ID, t.Quantity))
		}
	}
	p.Strong = s.Strength()
	switch n := len(s.Results.Targets); {
	case n == 0:
		p.Summary = append(p.Summary, "No target could be checked: the report has none.")
	case held == n:
		p.Summary = append(p.Summary, fmt.Sprintf("All %d rows of targets hold.", n))
	default:
		p.Summary = append(p.Summary, fmt.Sprintf("%d of %d rows of targets hold. Missed: %s.", held, n, strings.Join(missed, ", ")))
	}
	in, all := 0, len(s.Results.ModelCurve)
	for _, m := range s.Results.ModelCurve {
		if m.OK {
			in++
		}
	}
	if all > 0 {
		p.Summary = append(p.Summary, fmt.Sprintf("%d of %d measured half round trips lie in the band around the model (docs/explanation/reproduction.md); that model is not the paper's, and the tables below Figures 7 to 9 show each.", in, all))
	}
}

// unit writes microseconds as the figures do.
func unit(u string) string {
	if u == "us" {
		return "µs"
	}
	return u
}

func number(v *float64) string {
	if v == nil {
		return "–"
	}
	return plain(*v)
}

// missing says what the report lacks, one sentence each.
func (s *study) missing(figures []*figure) []string {
	var list []string
	var sizes []string
	for _, want := range report.PaperSizes {
		if !slices.ContainsFunc(s.write, func(r report.PingPongResult) bool { return r.Size == want }) {
			sizes = append(sizes, thousands(int64(want)))
		}
	}
	if len(sizes) > 0 && len(s.write) > 0 {
		list = append(list, "Message lengths of a whole run that were not measured: "+strings.Join(sizes, ", ")+" bytes.")
	}
	if len(s.write) > 0 && len(s.mvia)+len(s.tcp) == 0 {
		list = append(list, "What the paper compares with, M-VIA and TCP/IP, was not measured.")
	}
	if len(s.read) == 0 {
		list = append(list, "RDMA reads were not measured.")
	}
	for _, f := range figures {
		if f.missing != "" {
			list = append(list, f.head+": "+f.missing)
		}
	}
	if s.paper {
		var ids []string
		for _, id := range targetIDs {
			if !slices.ContainsFunc(s.Results.Targets, func(t report.Target) bool { return t.ID == id }) {
				ids = append(ids, id)
			}
		}
		if len(ids) > 0 {
			list = append(list, "Targets that could not be checked, for want of a measurement: "+strings.Join(ids, ", ")+".")
		}
		if s.Results.Prediction == nil {
			list = append(list, "The prediction from before the fit was not run.")
		}
	}
	if len(s.Numbers) == 0 {
		list = append(list, "The report does not carry its parameters.")
	}
	return list
}

// targetIDs are the targets of a full run of the paper's card.
var targetIDs = []string{"T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8", "T9", "T10", "T11", "T12"}

// firstWrites is the table of times until the first write of a connection.
func (s *study) firstWrites() (table, bool) {
	t := table{caption: "From the connect request to the first RDMA write in the server's memory", align: "rrrrrl",
		heads: []string{"bytes", "connected, µs", "region advertised, µs", "address sent, µs", "gain, µs", "bytes checked"}}
	for _, r := range s.Results.FirstWrite {
		row := []string{fmt.Sprint(r.Size)}
		for _, ps := range []int64{r.ConnectPs, r.OffersPs, r.MessagePs, r.MessagePs - r.OffersPs} {
			row = append(row, fmt.Sprintf("%.2f", micros(ps)))
		}
		check := "ok"
		if r.Fault != "" {
			check = "WRONG: " + r.Fault
		}
		t.rows = append(t.rows, append(row, check))
	}
	return t, len(t.rows) > 0
}

// designs is the table of ablations: a row for each variant, a column for each
// quantity.
func (s *study) designs() (table, bool) {
	t := table{caption: "The card with parts of its design changed", heads: []string{"variant"}, align: "l"}
	if s.Results.Ablations == nil {
		return t, false
	}
	var names []string
	for _, v := range s.Results.Ablations.Variants {
		for _, f := range v.Figures {
			if !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
				t.heads = append(t.heads, f.Name+", "+unit(f.Unit))
				t.align += "r"
			}
		}
	}
	t.heads, t.align = append(t.heads, "bytes checked"), t.align+"l"
	for _, v := range s.Results.Ablations.Variants {
		change := slices.Clone(v.Straps)
		for _, name := range slices.Sorted(maps.Keys(v.Parameters)) {
			change = append(change, fmt.Sprintf("%s = %d", name, v.Parameters[name]))
		}
		row := []string{v.Name}
		if len(change) > 0 {
			row[0] += "\n(" + strings.Join(change, ", ") + ")"
		}
		for _, name := range names {
			cell := "–"
			if k := slices.IndexFunc(v.Figures, func(f report.AblationFigure) bool { return f.Name == name }); k >= 0 {
				f := v.Figures[k]
				cell = plain(f.Value)
				if f.Foreseen != nil {
					cell += "\nforeseen " + plain(*f.Foreseen)
				}
			}
			row = append(row, cell)
		}
		check := "ok"
		if !v.Verified {
			check = "WRONG: " + v.Fault
		}
		t.rows = append(t.rows, append(row, check))
	}
	return t, len(t.rows) > 0
}

func (s *study) parameters() (table, bool) {
	t := table{caption: "Every number that the run was made with", heads: []string{"parameter", "value", "unit", "before the fit", "class", "tag", "source", "meaning"}, align: "lrlrllll"}
	for _, p := range s.Numbers {
		prior := "–"
		if p.Prior != nil {
			prior = fmt.Sprint(*p.Prior)
		}
		t.rows = append(t.rows, []string{p.Name, fmt.Sprint(p.Value), p.Unit, prior, p.Class, p.Tag, p.Source, p.Doc})
	}
	return t, len(t.rows) > 0
}

// html is the page as one self-contained file.
func (s *study) html(figures []*figure) ([]byte, error) {
	p, err := s.page(figures)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, p); err != nil {
		return nil, fmt.Errorf("write the page of the report: %w", err)
	}
	return out.Bytes(), nil
}
