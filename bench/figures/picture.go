// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// picture is a title, a legend and panels below each other.
type picture struct {
	title  string
	about  string // alternative text
	footer string
	bare   bool // without the title, under a heading
	height float64
	keys   []key
	panels []panel
}

// panel is one plot of a picture. The plot writes text into the space beside
// the data.
type panel struct {
	plot           *plot.Plot
	xTitle, yTitle string
	share          float64 // of the height
	left, right    float64 // points of space beside the data
	top            float64 // and above
}

type key struct {
	text string
	line draw.LineStyle
	mark marker
	bars []color.Color // a block of these colours
	high float64       // its height
}

const (
	pictureMargin = 12
	keyRow        = 19
	axisTitle     = 21 // for the title of an axis
	footerRow     = 17
	titleRow      = 26
)

// sample is the width of a legend key: a line needs more than a marker.
func (k key) sample() vg.Length {
	if k.line.Width == 0 && len(k.bars) == 0 {
		return vg.Points(16)
	}
	return vg.Points(30)
}

func (p *picture) draw(c draw.Canvas) {
	c.SetColor(white)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, pictureMargin, -pictureMargin, pictureMargin, -pictureMargin)
	if !p.bare {
		c.FillText(textStyle(titleSize, true, ink, text.XLeft, text.YTop), vg.Point{X: c.Min.X, Y: c.Max.Y}, p.title)
		c.Max.Y -= vg.Points(titleRow)
	}
	c.Max.Y -= p.drawKeys(c)
	if p.footer != "" {
		c.FillText(textStyle(footerSize, false, gray, text.XRight, text.YBottom), vg.Point{X: c.Max.X, Y: c.Min.Y}, p.footer)
		c.Min.Y += vg.Points(footerRow)
	}

	var all float64
	for _, q := range p.panels {
		all += q.share
	}
	// Two passes, because a narrower panel may need another left margin.
	left := vg.Length(0)
	areas := make([]draw.Canvas, len(p.panels))
	for range 2 {
		top := c.Max.Y
		widest := vg.Length(0)
		for k, q := range p.panels {
			h := (c.Max.Y - c.Min.Y) * vg.Length(q.share/all)
			a := c
			a.Max.Y, a.Min.Y = top-vg.Points(q.top), top-h
			if k+1 < len(p.panels) {
				a.Min.Y += vg.Points(10)
			}
			if q.xTitle != "" {
				a.Min.Y += vg.Points(axisTitle)
			}
			if q.yTitle != "" {
				a.Min.X += vg.Points(axisTitle)
			}
			a.Min.X += vg.Points(q.left)
			a.Max.X -= vg.Points(q.right)
			top -= h
			areas[k] = a
			widest = max(widest, q.plot.DataCanvas(a).Min.X-a.Min.X)
		}
		left = widest
	}
	for k, q := range p.panels {
		a := areas[k]
		a.Min.X += left - (q.plot.DataCanvas(a).Min.X - a.Min.X)
		q.plot.Draw(a)
		data := q.plot.DataCanvas(a)
		s := textStyle(labelSize, false, ink, text.XCenter, text.YTop)
		c.FillText(s, vg.Point{X: data.Center().X, Y: a.Min.Y - 3}, q.xTitle)
		s.Rotation, s.YAlign = math.Pi/2, text.YTop
		c.FillText(s, vg.Point{X: c.Min.X, Y: data.Center().Y}, q.yTitle)
	}
}

// drawKeys writes the legend in as many rows as it needs and returns its
// height.
func (p *picture) drawKeys(c draw.Canvas) vg.Length {
	if len(p.keys) == 0 {
		return 0
	}
	s := textStyle(noteSize, false, ink, text.XLeft, text.YCenter)
	x, y := c.Min.X, c.Max.Y-vg.Points(keyRow/2)
	for _, k := range p.keys {
		w := k.sample() + 6 + s.Width(k.text)
		if x > c.Min.X && x+w > c.Max.X {
			x, y = c.Min.X, y-vg.Points(keyRow)
		}
		for n, b := range k.bars {
			part := k.sample() / vg.Length(len(k.bars))
			c.StrokeLine2(lineStyle(b, k.high, false), x+part*vg.Length(n), y, x+part*vg.Length(n+1), y)
		}
		c.StrokeLine2(k.line, x, y, x+k.sample(), y)
		k.mark.draw(&c, vg.Point{X: x + k.sample()/2, Y: y})
		c.FillText(s, vg.Point{X: x + k.sample() + 6, Y: y + 1}, k.text)
		x += w + vg.Points(18)
	}
	return c.Max.Y - y + vg.Points(keyRow/2+8)
}

// png is the picture 1,200 pixels wide.
func (p *picture) png() (b []byte, err error) {
	defer catch(&err, p.title)
	canvas := vgimg.NewWith(vgimg.UseWH(vg.Points(pictureWidth), vg.Points(p.height)), vgimg.UseDPI(dotsPerInch), vgimg.UseBackgroundColor(white))
	p.draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(&out); err != nil {
		return nil, fmt.Errorf("draw %q as PNG: %w", p.title, err)
	}
	return out.Bytes(), nil
}

const svgNamespace = `xmlns="http://www.w3.org/2000/svg"`

// svg is the picture as a separate file.
func (p *picture) svg() ([]byte, error) {
	body, err := p.svgBody()
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>`+"\n"+`<svg %s width="%gpt" height="%gpt" viewBox="0 0 %g %g" role="img">`,
		svgNamespace, float64(pictureWidth), p.height, float64(pictureWidth), p.height)
	return []byte(head + p.words("") + body), nil
}

// inlineSVG is the picture as an element of a page with the given id, under a
// heading.
func (p *picture) inlineSVG(id string) (string, error) {
	bare := *p
	bare.bare, bare.height = true, p.height-titleRow
	p = &bare
	body, err := p.svgBody()
	if err != nil {
		return "", err
	}
	head := fmt.Sprintf(`<svg viewBox="0 0 %g %g" role="img" aria-labelledby="%s-title %s-about">`, float64(pictureWidth), p.height, id, id)
	return head + p.words(id) + body, nil
}

// words is the text of the picture for screen readers.
func (p *picture) words(id string) string {
	title, about := "", ""
	if id != "" {
		title, about = ` id="`+id+`-title"`, ` id="`+id+`-about"`
	}
	return fmt.Sprintf("\n<title%s>%s</title>\n<desc%s>%s</desc>\n", title, html.EscapeString(p.title), about, html.EscapeString(p.about))
}

// svgBody is everything after the opening tag.
func (p *picture) svgBody() (body string, err error) {
	defer catch(&err, p.title)
	canvas := vgsvg.New(vg.Points(pictureWidth), vg.Points(p.height))
	p.draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", fmt.Errorf("draw %q as SVG: %w", p.title, err)
	}
	_, rest, found := strings.Cut(out.String(), "<svg ")
	if found {
		_, body, found = strings.Cut(rest, ">")
	}
	if !found {
		return "", fmt.Errorf("draw %q as SVG: the drawing has no svg element", p.title)
	}
	// Arial and Helvetica have the same widths as the font of the layout.
	return strings.ReplaceAll(body, "font-family:Liberation Sans;", "font-family:Liberation Sans,Arial,Helvetica,sans-serif;"), nil
}

// catch turns a panic of the plotting library, its only way to reject a value,
// into an error.
func catch(err *error, title string) {
	if v := recover(); v != nil {
		*err = errors.Join(*err, fmt.Errorf("draw %q: the plotting library rejects it: %v", title, v))
	}
}
