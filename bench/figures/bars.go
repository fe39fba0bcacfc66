// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"image/color"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"hvia/bench/report"
)

// wrap breaks a text at spaces into lines of about width letters.
func wrap(s string, width int) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return strings.Join(append(lines, line), "\n")
}

// rowAxis makes space for rows, the first at the top: row k is around -k.
func rowAxis(a *plot.Axis, rows int) {
	a.Min, a.Max = -float64(max(rows, 1))+0.5, 0.5
	a.Tick.Marker = plot.ConstantTicks{}
}

func rectangle(c *draw.Canvas, fill color.Color, x0, y0, x1, y1 vg.Length) {
	x0, x1 = max(x0, c.Min.X), min(x1, c.Max.X)
	if x1 > x0 {
		c.FillPolygon(fill, []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}})
	}
}

// columns writes, beside a plot, the names of its rows and texts under heads.
type columns struct {
	names []string
	heads []string
	at    []float64    // right end of each, points beyond the data
	cells [][]string   // by row
	bold  map[int]bool // rows
}

func (t columns) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	for k, h := range t.heads {
		s := textStyle(noteSize, true, ink, text.XRight, text.YBottom)
		c.FillText(s, vg.Point{X: c.Max.X + vg.Points(t.at[k]), Y: c.Max.Y + 5}, h)
	}
	for row, n := range t.names {
		c.FillText(t.nameStyle(row), vg.Point{X: c.Min.X - 6, Y: y(-float64(row)) + 1}, n)
	}
	for row, cells := range t.cells {
		for k, v := range cells {
			s := textStyle(noteSize, t.bold[row], ink, text.XRight, text.YCenter)
			c.FillText(s, vg.Point{X: c.Max.X + vg.Points(t.at[k]), Y: y(-float64(row)) + 1}, v)
		}
	}
}

func (t columns) nameStyle(row int) text.Style {
	return textStyle(noteSize, t.bold[row], ink, text.XRight, text.YCenter)
}

func (t columns) width() float64 {
	widest := vg.Length(0)
	for row, n := range t.names {
		widest = max(widest, t.nameStyle(row).Width(n))
	}
	return widest.Points() + 8
}

// waterfallBars draws each stage from the end of the one before.
type waterfallBars []report.WaterfallRow

var (
	measuredBar = blue
	budgetBar   = orange
)

func (w waterfallBars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	start := 0.0
	for k, row := range w {
		rowHeight := y(0) - y(-1)
		middle := y(-float64(k))
		if k%2 == 1 {
			c.FillPolygon(color.NRGBA{0xf4, 0xf4, 0xf4, 255}, []vg.Point{{X: c.Min.X, Y: middle - rowHeight/2}, {X: c.Max.X, Y: middle - rowHeight/2}, {X: c.Max.X, Y: middle + rowHeight/2}, {X: c.Min.X, Y: middle + rowHeight/2}})
		}
		end := start + micros(row.MeanPs)
		// A stage of some nanoseconds stays visible.
		const least = 1.2
		rectangle(&c, measuredBar, x(start), middle, max(x(end), x(start)+least), middle+rowHeight*0.36)
		if row.BudgetPs > 0 {
			rectangle(&c, budgetBar, x(start), middle-rowHeight*0.28, max(x(start+micros(row.BudgetPs)), x(start)+least), middle-rowHeight*0.04)
		}
		if k > 0 {
			c.StrokeLine2(lineStyle(gray, 0.6, false), x(start), middle+rowHeight*0.36, x(start), middle+rowHeight*0.64)
		}
		start = end
	}
}

func waterfallPicture(rows []report.WaterfallRow, size int) *picture {
	p := newPlot()
	var names []string
	var cells [][]string
	var sum, budget int64
	for _, r := range rows {
		names = append(names, wrap(r.Name, 34))
		b, d := "–", "–"
		if r.BudgetPs > 0 {
			b, d = fixed(micros(r.BudgetPs), 2), signed(micros(r.MeanPs)-micros(r.BudgetPs), 2)
		}
		cells = append(cells, []string{fixed(micros(r.MeanPs), 2), b, d})
		sum += r.MeanPs
		budget += r.BudgetPs
	}
	names = append(names, "together")
	cells = append(cells, []string{fixed(micros(sum), 2), fixed(micros(budget), 2), signed(micros(sum)-micros(budget), 2)})
	rowAxis(&p.Y, len(names))
	linearAxis(&p.X, 8, micros(max(sum, 1)))
	p.X.Max = micros(max(sum, 1)) * 1.02
	beside := columns{
		names: names, heads: []string{"measured\nµs", "budget\nµs", "difference\nµs"}, at: []float64{62, 112, 180}, cells: cells, bold: map[int]bool{len(rows): true},
	}
	p.Add(grid{vertical: true}, waterfallBars(rows), beside)
	var about strings.Builder
	fmt.Fprintf(&about, "Horizontal bars, one for each of %d stages, each from where the one before ended. ", len(rows))
	for k, r := range rows {
		fmt.Fprintf(&about, "%s %s µs", r.Name, cells[k][0])
		if r.BudgetPs > 0 {
			fmt.Fprintf(&about, " (budget %s)", cells[k][1])
		}
		about.WriteString("; ")
	}
	fmt.Fprintf(&about, "together %s µs.", fixed(micros(sum), 2))
	return &picture{
		title: fmt.Sprintf("Where the latency of an RDMA write of %d bytes goes", size), about: about.String(),
		height: 160 + 26*float64(len(names)),
		keys: []key{
			{text: "measured, mean", bars: []color.Color{measuredBar}, high: 9},
			{text: "budget of the stage, drawn from the same start", bars: []color.Color{budgetBar}, high: 6},
		},
		panels: []panel{{plot: p, xTitle: "time since the program calls VipPostSend, µs", share: 1, left: beside.width(), right: 182, top: 36}},
	}
}

// hopBars draws a bar for each span of each hop.
type hopBars struct {
	hops    []report.Hop
	busiest int
}

func (h hopBars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	rowHeight := y(0) - y(-1)
	for k, hop := range h.hops {
		shades := [2]color.Color{blue, sky}
		if k == h.busiest {
			shades = [2]color.Color{vermillion, orange}
		}
		for n, s := range hop.Spans {
			shade := shades[((s.Frame%2)+2)%2]
			at := y(-float64(k))
			rectangle(&c, shade, x(micros(s.StartPs)), at-rowHeight*0.32, x(micros(s.EndPs)), at+rowHeight*0.32)
			// A few frame numbers, so that a reader can follow a frame.
			first := n == 0 || hop.Spans[n-1].Frame != s.Frame
			if first && (k == 0 || k == len(h.hops)-1) && numbered(hop.Spans, n) {
				mid := vg.Point{X: (x(micros(s.StartPs)) + x(micros(s.EndPs))) / 2, Y: at + rowHeight*0.34}
				st := textStyle(noteSize, false, ink, text.XCenter, text.YBottom)
				if k != 0 {
					st.YAlign, mid.Y = text.YTop, at-rowHeight*0.34
				}
				c.FillText(st, mid, strconv.Itoa(s.Frame))
			}
		}
	}
}

// numbered reports whether a frame's number is written: the first, the last,
// and every tenth that is far from both.
func numbered(spans []report.Span, n int) bool {
	f, first, last := spans[n].Frame, spans[0].Frame, spans[len(spans)-1].Frame
	return f == first || f == last || f%10 == 0 && f-first > 3 && last-f > 3
}

// busiestHop is the first of the hops with the largest share, -1 without hops.
func busiestHop(hops []report.Hop) int {
	best := -1
	for k, h := range hops {
		if best < 0 || h.BusyPpm > hops[best].BusyPpm {
			best = k
		}
	}
	return best
}

func pipelinePicture(l *report.Pipeline) *picture {
	p := newPlot()
	var names []string
	var cells [][]string
	end := int64(1)
	frames := map[int]bool{}
	best := busiestHop(l.Hops)
	about := fmt.Sprintf("One row for each of %d hops, one bar for each frame. ", len(l.Hops))
	for k, h := range l.Hops {
		names = append(names, wrap(h.Name, 20))
		busy := percent(h.BusyPpm)
		about += h.Name + " is busy " + busy + " of the time; "
		if k == best {
			busy += "\nbusiest"
			about += "it is the busiest; "
		}
		cells = append(cells, []string{busy})
		for _, s := range h.Spans {
			end = max(end, s.EndPs)
			frames[s.Frame] = true
		}
	}
	rowAxis(&p.Y, len(names))
	p.Y.Min, p.Y.Max = p.Y.Min-0.12, p.Y.Max+0.12
	linearAxis(&p.X, 9, micros(end))
	p.X.Max = micros(end) * 1.01
	beside := columns{names: names, heads: []string{"busy"}, at: []float64{56}, cells: cells, bold: map[int]bool{best: true}}
	p.Add(grid{vertical: true}, hopBars{l.Hops, best}, beside)
	return &picture{
		title: fmt.Sprintf("The pipeline of one RDMA write of %s bytes, %d frames", thousands(int64(l.Size)), len(frames)), about: strings.TrimSuffix(about, "; ") + ".",
		height: 150 + 62*float64(max(1, len(names))),
		keys: []key{
			{text: "a frame in flight, in alternating shades", bars: []color.Color{sky, blue}, high: 10},
			{text: "the same on the busiest hop", bars: []color.Color{orange, vermillion}, high: 10},
		},
		panels: []panel{{plot: p, xTitle: "time since the doorbell's store, µs", share: 1, left: beside.width(), right: 60, top: 22}},
	}
}
