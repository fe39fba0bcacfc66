// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// point is one value of a curve; low and high differ where it has a range.
type point struct{ x, y, low, high float64 }

type curve struct {
	name   string
	points []point
	line   draw.LineStyle
	mark   marker
}

func (s curve) key() key { return key{text: s.name, line: s.line, mark: s.mark} }

func (s curve) xs() []float64 {
	var v []float64
	for _, p := range s.points {
		v = append(v, p.x)
	}
	return v
}

func (s curve) ys() []float64 {
	var v []float64
	for _, p := range s.points {
		v = append(v, p.y)
		if p.low != p.high {
			v = append(v, p.low, p.high)
		}
	}
	return v
}

// drawable is true for a value inside the domain of an axis: a logarithmic one
// excludes zero and below.
func drawable(a plot.Axis, v float64) bool {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return false
	}
	_, log := a.Scale.(plot.LogScale)
	return !log || v > 0
}

func (s curve) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var at []vg.Point
	for _, v := range s.points {
		if !drawable(p.X, v.x) || !drawable(p.Y, v.y) {
			continue
		}
		at = append(at, vg.Point{X: x(v.x), Y: y(v.y)})
		if v.low != v.high && drawable(p.Y, v.low) && drawable(p.Y, v.high) {
			m := at[len(at)-1].X
			bar := lineStyle(s.mark.color, 1.5, false)
			c.StrokeLine2(bar, m, y(v.low), m, y(v.high))
			for _, end := range []vg.Length{y(v.low), y(v.high)} {
				c.StrokeLine2(bar, m-4, end, m+4, end)
			}
		}
	}
	if s.line.Width > 0 {
		c.StrokeLines(s.line, c.ClipLinesXY(at)...)
	}
	for _, m := range at {
		if c.Contains(m) {
			s.mark.draw(&c, m)
		}
	}
}

// level is a horizontal line at each value, for numbers of the paper.
type level []float64

func (l level) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	for _, v := range l {
		if at := y(v); c.ContainsY(at) {
			c.StrokeLine2(paperLine, c.Min.X, at, c.Max.X, at)
		}
	}
}

// band is the accepted range of values.
type band struct{ low, high float64 }

func (b band) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	lo, hi := max(y(b.low), c.Min.Y), min(y(b.high), c.Max.Y)
	if hi > lo {
		rectangle(&c, bandGray, c.Min.X, lo, c.Max.X, hi)
	}
}

// grid draws a pale line at each labelled tick.
type grid struct{ vertical, horizontal bool }

func (g grid) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	s := lineStyle(gridGray, 0.7, false)
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		if at := x(t.Value); g.vertical && !t.IsMinor() && at > c.Min.X+1 && at <= c.Max.X {
			c.StrokeLine2(s, at, c.Min.Y, at, c.Max.Y)
		}
	}
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if at := y(t.Value); g.horizontal && !t.IsMinor() && at > c.Min.Y+1 && at <= c.Max.Y {
			c.StrokeLine2(s, c.Min.X, at, c.Max.X, at)
		}
	}
}

// note is a text beside a point.
type note struct {
	x, y   float64
	dx, dy float64 // points from the point to the text
	align  text.XAlignment
	text   string
}

func (n note) Plot(c draw.Canvas, p *plot.Plot) {
	if !drawable(p.X, n.x) || !drawable(p.Y, n.y) {
		return
	}
	x, y := p.Transforms(&c)
	at := vg.Point{X: x(n.x), Y: y(n.y)}
	if c.Contains(at) {
		halo(&c, textStyle(noteSize, false, ink, n.align, text.YCenter), vg.Point{X: at.X + vg.Points(n.dx), Y: at.Y + vg.Points(n.dy)}, n.text)
	}
}

// halo writes text on a white ground, so that a line behind it does not cross
// it.
func halo(c *draw.Canvas, s text.Style, at vg.Point, txt string) {
	r := s.Rectangle(txt)
	ground := color.NRGBA{255, 255, 255, 215}
	a, b := at.Add(r.Min), at.Add(r.Max)
	c.FillPolygon(ground, []vg.Point{{X: a.X - 2, Y: a.Y - 1}, {X: b.X + 2, Y: a.Y - 1}, {X: b.X + 2, Y: b.Y + 1}, {X: a.X - 2, Y: b.Y + 1}})
	c.FillText(s, at, txt)
}
