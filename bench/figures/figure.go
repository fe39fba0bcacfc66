// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"image/color"
	"maps"
	"slices"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg/draw"

	"hvia/bench/report"
	"hvia/params"
)

// figure is a picture with its caption and the numbers behind it. Without a
// picture, missing says what the report lacks.
type figure struct {
	file    string // without its ending; also its anchor in the page
	head    string
	caption []string
	picture *picture
	missing string
	tables  []table
}

// table is text in rows; the first column names the row.
type table struct {
	caption string
	heads   []string
	rows    [][]string
	align   string // l or r for each column
}

// Names of all figure files. A drawing with fewer figures removes the older
// files of the others.
const (
	fileLatency       = "figure-07-latency"
	fileBandwidth     = "figure-08-bandwidth"
	fileLatencyBoth   = "figure-09-latency-send-receive"
	fileBandwidthBoth = "figure-10-bandwidth-send-receive"
	filePostReceive   = "figure-11-post-receive"
	fileReceiveWait   = "figure-12-receive-wait"
	fileWaterfall     = "waterfall"
	filePath          = "one-way-path"
	fileProcessor     = "processor-time"
	filePipeline      = "pipeline"
)

var allFiles = []string{fileLatency, fileBandwidth, fileLatencyBoth, fileBandwidthBoth, filePostReceive, fileReceiveWait, fileWaterfall, filePath, fileProcessor, filePipeline}

const (
	sizeTitle      = "message length, bytes (K = 1024)"
	latencyTitle   = "half round trip, µs"
	bandwidthTitle = "bandwidth, MB/s"
)

// The same series looks the same in every figure.
var (
	writeMark   = marker{shape: disc, color: blue, radius: markSize}
	writeLine   = lineStyle(blue, 2, false)
	sendMark    = marker{shape: triangle, color: vermillion, radius: markSize}
	sendLine    = lineStyle(vermillion, 2, false)
	guessMark   = marker{shape: cross, color: sky, radius: 3.5}
	guessLine   = lineStyle(sky, 1.6, true)
	differ      = marker{shape: diamond, color: orange, radius: markSize}
	differLine  = lineStyle(orange, 2, false)
	mviaMark    = marker{shape: square, color: green, radius: 3.6}
	mviaLine    = lineStyle(green, 2, false)
	tcpMark     = marker{shape: triangleDown, color: purple, radius: markSize}
	tcpLine     = lineStyle(purple, 2, false)
	readMark    = marker{shape: square, color: orange, hollow: true, radius: 3.6}
	readLine    = lineStyle(orange, 2, false)
	steadyMark  = marker{shape: disc, color: gray, hollow: true, radius: markSize}
	steadyLine  = lineStyle(gray, 1.6, true)
	paperRDMA   = marker{shape: diamond, color: black, hollow: true, radius: 7.5}
	paperMVIA   = marker{shape: square, color: black, hollow: true, radius: 6.5}
	paperTCP    = marker{shape: triangleDown, color: black, hollow: true, radius: 7.5}
	noLine      draw.LineStyle
	paperLine   = lineStyle(ink, 1.3, true)
	fromWriting = "RDMA write, this card"
	fromSending = "send/receive, this card"
	fromReading = "RDMA read, this card, reliable delivery"
	fromSteady  = "RDMA write, this card, reliable delivery"
	fromMvia    = "M-VIA over a plain NIC"
	fromTcp     = "TCP/IP over a plain NIC"
)

// study is the input of all figures.
type study struct {
	*report.Report
	paper bool // the profile is the paper's card, so the paper has values to compare
	write []report.PingPongResult
	send  []report.PingPongResult
	mvia  []report.PingPongResult
	tcp   []report.PingPongResult
	read  []report.PingPongResult
	rely  []report.PingPongResult // RDMA writes at the reads' reliability level
}

func newStudy(r *report.Report) *study {
	return &study{
		Report: r, paper: r.Profile == params.Base, write: bySize(r.Results.RDMAWrite), send: bySize(r.Results.SendReceive),
		mvia: bySize(r.Results.Mvia), tcp: bySize(r.Results.Tcp),
		read: bySize(r.Results.RDMARead), rely: bySize(r.Results.ReliableWrite),
	}
}

// baselines returns the measured curves of the paper's baselines.
func (s *study) baselines(points func([]report.PingPongResult) []point) (list []curve) {
	if len(s.mvia) > 0 {
		list = append(list, curve{fromMvia, points(s.mvia), mviaLine, mviaMark})
	}
	if len(s.tcp) > 0 {
		list = append(list, curve{fromTcp, points(s.tcp), tcpLine, tcpMark})
	}
	return list
}

// reads returns the measured curves of RDMA reads and of writes at their
// reliability level.
func (s *study) reads(points func([]report.PingPongResult) []point) (list []curve) {
	if len(s.read) > 0 {
		list = append(list, curve{fromReading, points(s.read), readLine, readMark})
	}
	if len(s.rely) > 0 {
		list = append(list, curve{fromSteady, points(s.rely), steadyLine, steadyMark})
	}
	return list
}

// ofReads describes the curves of reads.
func (s *study) ofReads() []string {
	if len(s.read) == 0 {
		return nil
	}
	list := []string{"RDMA read: the time from the post to its completion, over a VI of reliable delivery, as reads require it; beside it the RDMA write at that level. The paper prints no number of a read, only that it needs two crossings and is slower than a write."}
	if text := report.ReadSentence(s.read, s.rely); text != "" {
		list = append(list, "Measured: "+text)
	}
	return list
}

// fromEnds says what of the baselines' curves is known and what they predict.
func (s *study) fromEnds() []string {
	if len(s.mvia)+len(s.tcp) == 0 || !s.paper {
		return nil
	}
	return []string{
		s.fitted("T2", "the latencies of M-VIA and TCP/IP at 4 bytes"), s.fitted("T4", "their bandwidths at the largest length"),
		"Both curves between their two ends are predictions.",
	}
}

// bySize returns one row for each size, in order, without rows that lack size
// or time.
func bySize(rows []report.PingPongResult) []report.PingPongResult {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r report.PingPongResult) bool { return r.Size <= 0 || r.HalfRTTPs <= 0 })
	slices.SortStableFunc(rows, func(a, b report.PingPongResult) int { return a.Size - b.Size })
	return slices.CompactFunc(rows, func(a, b report.PingPongResult) bool { return a.Size == b.Size })
}

func (s *study) figures() []*figure {
	list := []*figure{s.latency(), s.bandwidth(), s.latencyBoth(), s.bandwidthBoth(), s.postReceive(), s.receiveWait(), s.waterfall(), s.path(), s.processor(), s.pipeline()}
	for _, f := range list {
		if f.picture != nil {
			f.picture.footer = fmt.Sprintf("simulated time, profile %s, seed %d", s.Profile, s.Seed)
		}
	}
	return list
}

func latencies(rows []report.PingPongResult) (p []point) {
	for _, r := range rows {
		p = append(p, point{x: float64(r.Size), y: micros(r.HalfRTTPs)})
	}
	return p
}

func bandwidths(rows []report.PingPongResult) (p []point) {
	for _, r := range rows {
		p = append(p, point{x: float64(r.Size), y: megabytes(r.Size, r.HalfRTTPs)})
	}
	return p
}

// printed is a single point of the paper.
type printed struct {
	name string
	at   point
	mark marker
	text string
	dx   float64
	dy   float64
	side text.XAlignment
}

func (p printed) curve() curve {
	return curve{name: p.name, points: []point{p.at}, line: noLine, mark: p.mark}
}

func (p printed) note() note {
	return note{x: p.at.x, y: p.at.y, dx: p.dx, dy: p.dy, align: p.side, text: p.text}
}

// curvesPicture draws curves and printed points over message length.
func curvesPicture(title string, curves []curve, points []printed, yTitle string, log bool) *picture {
	p := newPlot()
	var xs, ys []float64
	pic := &picture{title: title, height: 440}
	all := slices.Clone(curves)
	for _, q := range points {
		all = append(all, q.curve())
	}
	for _, c := range all {
		xs, ys = append(xs, c.xs()...), append(ys, c.ys()...)
		pic.keys = append(pic.keys, c.key())
	}
	sizeAxis(&p.X, xs)
	if log {
		logAxis(&p.Y, ys)
	} else {
		linearAxis(&p.Y, 7, ys...)
	}
	p.Add(grid{true, true})
	for _, q := range points {
		p.Add(q.note())
	}
	// The first curve is the most important one: it is drawn over the others.
	for _, c := range slices.Backward(curves) {
		p.Add(c)
	}
	for _, q := range points {
		p.Add(q.curve())
	}
	pic.panels = []panel{{plot: p, xTitle: sizeTitle, yTitle: yTitle, share: 1}}
	pic.about = tell(all, yTitle)
	return pic
}

// tell lists the ends of each curve.
func tell(curves []curve, unit string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Message length across, %s upwards.", unit)
	for _, c := range curves {
		switch n := len(c.points); {
		case n == 1:
			fmt.Fprintf(&b, " %s: %s at %s bytes.", c.name, figureOf(c.points[0].y), thousands(int64(c.points[0].x)))
		case n > 1:
			fmt.Fprintf(&b, " %s: from %s at %s bytes to %s at %s bytes.", c.name, figureOf(c.points[0].y), thousands(int64(c.points[0].x)), figureOf(c.points[n-1].y), thousands(int64(c.points[n-1].x)))
		}
	}
	return b.String()
}

func figureOf(v float64) string { return fixed(v, 2) }

const atZeroFit = "before the fit"

func (s *study) predicted() []report.PingPongResult {
	if s.Results.Prediction == nil {
		return nil
	}
	return bySize(s.Results.Prediction.RDMAWrite)
}

// zeroFit names the parameters that the card's prediction used, without those
// of the baselines.
func (s *study) zeroFit() string {
	if s.Results.Prediction == nil {
		return ""
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(s.Results.Prediction.Parameters)) {
		if slices.ContainsFunc(s.Numbers, func(p report.Parameter) bool {
			return p.Name == name && (p.Tag == string(params.Calibrated("T2")) || p.Tag == string(params.Calibrated("T4")))
		}) {
			continue
		}
		list = append(list, fmt.Sprintf("%s = %d", name, s.Results.Prediction.Parameters[name]))
	}
	if len(list) == 0 {
		return "The curve “before the fit” is the same card with every fitted parameter that had an earlier value at that value."
	}
	return "The curve “before the fit” is a prediction: the same card with " + strings.Join(list, ", ") + ", as guessed before any result was seen."
}

// figure starts a figure, which has another head for the paper's card.
func (s *study) figure(file, head, ofPaper string) *figure {
	if s.paper {
		head = ofPaper
	}
	return &figure{file: file, head: head}
}

func (s *study) latency() *figure {
	f := s.figure(fileLatency, "Latency over message length", "Figure 7: latency over message length")
	if len(s.write) == 0 {
		f.missing = "The report has no RDMA write that was measured."
		return f
	}
	curves := slices.Concat([]curve{{fromWriting, latencies(s.write), writeLine, writeMark}}, s.reads(latencies), s.baselines(latencies))
	var points []printed
	f.caption = []string{"Half round trip of a ping-pong by RDMA writes, in simulated time; both axes are logarithmic."}
	if len(s.mvia)+len(s.tcp) > 0 {
		f.caption[0] = "Half round trip of a ping-pong by RDMA writes on the card, and over a plain NIC on the same wire by sends and receives of M-VIA and by a connection of TCP/IP, in simulated time; both axes are logarithmic."
	}
	if s.paper {
		points = []printed{
			{name: "RDMA write, paper", at: point{x: paperShortest, y: paperLatencyRDMA}, mark: paperRDMA, text: plain(paperLatencyRDMA) + " µs", dx: 14, dy: 14, side: text.XLeft},
			{name: "M-VIA, paper", at: point{x: paperShortest, y: paperLatencyMVIA}, mark: paperMVIA, text: plain(paperLatencyMVIA) + " µs", dx: 14, dy: 14, side: text.XLeft},
			{name: "TCP/IP, paper", at: point{x: paperShortest, y: paperLatencyTCP}, mark: paperTCP, text: plain(paperLatencyTCP) + " µs", dx: 14, dy: 14, side: text.XLeft},
		}
		f.caption = append(f.caption,
			"The hollow markers are the only latencies that the paper prints, all at 4 bytes.",
			"Nothing was fitted to that of the RDMA write.", s.fitted("T8", "the processor time of VipPostRecv"), s.fitted("T3", "the bandwidth at the largest length"))
		f.caption = append(f.caption, s.fromEnds()...)
	} else {
		f.caption = append(f.caption, predictionOnly)
	}
	f.caption = append(f.caption, s.ofReads()...)
	f.picture = curvesPicture(f.head, curves, points, latencyTitle, true)
	f.tables = []table{pingPongTable("RDMA write, as measured", s.write)}
	if len(s.read) > 0 {
		f.tables = append(f.tables, readTable(s.read, s.rely))
	}
	if len(s.mvia) > 0 {
		f.tables = append(append(f.tables, pingPongTable("M-VIA, as measured", s.mvia)), s.modelTable("mvia", "M-VIA")...)
	}
	if len(s.tcp) > 0 {
		f.tables = append(append(f.tables, pingPongTable("TCP/IP, as measured", s.tcp)), s.modelTable("tcp", "TCP/IP")...)
	}
	return f
}

const predictionOnly = "This profile is not the paper's card, so there is no printed number to compare with: the curve is a prediction of the model."

func (s *study) bandwidth() *figure {
	f := s.figure(fileBandwidth, "Bandwidth over message length", "Figure 8: bandwidth over message length")
	if len(s.write) == 0 {
		f.missing = "The report has no RDMA write that was measured."
		return f
	}
	curves := slices.Concat([]curve{{fromWriting, bandwidths(s.write), writeLine, writeMark}}, s.reads(bandwidths), s.baselines(bandwidths))
	f.caption = []string{"Message length over half a round trip; 1 MB is 10⁶ bytes."}
	if p := s.predicted(); len(p) > 0 {
		curves = append(curves, curve{"RDMA write " + atZeroFit, bandwidths(p), guessLine, guessMark})
		f.caption = append(f.caption, s.zeroFit())
	}
	var points []printed
	if s.paper {
		points = []printed{
			{name: "RDMA write, paper", at: point{x: paperLongest, y: paperBandwidthRDMA}, mark: paperRDMA, text: plain(paperBandwidthRDMA) + " MB/s", dx: 14, dy: -33, side: text.XRight},
			{name: "M-VIA, paper", at: point{x: paperLongest, y: paperBandwidthMVIA}, mark: paperMVIA, text: plain(paperBandwidthMVIA) + " MB/s", dx: 6, dy: 17, side: text.XRight},
			{name: "TCP/IP, paper", at: point{x: paperLongest, y: paperBandwidthTCP}, mark: paperTCP, text: fixed(paperBandwidthTCP, 1) + " MB/s", dx: 14, dy: -22, side: text.XRight},
		}
		f.caption = append(f.caption, "The hollow markers are the largest bandwidths that the paper prints. It does not say at which length and prints no list of lengths: 64 KiB, the largest that the card sends, and the 12 lengths are this project's reading.")
		f.caption = append(f.caption, s.kindOf("T3", "bandwidth of RDMA writes at the largest length"), s.fitted("T3", "the bandwidth at the largest length"))
		f.caption = append(f.caption, s.fromEnds()...)
	} else {
		f.caption = append(f.caption, predictionOnly)
	}
	f.picture = curvesPicture(f.head, curves, points, bandwidthTitle, false)
	if p := s.predicted(); len(p) > 0 {
		f.tables = append(f.tables, pingPongTable("RDMA write, "+atZeroFit, p))
		if p := bySize(s.Results.Prediction.Mvia); len(p) > 0 {
			f.tables = append(f.tables, pingPongTable("M-VIA, "+atZeroFit, p))
		}
		if p := bySize(s.Results.Prediction.Tcp); len(p) > 0 {
			f.tables = append(f.tables, pingPongTable("TCP/IP, "+atZeroFit, p))
		}
	}
	f.tables = append(f.tables, s.modelTable("rdma_write", "RDMA write")...)
	return f
}

// kindOf says whether a target was fitted.
func (s *study) kindOf(id, what string) string {
	for _, t := range s.Results.Targets {
		if t.ID != id {
			continue
		}
		if t.Kind == report.KindCalibration {
			return fmt.Sprintf("The %s (%s) is calibrated; the curve's other points are predictions.", what, id)
		}
		return fmt.Sprintf("The %s (%s) is a prediction: nothing was fitted to it.", what, id)
	}
	return ""
}

// fitted names the parameters that were fitted to a target; it is empty if the
// report has no parameters.
func (s *study) fitted(id, what string) string {
	var names []string
	for _, p := range s.Numbers {
		if p.Tag == string(params.Calibrated(id)) {
			names = append(names, p.Name)
		}
	}
	switch {
	case len(s.Numbers) == 0:
		return ""
	case len(names) == 0:
		return fmt.Sprintf("No parameter is calibrated with %s (%s).", what, id)
	case len(names) == 1:
		return fmt.Sprintf("%s is calibrated with %s (%s).", names[0], what, id)
	}
	return fmt.Sprintf("%s and %s are calibrated with %s (%s).", strings.Join(names[:len(names)-1], ", "), names[len(names)-1], what, id)
}

// pair has the times of both operations at one length.
type pair struct {
	size        int
	write, send report.PingPongResult
}

func (s *study) pairs() []pair {
	var list []pair
	for _, w := range s.write {
		if k := slices.IndexFunc(s.send, func(r report.PingPongResult) bool { return r.Size == w.Size }); k >= 0 {
			list = append(list, pair{w.Size, w, s.send[k]})
		}
	}
	return list
}

// around finds the row of a target whose band contains the paper's number; nil
// if there is none.
func (s *study) around(id string, paper float64) *report.Target {
	for k := range s.Results.Targets {
		if t := &s.Results.Targets[k]; t.ID == id && t.Low <= paper && paper <= t.High {
			return t
		}
	}
	return nil
}

func acceptedKey(t *report.Target) key {
	return key{text: fmt.Sprintf("accepted: %s to %s", plain(t.Low), plain(t.High)), bars: []color.Color{bandGray}, high: 11}
}

// twoPanels draws curves above, and their difference with the paper's number
// below.
func twoPanels(title string, curves []curve, upper string, log bool, below curve, lower string, printed level, accepted band) *picture {
	pic := curvesPicture(title, curves, nil, upper, log)
	pic.height = 600
	top := pic.panels[0].plot
	p := newPlot()
	p.X.Min, p.X.Max, p.X.Scale, p.X.Tick.Marker = top.X.Min, top.X.Max, top.X.Scale, top.X.Tick.Marker
	linearAxis(&p.Y, 5, append(append(below.ys(), accepted.high), printed...)...)
	p.Add(accepted, grid{true, true}, below, printed)
	pic.keys = append(pic.keys, below.key())
	pic.panels = []panel{{plot: top, yTitle: upper, share: 0.6}, {plot: p, xTitle: sizeTitle, yTitle: lower, share: 0.4}}
	pic.about += " Below: " + tell([]curve{below}, lower)
	return pic
}

func (s *study) latencyBoth() *figure {
	f := s.figure(fileLatencyBoth, "Latency of RDMA write and of send and receive", "Figure 9: latency of RDMA write and of send and receive")
	pairs := s.pairs()
	if len(pairs) == 0 {
		f.missing = "The report has no length that was measured both by RDMA write and by send and receive."
		return f
	}
	gap := curve{name: "difference (below)", line: differLine, mark: differ}
	t := table{caption: "RDMA write beside send and receive", heads: []string{"bytes", "RDMA write, µs", "send and receive, µs", "difference, µs", "RDMA write, MB/s", "send and receive, MB/s", "gain, MB/s"}, align: "rrrrrrr"}
	for _, p := range pairs {
		gap.points = append(gap.points, point{x: float64(p.size), y: micros(p.send.HalfRTTPs - p.write.HalfRTTPs)})
		w, r := megabytes(p.size, p.write.HalfRTTPs), megabytes(p.size, p.send.HalfRTTPs)
		t.rows = append(t.rows, []string{
			thousands(int64(p.size)), fixed(micros(p.write.HalfRTTPs), 3), fixed(micros(p.send.HalfRTTPs), 3), signed(micros(p.send.HalfRTTPs-p.write.HalfRTTPs), 3),
			fixed(w, 2), fixed(r, 2), signed(w-r, 2),
		})
	}
	f.caption = []string{"Half round trip of the same ping-pong by RDMA writes and by sends and receives, and below how much longer the latter takes."}
	var printed level
	var accepted band
	var keys []key
	if s.paper {
		printed = level{paperGap}
		keys = []key{{text: fmt.Sprintf("paper: mean %g µs", paperGap), line: paperLine}}
		if t5 := s.around("T5", paperGap); t5 != nil {
			accepted = band{t5.Low, t5.High}
			keys = append(keys, acceptedKey(t5))
		}
		f.caption = append(f.caption, "The paper prints the mean difference only, “regardless of size”. Only its level is fitted: that it does not depend on the length is a prediction.", s.fitted("T5", "the difference at 4 bytes"))
	} else {
		f.caption = append(f.caption, predictionOnly)
	}
	curves := []curve{{fromWriting, latencies(s.write), writeLine, writeMark}, {fromSending, latencies(s.send), sendLine, sendMark}}
	f.picture = twoPanels(f.head, curves, latencyTitle, true, gap, "difference, µs", printed, accepted)
	f.picture.keys = append(f.picture.keys, keys...)
	f.tables = append([]table{t, pingPongTable("Send and receive, as measured", s.send)}, s.modelTable("send_receive", "send and receive")...)
	return f
}

func (s *study) bandwidthBoth() *figure {
	f := s.figure(fileBandwidthBoth, "Bandwidth of RDMA write and of send and receive", "Figure 10: bandwidth of RDMA write and of send and receive")
	pairs := s.pairs()
	if len(pairs) == 0 {
		f.missing = "The report has no length that was measured both by RDMA write and by send and receive."
		return f
	}
	gain := curve{name: "gain (below)", line: differLine, mark: differ}
	for _, p := range pairs {
		gain.points = append(gain.points, point{x: float64(p.size), y: megabytes(p.size, p.write.HalfRTTPs) - megabytes(p.size, p.send.HalfRTTPs)})
	}
	f.caption = []string{"Message length over half a round trip, and below by how much RDMA write is the faster."}
	var printed level
	var keys []key
	if s.paper {
		printed = level{paperGainLargest, paperGainSmallest}
		keys = []key{{text: fmt.Sprintf("paper: largest gain %g, smallest %g MB/s", paperGainLargest, paperGainSmallest), line: paperLine}}
		f.caption = append(f.caption, "The paper prints the largest and the smallest gain and not their lengths. Both are predictions here: nothing was fitted to them. Below the table of targets are both readings of the smallest. The numbers are in the table of Figure 9.")
	} else {
		f.caption = append(f.caption, predictionOnly, "The numbers are in the table of the figure before.")
	}
	curves := []curve{{fromWriting, bandwidths(s.write), writeLine, writeMark}, {fromSending, bandwidths(s.send), sendLine, sendMark}}
	f.picture = twoPanels(f.head, curves, bandwidthTitle, false, gain, "gain, MB/s", printed, band{})
	f.picture.keys = append(f.picture.keys, keys...)
	return f
}

func (s *study) postReceive() *figure {
	f := s.figure(filePostReceive, "Processor time of VipPostRecv", "Figure 11: processor time of VipPostRecv, a charged constant by construction")
	var points []point
	t := table{caption: "VipPostRecv between two readings of the clock", heads: []string{"bytes", "mean, µs", "least, µs", "most, µs"}, align: "rrrr"}
	for _, r := range s.Results.PostReceive {
		if r.Size <= 0 {
			continue
		}
		points = append(points, point{x: float64(r.Size), y: micros(r.MeanPs), low: micros(r.MinPs), high: micros(r.MaxPs)})
		t.rows = append(t.rows, []string{thousands(int64(r.Size)), fixed(micros(r.MeanPs), 3), fixed(micros(r.MinPs), 3), fixed(micros(r.MaxPs), 3)})
	}
	if len(points) == 0 {
		f.missing = "The report has no measurement of VipPostRecv."
		return f
	}
	slices.SortStableFunc(points, func(a, b point) int { return int(a.x - b.x) })
	c := curve{"mean, with least and most", points, noLine, writeMark}
	f.caption = []string{"Time between two readings of the clock around VipPostRecv: compose a descriptor, post it, ring the doorbell, return. What one reading of the clock costs is in it, as in the paper."}
	f.picture = curvesPicture(f.head, []curve{c}, nil, "processor time, µs", false)
	p := f.picture.panels[0].plot
	if s.paper {
		linearAxis(&p.Y, 7, append(c.ys(), paperPostReceive*1.2)...)
		f.picture.keys = append(f.picture.keys, key{text: fmt.Sprintf("paper: mean %g µs", paperPostReceive), line: paperLine})
		if t8 := s.around("T8", paperPostReceive); t8 != nil {
			p.Add(band{t8.Low, t8.High})
			f.picture.keys = append(f.picture.keys, acceptedKey(t8))
		}
		p.Add(level{paperPostReceive}, c)
		f.caption = append(f.caption, "This figure cannot come out otherwise: each call is charged one constant, HostPostTime, fitted to the paper's mean and frozen before any message was measured, and each reading of the clock another. That the time does not depend on the length follows from the constant.", s.fitted("T8", "the processor time of VipPostRecv"))
	} else {
		f.caption = append(f.caption, "The host's cost of a post is that of the paper's host.")
	}
	f.tables = []table{t}
	return f
}

// proportionalFrom is the length from which the paper's “in proportion to size”
// is checked: below, a message is one frame.
const proportionalFrom = 2048

func (s *study) receiveWait() *figure {
	f := s.figure(fileReceiveWait, "Time of VipRecvWait", "Figure 12: time of VipRecvWait")
	collect := func(rows []report.ReceiveWaitResult) []point {
		var points []point
		for _, r := range rows {
			if r.Size > 0 && r.MeanPs > 0 {
				points = append(points, point{x: float64(r.Size), y: micros(r.MeanPs)})
			}
		}
		slices.SortStableFunc(points, func(a, b point) int { return int(a.x - b.x) })
		return points
	}
	points := collect(s.Results.ReceiveWait)
	if len(points) == 0 {
		f.missing = "The report has no measurement of VipRecvWait."
		return f
	}
	t := table{caption: "VipRecvWait, receiving side alone", heads: []string{"bytes", "mean, µs", "ns per byte"}, align: "rrr"}
	var long []point
	for _, p := range points {
		t.rows = append(t.rows, []string{thousands(int64(p.x)), fixed(p.y, 3), fixed(p.y*1000/p.x, 2)})
		if p.x >= proportionalFrom {
			long = append(long, p)
		}
	}
	const yTitle = "receive wait, µs"
	c := curve{"measured, mean", points, writeLine, writeMark}
	f.picture = curvesPicture(f.head, []curve{c}, nil, yTitle, true)
	f.caption = []string{"Time of a message on the receiving side alone: from the MAC's first write of its first frame into the card to the return of VipRecvWait. The wire is held until all frames have left the sender, so that the receiver never waits for the sender. Above: all lengths on logarithmic axes; below: the same on linear axes."}
	below := newPlot()
	linearSizeAxis(&below.X, c.xs())
	linearAxis(&below.Y, 5, c.ys()...)
	below.Add(grid{true, true})
	if l, ok := fit(long); ok {
		formula := fmt.Sprintf("%s µs + %s ns per byte", fixed(l.intercept, 1), fixed(l.slope*1000, 2))
		last := points[len(points)-1].x
		straight := curve{"straight line through " + thousands(proportionalFrom) + " bytes and more", []point{{x: 0, y: l.intercept}, {x: last, y: l.intercept + l.slope*last}}, lineStyle(orange, 2, true), marker{}}
		below.Add(straight)
		f.picture.keys = append(f.picture.keys, key{text: straight.name + ": " + formula, line: straight.line})
		f.caption = append(f.caption, fmt.Sprintf("From %s bytes on the least-squares line is %s, R² = %s.", thousands(proportionalFrom), formula, fixed(l.r2, 5)))
	}
	c.line = noLine // so that the straight line is visible
	below.Add(c)
	f.picture.panels = append(f.picture.panels, panel{plot: below, xTitle: sizeTitle, yTitle: yTitle, share: 1})
	f.picture.height = 640
	if s.paper {
		f.caption = append(f.caption, "The paper says “in proportion to the size” and prints no number. The slope is a prediction; the host's bookkeeping is part of each value.", s.fitted("T5", "the difference to an RDMA write of 4 bytes"))
	} else {
		f.caption = append(f.caption, predictionOnly)
	}
	f.tables = []table{t}
	return f
}

func (s *study) waterfall() *figure {
	f := &figure{file: fileWaterfall, head: "Where the latency of the shortest RDMA write goes"}
	rows := s.Results.Waterfall
	if len(rows) == 0 {
		f.missing = "The report has no waterfall of the shortest RDMA write."
		return f
	}
	size := paperShortest
	f.picture = waterfallPicture(rows, size)
	f.caption = []string{
		"Each stage begins where the one before it ends. Blue is measured from the trace port, as the mean over all counted messages; orange is what the model of the paper's card (docs/explanation/reproduction.md) allows for that stage, a prediction from before the card was built. A dash means that the model has no budget for the stage.",
	}
	t := table{caption: "Stages of an RDMA write of " + thousands(int64(size)) + " bytes", heads: []string{"stage", "measured, µs", "budget, µs", "difference, µs"}, align: "lrrr"}
	for _, r := range rows {
		budget, d := "–", "–"
		if r.BudgetPs > 0 {
			budget, d = fixed(micros(r.BudgetPs), 3), signed(micros(r.MeanPs-r.BudgetPs), 3)
		}
		t.rows = append(t.rows, []string{r.Name, fixed(micros(r.MeanPs), 3), budget, d})
	}
	f.tables = []table{t}
	return f
}

func (s *study) pipeline() *figure {
	f := &figure{file: filePipeline, head: "The pipeline of one long RDMA write"}
	l := s.Results.Pipeline
	if l == nil || len(l.Hops) == 0 {
		f.missing = "The report has no pipeline of a long RDMA write."
		return f
	}
	f.picture = pipelinePicture(l)
	f.caption = []string{
		"Each bar is one frame on one hop, from the start of its first transaction to the end of its last, from the trace port. The percentage is the part of the time up to the last byte in memory in which the hop carried something, descriptors and statuses included. The busiest hop bounds the bandwidth. Nothing was fitted to this picture.",
	}
	if s.paper {
		f.caption = append(f.caption, s.fitted("T10", "the two burst rates that the paper prints"), s.fitted("T3", "the bandwidth at the largest length"))
	}
	t := table{caption: fmt.Sprintf("The hops of one RDMA write of %s bytes", thousands(int64(l.Size))), heads: []string{"hop", "busy", "frames", "first starts, µs", "last ends, µs"}, align: "lrrrr"}
	for _, h := range l.Hops {
		row := []string{h.Name, percent(h.BusyPpm), thousands(int64(len(h.Spans))), "–", "–"}
		if n := len(h.Spans); n > 0 {
			row[3], row[4] = fixed(micros(h.Spans[0].StartPs), 3), fixed(micros(h.Spans[n-1].EndPs), 3)
		}
		t.rows = append(t.rows, row)
	}
	f.tables = []table{t}
	return f
}
