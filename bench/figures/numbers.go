// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"math"
	"strconv"
	"strings"
)

func micros(ps int64) float64 { return float64(ps) / 1e6 }

// megabytes is the rate of bytes per picoseconds, in the paper's 1e6 bytes per
// second.
func megabytes(size int, ps int64) float64 {
	if ps <= 0 {
		return 0
	}
	return float64(size) / (float64(ps) / 1e6)
}

func fixed(v float64, digits int) string {
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-") // no minus zero
	}
	return s
}

func signed(v float64, digits int) string {
	s := fixed(v, digits)
	if v > 0 && strings.Trim(s, "0.") != "" {
		s = "+" + s
	}
	return strings.Replace(s, "-", "−", 1)
}

// plain writes a number of the report with all its digits.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func percent(ppm int64) string { return fixed(float64(ppm)/1e4, 1) + " %" }

// thousands writes 65536 as 65,536.
func thousands(v int64) string {
	s := strconv.FormatInt(v, 10)
	sign := ""
	if v < 0 {
		sign, s = "-", s[1:]
	}
	for k := len(s) - 3; k > 0; k -= 3 {
		s = s[:k] + "," + s[k:]
	}
	return sign + s
}

type line struct{ intercept, slope, r2 float64 }

// fit is the line of least squares; ok is false if the points have none.
func fit(points []point) (l line, ok bool) {
	n := float64(len(points))
	var mx, my float64
	for _, p := range points {
		mx += p.x / n
		my += p.y / n
	}
	var xx, xy, yy float64
	for _, p := range points {
		xx += (p.x - mx) * (p.x - mx)
		xy += (p.x - mx) * (p.y - my)
		yy += (p.y - my) * (p.y - my)
	}
	if len(points) < 3 || xx == 0 || yy == 0 {
		return line{}, false
	}
	l.slope = xy / xx
	l.intercept = my - l.slope*mx
	l.r2 = xy * xy / (xx * yy)
	return l, !math.IsNaN(l.r2) && !math.IsInf(l.slope, 0)
}
