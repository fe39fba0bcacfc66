// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"hvia/bench/report"
)

// Steps and layers in the order of stacks, with their colours. Neighbours
// differ in lightness as well.
var shades = []struct {
	name  string
	color color.NRGBA
	light bool // dark letters on it
}{
	{"library", blue, false},
	{"trap", color.NRGBA{0x00, 0x3b, 0x5c, 255}, false},
	{"copy", color.NRGBA{0xf0, 0xe4, 0x42, 255}, true},
	{"protocol", vermillion, false},
	{"NIC", sky, true},
	{"bus", green, false},
	{"wire", color.NRGBA{0x99, 0x99, 0x99, 255}, true},
	{"interrupt", purple, true},
	{"agent", color.NRGBA{0x8c, 0x6d, 0x31, 255}, false},
	{"wake", color.NRGBA{0xf7, 0xd9, 0xa0, 255}, true},
	{"switch", color.NRGBA{0x7a, 0x30, 0x5c, 255}, false},
	{"poll", color.NRGBA{0xcf, 0xe3, 0xf2, 255}, true},
	{"not accounted", black, false},
}

// stack is one bar made of parts, with thinner bars below it.
type stack struct {
	parts []part
	lanes []part
}

type part struct {
	value float64
	color color.NRGBA
	light bool
}

func stackOf(rows []report.TimeShare) (s stack) {
	for _, shade := range shades {
		for _, r := range rows {
			if r.Name == shade.name && r.Ps > 0 {
				s.parts = append(s.parts, part{micros(r.Ps), shade.color, shade.light})
			}
		}
	}
	return s
}

func (s stack) end() (sum float64) {
	for _, p := range s.parts {
		sum += p.value
	}
	for _, l := range s.lanes {
		sum = max(sum, l.value)
	}
	return sum
}

// brief is a value with its significant digits.
func brief(v float64) string {
	switch {
	case v < 10:
		return fixed(v, 2)
	case v < 1000:
		return fixed(v, 1)
	}
	return thousands(int64(v + 0.5))
}

// shadeKeys are the legend of the names that occur.
func shadeKeys(used map[string]bool) (keys []key) {
	for _, s := range shades {
		if used[s.name] {
			keys = append(keys, key{text: s.name, bars: []color.Color{s.color}, high: 11})
		}
	}
	return keys
}

// stacks draws one bar for each row.
type stacks []stack

func (s stacks) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	rowHeight := y(0) - y(-1)
	for row, bar := range s {
		middle, high := y(-float64(row)), rowHeight*0.34
		low := -high
		if len(bar.lanes) > 0 {
			low = -rowHeight * 0.06
		}
		start := 0.0
		for _, q := range bar.parts {
			x0, x1 := x(start), x(start+q.value)
			rectangle(&c, q.color, x0, middle+low, x1, middle+high)
			ground := color.NRGBA{255, 255, 255, 255}
			if q.light {
				ground = ink
			}
			st := textStyle(noteSize, false, ground, text.XCenter, text.YCenter)
			if label := brief(q.value); st.Width(label)+6 <= x1-x0 {
				c.FillText(st, vg.Point{X: (x0 + x1) / 2, Y: middle + (low+high)/2 + 1}, label)
			}
			start += q.value
		}
		at := middle + low - 3
		for _, l := range bar.lanes {
			thick := rowHeight * 0.1
			rectangle(&c, l.color, x(0), at-thick, x(l.value), at)
			at -= thick + 2
		}
	}
}

// stackPanel is a panel of stacks with their names and sums beside them.
func stackPanel(names []string, bars []stack, sums []string, head, xTitle string) panel {
	p := newPlot()
	rowAxis(&p.Y, len(names))
	end := 0.0
	for _, b := range bars {
		end = max(end, b.end())
	}
	linearAxis(&p.X, 8, max(end, 0.001))
	p.X.Max = max(end, 0.001) * 1.02
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		if t.Value <= p.X.Max { // its label needs space to the right, or the panel becomes narrower than others
			p.X.Max = max(p.X.Max, t.Value/0.96)
		}
	}
	cells := make([][]string, len(sums))
	for k, s := range sums {
		cells[k] = []string{s}
	}
	beside := columns{names: names, heads: []string{head}, at: []float64{66}, cells: cells}
	p.Add(grid{vertical: true}, stacks(bars), beside)
	return panel{plot: p, xTitle: xTitle, share: float64(len(names)), left: beside.width(), right: 68, top: 34}
}

// path shows where the time of a short message goes.
func (s *study) path() *figure {
	f := &figure{file: filePath, head: "Where the half round trip of the shortest message goes"}
	var names, sums []string
	var bars []stack
	used := map[string]bool{}
	t := table{heads: []string{"µs"}, align: "l"}
	about := "One bar for each protocol. "
	list := slices.DeleteFunc(slices.Clone(s.Results.Paths), func(p report.MessagePath) bool { return p.HalfRTTPs <= 0 })
	for _, p := range list {
		name := report.ProtocolName(p.Protocol)
		names, sums = append(names, name), append(sums, fixed(micros(p.HalfRTTPs), 2))
		bars = append(bars, stackOf(p.Rows))
		t.heads, t.align = append(t.heads, name), t.align+"r"
		about += name + ":"
		for _, r := range p.Rows {
			if r.Ps > 0 {
				used[r.Name] = true
				about += fmt.Sprintf(" %s %s µs,", r.Name, fixed(micros(r.Ps), 2))
			}
		}
		about = strings.TrimSuffix(about, ",") + ". "
	}
	if len(bars) == 0 {
		f.missing = "The report has no path of a message."
		return f
	}
	f.picture = &picture{
		title: f.head, about: strings.TrimSpace(about), height: 190 + 62*float64(len(names)), keys: shadeKeys(used),
		panels: []panel{stackPanel(names, bars, sums, "together\nµs", "time from the call that sends to the return of the call that receives, µs")},
	}
	f.caption = []string{
		fmt.Sprintf("Each instant of the way of a message of %s bytes, from the call that sends it to the return of the call that receives it, belongs to one part; what is done beside the way is not in it. Mean over the counted rounds.", thousands(int64(list[0].Size))),
		"“NIC” is the firmware of the plain NIC, or the card's logic with its MAC; “wake” is the time in which the message is there and the thread does not have the processor yet.",
	}
	if s.paper && len(s.mvia)+len(s.tcp) > 0 {
		f.caption = append(f.caption, "With M-VIA and TCP/IP two parts each are fitted, “wake” and the received packet's share of “protocol”: that the sum is the paper's tells nothing, and how much of it is which rests on the costs that are sourced or guessed.")
	}
	for _, shade := range shades {
		if !used[shade.name] && shade.name != "not accounted" {
			continue
		}
		row := []string{shade.name}
		for _, p := range list {
			row = append(row, cellOf(p.Rows, shade.name))
		}
		t.rows = append(t.rows, row)
	}
	t.caption = "Parts of the half round trip"
	t.rows = append(t.rows, append([]string{"together"}, sums...))
	f.tables = []table{t}
	return f
}

func cellOf(rows []report.TimeShare, name string) string {
	for _, r := range rows {
		if r.Name == name {
			return fixed(micros(r.Ps), 3)
		}
	}
	return "–"
}

var (
	busLane  = green
	wireLane = color.NRGBA{0x99, 0x99, 0x99, 255}
)

// processor shows the processor time of both hosts for a message.
func (s *study) processor() *figure {
	f := &figure{file: fileProcessor, head: "Processor time of one message"}
	list := slices.DeleteFunc(slices.Clone(s.Results.Accounts), func(a report.MessageAccount) bool { return a.Size <= 0 || a.HalfRTTPs <= 0 })
	slices.SortStableFunc(list, func(a, b report.MessageAccount) int { return a.Size - b.Size })
	if len(list) == 0 {
		f.missing = "The report has no account of a message."
		return f
	}
	used := map[string]bool{}
	pic := &picture{title: f.head, height: 96}
	var about strings.Builder
	about.WriteString("Stacked bars of processor time by layer, one for each protocol, below each the time of the buses and of the wire. ")
	for len(list) > 0 {
		size := list[0].Size
		n := slices.IndexFunc(list, func(a report.MessageAccount) bool { return a.Size != size })
		if n < 0 {
			n = len(list)
		}
		var names, sums []string
		var bars []stack
		t := table{caption: fmt.Sprintf("Both hosts' time for one message of %s bytes", thousands(int64(size))), heads: []string{"µs"}, align: "l"}
		for _, a := range list[:n] {
			name := report.ProtocolName(a.Protocol)
			b := stackOf(a.Processor)
			b.lanes = []part{{value: micros(a.BusPs), color: busLane}, {value: micros(a.WirePs), color: wireLane}}
			names, bars, sums = append(names, name), append(bars, b), append(sums, brief(micros(a.ProcessorPs)))
			t.heads, t.align = append(t.heads, name), t.align+"r"
			fmt.Fprintf(&about, "%s, %s bytes: processor %s µs, buses %s µs, wire %s µs. ", name, thousands(int64(size)), fixed(micros(a.ProcessorPs), 1), fixed(micros(a.BusPs), 1), fixed(micros(a.WirePs), 1))
			for _, r := range a.Processor {
				used[r.Name] = used[r.Name] || r.Ps > 0
			}
		}
		row := func(name string, of func(report.MessageAccount) string) {
			cells := []string{name}
			for _, a := range list[:n] {
				cells = append(cells, of(a))
			}
			t.rows = append(t.rows, cells)
		}
		for _, r := range list[0].Processor {
			row(r.Name, func(a report.MessageAccount) string { return cellOf(a.Processor, r.Name) })
		}
		row("processor, together", func(a report.MessageAccount) string { return fixed(micros(a.ProcessorPs), 3) })
		row("polling", func(a report.MessageAccount) string { return fixed(micros(a.PollPs), 3) })
		row("system buses", func(a report.MessageAccount) string { return fixed(micros(a.BusPs), 3) })
		row("wire", func(a report.MessageAccount) string { return fixed(micros(a.WirePs), 3) })
		row("frames", func(a report.MessageAccount) string { return plain(a.Frames) })
		row("half round trip", func(a report.MessageAccount) string { return fixed(micros(a.HalfRTTPs), 3) })
		f.tables = append(f.tables, t)
		pic.panels = append(pic.panels, stackPanel(names, bars, sums, "processor\nµs", fmt.Sprintf("message of %s bytes, µs", thousands(int64(size)))))
		pic.height += 80 + 58*float64(n)
		list = list[n:]
	}
	pic.keys = append(shadeKeys(used),
		key{text: "system buses", bars: []color.Color{busLane}, high: 5}, key{text: "wire", bars: []color.Color{wireLane}, high: 5})
	pic.about = strings.TrimSpace(about.String())
	f.picture = pic
	f.caption = []string{
		"What the processors of both hosts spend on one message, by layer, posts of receives and interrupts included, whether it delays the message or not; polling is not in it, as a polling loop takes what is left of a processor. Below, in thin bars, the time in which the two system buses carried something, and the wire's time for all its frames.",
	}
	return f
}
