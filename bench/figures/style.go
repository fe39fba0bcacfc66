// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"image/color"
	"math"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The colours are those of Okabe and Ito, which remain distinct with every
// common kind of colour blindness.
var (
	black      = color.NRGBA{0, 0, 0, 255}
	blue       = color.NRGBA{0x00, 0x72, 0xb2, 255}
	sky        = color.NRGBA{0x56, 0xb4, 0xe9, 255}
	vermillion = color.NRGBA{0xd5, 0x5e, 0x00, 255}
	orange     = color.NRGBA{0xe6, 0x9f, 0x00, 255}
	green      = color.NRGBA{0x00, 0x9e, 0x73, 255}
	purple     = color.NRGBA{0xcc, 0x79, 0xa7, 255}
	white      = color.NRGBA{255, 255, 255, 255}
	ink        = color.NRGBA{0x22, 0x22, 0x22, 255} // text and axes
	gray       = color.NRGBA{0x66, 0x66, 0x66, 255}
	gridGray   = color.NRGBA{0xdd, 0xdd, 0xdd, 255}
	bandGray   = color.NRGBA{0xee, 0xee, 0xee, 255}
)

// A picture is 720 points wide and 1,200 pixels, so that 12 points are 20
// pixels: readable at half that width.
const (
	pictureWidth = 720
	pixelsWide   = 1200
	dotsPerInch  = pixelsWide * 72 / pictureWidth

	titleSize  = 15
	labelSize  = 13
	tickSize   = 12.5
	noteSize   = 12
	footerSize = 11
	markSize   = 4.5
)

func textStyle(size float64, bold bool, c color.Color, x text.XAlignment, y text.YAlignment) text.Style {
	f := font.From(plot.DefaultFont, vg.Points(size))
	f.Variant = "Sans"
	if bold {
		f.Weight = xfont.WeightBold
	}
	return text.Style{Color: c, Font: f, XAlign: x, YAlign: y, Handler: plot.DefaultTextHandler}
}

// lineStyle is a stroke of the given colour and width, solid or dashed (5 pt
// on, 3.5 pt off).
func lineStyle(c color.Color, width float64, dashed bool) draw.LineStyle {
	s := draw.LineStyle{Color: c, Width: vg.Points(width)}
	if dashed {
		s.Dashes = []vg.Length{vg.Points(5), vg.Points(3.5)}
	}
	return s
}

// shape is the outline of a marker. Series differ by shape as well as by
// colour.
type shape int

const (
	noShape shape = iota
	disc
	triangle
	triangleDown
	square
	diamond
	cross
)

// marker is the symbol at a point of a series.
type marker struct {
	shape  shape
	color  color.Color
	hollow bool
	radius float64 // points
}

func polygon(at vg.Point, radius vg.Length, corners int, first float64) []vg.Point {
	var pts []vg.Point
	for k := range corners {
		a := first + 2*math.Pi*float64(k)/float64(corners)
		pts = append(pts, vg.Point{X: at.X + radius*vg.Length(math.Cos(a)), Y: at.Y + radius*vg.Length(math.Sin(a))})
	}
	return pts
}

func (m marker) draw(c *draw.Canvas, at vg.Point) {
	r := vg.Points(m.radius)
	var outline vg.Path
	walk := func(pts []vg.Point) {
		for k, p := range pts {
			if k == 0 {
				outline.Move(p)
			} else {
				outline.Line(p)
			}
		}
		outline.Close()
	}
	const up = math.Pi / 2
	switch m.shape {
	case noShape:
		return
	case disc:
		outline.Move(vg.Point{X: at.X + r, Y: at.Y})
		outline.Arc(at, r, 0, 2*math.Pi)
		outline.Close()
	case triangle:
		walk(polygon(at, r*1.25, 3, up))
	case triangleDown:
		walk(polygon(at, r*1.25, 3, -up))
	case square:
		walk(polygon(at, r*1.25, 4, up/2))
	case diamond:
		walk(polygon(at, r*1.35, 4, up))
	case cross:
		s := lineStyle(m.color, 2, false)
		c.StrokeLine2(s, at.X-r, at.Y-r, at.X+r, at.Y+r)
		c.StrokeLine2(s, at.X-r, at.Y+r, at.X+r, at.Y-r)
		return
	}
	c.SetColor(m.color)
	if !m.hollow { // a hollow one shows what is behind it
		c.Fill(outline)
	}
	c.SetLineStyle(lineStyle(m.color, 1.8, false))
	c.Stroke(outline)
}
