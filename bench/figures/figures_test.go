// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
	"pgregory.net/rapid"

	"hvia/bench/report"
)

// given returns the sample or, with HVIA_REPORT, a measured report.
func given(t *testing.T) *report.Report {
	t.Helper()
	if path := os.Getenv("HVIA_REPORT"); path != "" {
		r, err := report.Read(path)
		require.NoError(t, err)
		return r
	}
	return sample()
}

func tree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		files[name], err = os.ReadFile(p)
		return err
	}))
	return files
}

func write(t *testing.T, r *report.Report) map[string][]byte {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new", "folder")
	w, err := Write(r, dir)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "report.html"), w.Page)
	files := tree(t, dir)
	require.Len(t, files, 1+2*len(w.Figures))
	return files
}

func pageOf(t *testing.T, r *report.Report) string {
	t.Helper()
	s := newStudy(r)
	b, err := s.html(s.figures())
	require.NoError(t, err)
	return string(b)
}

// Equal reports give equal bytes, also after a round trip through JSON and with
// other wall times.
func TestSameReportSameBytes(t *testing.T) {
	first := write(t, given(t))
	again := given(t)
	again.Wall = report.Wall{BuildSeconds: 1, Seconds: 2}
	path, err := again.Save(t.TempDir())
	require.NoError(t, err)
	read, err := report.Read(path)
	require.NoError(t, err)
	second := write(t, read)
	require.Len(t, second, len(first))
	for name, body := range first {
		require.True(t, bytes.Equal(body, second[name]), "%s differs", name)
	}
}

// The same data in the format before the envelope give the same page.
func TestFormatBeforeSamePage(t *testing.T) {
	const before = "../report/testdata/report-1.json"
	var was, results map[string]json.RawMessage
	body, err := os.ReadFile(before)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(body, &was))
	require.NoError(t, json.Unmarshal(was["results"], &results))
	results["notes"], results["misses"] = was["notes"], was["misses"]
	body, err = json.Marshal(map[string]any{
		"schema": report.Schema, "environment": was["hashes"], "wall": was["wall"], "error": was["error"], "results": results,
		"parameters": map[string]any{"profile": was["profile"], "seed": was["seed"], "numbers": was["parameters"]},
	})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, os.WriteFile(path, body, 0o644))
	old, err := report.Read(before)
	require.NoError(t, err)
	converted, err := report.Read(path)
	require.NoError(t, err)
	require.NotEmpty(t, old.Results.RDMAWrite)
	require.Equal(t, pageOf(t, old), pageOf(t, converted))
}

func TestEveryFigureIsAValidFile(t *testing.T) {
	files := write(t, given(t))
	for _, name := range allFiles {
		img, err := png.Decode(bytes.NewReader(files["figures/"+name+".png"]))
		require.NoError(t, err, name)
		require.Equal(t, pixelsWide, img.Bounds().Dx(), name)
		require.Greater(t, img.Bounds().Dy(), 500, name)

		svg := files["figures/"+name+".svg"]
		require.Equal(t, []string{"svg"}, elements(t, svg)[:1], name)
		require.Contains(t, elements(t, svg), "path", name)
		require.Contains(t, string(svg), "<title>", name)
		require.NotContains(t, string(svg), "NaN", name)
		require.NotContains(t, string(svg), "Inf", name)
	}
}

// elements parses XML to its end and lists the elements.
func elements(t *testing.T, body []byte) []string {
	t.Helper()
	var names []string
	d := xml.NewDecoder(bytes.NewReader(body))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return names
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok {
			names = append(names, e.Name.Local)
		}
	}
}

// box is a text in a picture.
type box struct {
	text                     string
	left, right, bottom, top float64
}

// texts draws a picture and returns the positions of its level texts.
func texts(t *testing.T, p *picture) []box {
	t.Helper()
	c := new(recorder.Canvas)
	c.KeepCaller = false
	p.draw(draw.NewCanvas(c, pictureWidth, vg.Points(p.height)))
	var boxes []box
	turned, depth := 0, 0
	for _, a := range c.Actions {
		switch a := a.(type) {
		case *recorder.Push:
			depth++
		case *recorder.Pop:
			if depth == turned {
				turned = 0
			}
			depth--
		case *recorder.Rotate:
			turned = depth
		case *recorder.FillString:
			require.GreaterOrEqual(t, a.Size.Points(), 11.0, "%q is too small", a.String)
			if turned > 0 || strings.TrimSpace(a.String) == "" {
				continue
			}
			f := textStyle(a.Size.Points(), a.Font.Weight != 0, ink, 0, 0)
			w := f.Width(a.String).Points()
			boxes = append(boxes, box{a.String, a.Point.X.Points(), a.Point.X.Points() + w, a.Point.Y.Points(), a.Point.Y.Points() + 0.7*a.Size.Points()})
		}
	}
	require.NotEmpty(t, boxes)
	return boxes
}

// No text of a picture lies on another one or outside of the picture.
func TestTextsDoNotOverlap(t *testing.T) {
	small := sample()
	small.Results.RDMAWrite, small.Results.SendReceive = small.Results.RDMAWrite[3:5], small.Results.SendReceive[3:5]
	for _, r := range []*report.Report{given(t), small} {
		for _, f := range newStudy(r).figures() {
			boxes := texts(t, f.picture)
			for k, a := range boxes {
				require.GreaterOrEqual(t, a.left, 0.0, "%s: %q", f.file, a.text)
				require.LessOrEqual(t, a.right, float64(pictureWidth), "%s: %q", f.file, a.text)
				require.GreaterOrEqual(t, a.bottom, 0.0, "%s: %q", f.file, a.text)
				require.LessOrEqual(t, a.top, f.picture.height, "%s: %q", f.file, a.text)
				for _, b := range boxes[k+1:] {
					apart := a.right <= b.left || b.right <= a.left || a.top <= b.bottom || b.top <= a.bottom
					require.True(t, apart, "%s: %q lies on %q", f.file, a.text, b.text)
				}
			}
		}
	}
}

// The ticks are powers of two.
func TestSizesAreTicked(t *testing.T) {
	var seen []string
	for _, b := range texts(t, newStudy(sample()).latency().picture) {
		seen = append(seen, b.text)
	}
	for _, want := range []string{"4", "16", "64", "256", "1K", "4K", "16K", "64K", "10", "20", "50", "100", "200", "500"} {
		require.Contains(t, seen, want)
	}
}

var (
	links      = regexp.MustCompile(`(?i)\s(href|src|srcset|action|data|poster|xlink:href)\s*=\s*"([^"]*)"`)
	identities = regexp.MustCompile(`\sid="([^"]*)"`)
	referrers  = regexp.MustCompile(`\saria-(?:labelledby|describedby)="([^"]*)"`)
)

// The page is one file without external links or scripts.
func TestPageNeedsNothingElse(t *testing.T) {
	page := pageOf(t, given(t))
	require.Less(t, len(page), 3_000_000)
	require.NotRegexp(t, `(?i)<(script|link|iframe|object|embed|img|image|base|foreignObject)\b`, page)
	require.NotRegexp(t, `(?i)https?:|url\(|@import|javascript:|\son[a-z]+\s*=`, page)
	ids := map[string]bool{}
	for _, m := range identities.FindAllStringSubmatch(page, -1) {
		require.False(t, ids[m[1]], "two elements are called %s", m[1])
		ids[m[1]] = true
	}
	found := links.FindAllStringSubmatch(page, -1)
	require.NotEmpty(t, found)
	for _, m := range found {
		require.Equal(t, "href", m[1])
		require.True(t, strings.HasPrefix(m[2], "#"), "a link leads to %s", m[2])
		require.True(t, ids[m[2][1:]], "a link leads to %s, which is not there", m[2])
	}
	for _, m := range referrers.FindAllStringSubmatch(page, -1) {
		for id := range strings.FieldsSeq(m[1]) {
			require.True(t, ids[id], "%s is not there", id)
		}
	}
}

// Table heads name their scope, and pictures have a description.
func TestPageIsAccessible(t *testing.T) {
	page := pageOf(t, given(t))
	require.Regexp(t, `^<!DOCTYPE html>\n<html lang="en">`, page)
	for _, th := range regexp.MustCompile(`<th\b[^>]*>`).FindAllString(page, -1) {
		require.Contains(t, th, `scope="`)
	}
	tables := strings.Count(page, "<table")
	require.Equal(t, tables, strings.Count(page, "<caption>"))
	require.Greater(t, tables, 8)
	svgs := regexp.MustCompile(`<svg\b[^>]*>`).FindAllString(page, -1)
	require.Len(t, svgs, len(allFiles))
	for _, s := range svgs {
		require.Contains(t, s, `role="img" aria-labelledby=`)
	}
	require.Equal(t, len(allFiles), strings.Count(page, "<figcaption>"))
}

// rowOf returns the table row that contains all of the texts.
func rowOf(page string, texts ...string) string {
	for _, row := range regexp.MustCompile(`(?s)<tr>.*?</tr>`).FindAllString(page, -1) {
		all := true
		for _, s := range texts {
			all = all && strings.Contains(row, s)
		}
		if all {
			return row
		}
	}
	return ""
}

func TestPageTellsEachTarget(t *testing.T) {
	r := given(t)
	page := pageOf(t, r)
	require.NotEmpty(t, r.Results.Targets)
	for _, target := range r.Results.Targets {
		row := rowOf(page, ">"+target.ID+"<", ">"+escaped(target.Quantity)+"<")
		require.NotEmpty(t, row, "%s %s", target.ID, target.Quantity)
		require.Contains(t, row, ">"+plain(target.Calibrated)+"<")
		words := map[bool]string{true: ">ok<", false: ">miss<"}
		require.Contains(t, row, words[target.OK])
		require.NotContains(t, row, words[!target.OK])
	}
	for _, p := range r.Numbers {
		require.NotEmpty(t, rowOf(page, ">"+p.Name+"<", fmt.Sprintf(">%d<", p.Value), ">"+p.Tag+"<"), p.Name)
	}
	for _, h := range []string{r.Environment.Layout, r.Environment.Params, r.Environment.RTL} {
		require.Contains(t, page, ">"+h+"<")
	}
}

// escaped is a text as the page has it.
func escaped(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;", "+", "&#43;").Replace(s)
}

func TestSummaryCounts(t *testing.T) {
	r := sample()
	require.Contains(t, pageOf(t, r), "13 of 14 rows of targets hold. Missed: T7 (smallest gain).")
	for k := range r.Results.Targets {
		r.Results.Targets[k].OK = true
	}
	page := pageOf(t, r)
	require.Contains(t, page, "All 14 rows of targets hold.")
	require.Contains(t, page, "44 of 48 measured half round trips")
	require.NotContains(t, page, "What this report lacks")
}

// The captions name the calibrated values by the parameters that the report
// carries.
func TestCaptionsNameWhatWasFitted(t *testing.T) {
	r := sample()
	page := pageOf(t, r)
	require.Contains(t, page, "HostPostTime is calibrated with the processor time of VipPostRecv (T8).")
	require.Contains(t, page, "MacReactClocks is calibrated with the bandwidth at the largest length (T3).")
	require.Contains(t, page, "No parameter is calibrated with the difference at 4 bytes (T5).")
	require.Contains(t, page, "MviaWakeTime is calibrated with the latencies of M-VIA and TCP/IP at 4 bytes (T2).")
	require.Contains(t, page, "Both curves between their two ends are predictions.")
	require.Contains(t, page, "the same card with MacReactClocks = 4, as guessed", "what else was predicted is nothing to the card")
	require.Contains(t, page, "<caption>TCP/IP, before the fit</caption>")
	r.Numbers[0].Tag, r.Numbers[2].Tag = "CALIBRATED(T3)", "GUESS"
	page = pageOf(t, r)
	require.Contains(t, page, "SystemClockPeriod and MacReactClocks are calibrated with the bandwidth at the largest length (T3).")
	require.Contains(t, page, "No parameter is calibrated with the processor time of VipPostRecv (T8).")
	r.Numbers = nil
	page = pageOf(t, r)
	require.NotContains(t, page, "calibrated with")
	require.Contains(t, page, "The report does not carry its parameters.")
}

// A report that lacks a part is drawn without it, and the page says so.
func TestMissingPartsAreNamed(t *testing.T) {
	complete := pageOf(t, sample())
	for _, c := range []struct {
		name  string
		take  func(*report.Results)
		gone  []string
		tells string
	}{
		{"writes", func(r *report.Results) { r.RDMAWrite = nil }, []string{fileLatency, fileBandwidth, fileLatencyBoth, fileBandwidthBoth}, "no RDMA write that was measured"},
		{"sends", func(r *report.Results) { r.SendReceive = nil }, []string{fileLatencyBoth, fileBandwidthBoth}, "measured both by RDMA write and by send and receive"},
		{"posts", func(r *report.Results) { r.PostReceive = nil }, []string{filePostReceive}, "no measurement of VipPostRecv"},
		{"waits", func(r *report.Results) { r.ReceiveWait = nil }, []string{fileReceiveWait}, "no measurement of VipRecvWait"},
		{"waterfall", func(r *report.Results) { r.Waterfall = nil }, []string{fileWaterfall}, "no waterfall"},
		{"pipeline", func(r *report.Results) { r.Pipeline = nil }, []string{filePipeline}, "no pipeline"},
		{"hops", func(r *report.Results) { r.Pipeline.Hops = nil }, []string{filePipeline}, "no pipeline"},
		{"baselines", func(r *report.Results) { r.Mvia, r.Tcp = nil, nil }, nil, "M-VIA and TCP/IP, was not measured."},
		{"reads", func(r *report.Results) { r.RDMARead = nil }, nil, "RDMA reads were not measured."},
		{"paths", func(r *report.Results) { r.Paths = nil }, []string{filePath}, "no path of a message"},
		{"accounts", func(r *report.Results) { r.Accounts = nil }, []string{fileProcessor}, "no account of a message"},
		{"prediction", func(r *report.Results) { r.Prediction = nil }, nil, "The prediction from before the fit was not run."},
		{"targets", func(r *report.Results) { r.Targets = nil }, nil, "No target could be checked"},
		{"a target", func(r *report.Results) { r.Targets = r.Targets[1:] }, nil, "could not be checked, for want of a measurement: T1."},
		{"sizes", func(r *report.Results) { r.RDMAWrite = r.RDMAWrite[:10] }, nil, "were not measured: 32,768, 65,536 bytes."},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "figures"), 0o755))
			for _, name := range allFiles { // an older drawing, all of which must be replaced
				require.NoError(t, os.WriteFile(filepath.Join(dir, "figures", name+".png"), []byte("old"), 0o644))
				require.NoError(t, os.WriteFile(filepath.Join(dir, "figures", name+".svg"), []byte("old"), 0o644))
			}
			require.NotContains(t, complete, c.tells)
			r := sample()
			c.take(&r.Results)
			w, err := Write(r, dir)
			require.NoError(t, err)
			require.Len(t, w.Figures, len(allFiles)-len(c.gone))
			files := tree(t, dir)
			require.Len(t, files, 1+2*len(w.Figures))
			for _, name := range c.gone {
				require.NotContains(t, files, "figures/"+name+".png")
				require.NotContains(t, files, "figures/"+name+".svg")
			}
			page := string(files["report.html"])
			require.Contains(t, page, c.tells)
			require.Equal(t, len(w.Figures), strings.Count(page, "<svg "))
		})
	}
}

func TestNothingMeasured(t *testing.T) {
	r := report.New("hvia-ge", 1, report.Hashes{})
	r.Complete("devel", nil, errors.New("node 1 went away"))
	files := write(t, r)
	require.Len(t, files, 1)
	page := string(files["report.html"])
	require.Contains(t, page, "this report is not complete:</strong> node 1 went away")
	require.Equal(t, len(allFiles), strings.Count(page, "Not in this report."))
}

func TestWrongBytesAreTold(t *testing.T) {
	r := sample()
	r.Results.SendReceive[2].Verified, r.Results.SendReceive[2].Fault = false, "byte 2 of <64>"
	page := pageOf(t, r)
	require.Contains(t, page, "<li>64 bytes by send and receive: byte 2 of &lt;64&gt;</li>")
	require.NotEmpty(t, rowOf(page, "WRONG: byte 2 of &lt;64&gt;"))
}

// The paper has no numbers for another card.
func TestOtherProfileIsAPrediction(t *testing.T) {
	r := sample()
	r.Profile = "hvia-ge-66"
	for name, body := range write(t, r) {
		if !strings.HasSuffix(name, ".svg") {
			continue
		}
		require.NotContains(t, string(body), "paper", name)
		require.NotContains(t, string(body), "accepted", name)
	}
	page := pageOf(t, r)
	require.Contains(t, page, "<title>HVIA: prediction for profile hvia-ge-66</title>")
	require.NotContains(t, page, `id="targets"`)
	require.NotContains(t, page, "rows of targets")
	require.NotContains(t, page, ">miss<")
	require.NotContains(t, page, "12.5 µs")
}

// No text of a report becomes markup.
func TestTextIsNotMarkup(t *testing.T) {
	r := sample()
	const evil = `<script>alert("&")</script>`
	r.Results.Waterfall[3].Name, r.Results.Pipeline.Hops[2].Name, r.Results.Targets[0].Quantity = evil, evil, evil
	r.Numbers[0].Source, r.Notes[0], r.Results.Ablations.Variants[1].Name = evil, evil, evil
	for name, body := range write(t, r) {
		require.NotContains(t, string(body), "<script", name)
		if strings.HasSuffix(name, ".svg") {
			require.NotContains(t, elements(t, body), "script", name)
		}
	}
}

func TestDirectoryThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err := Write(sample(), file)
	require.ErrorContains(t, err, "write the figures into "+filepath.Join(file, "figures"))
	require.ErrorContains(t, err, "name another directory")
	require.NotContains(t, err.Error(), "\n")

	// A directory has the name of a file to write.
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "report.html", "x"), 0o755))
	_, err = Write(sample(), dir)
	require.ErrorContains(t, err, "write the page "+filepath.Join(dir, "report.html"))
	require.ErrorContains(t, err, "name another directory")
	for name := range tree(t, dir) {
		require.NotContains(t, name, ".tmp")
	}
}

// Every report can be drawn.
func TestAnyReportIsDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.IntRange(-2, 70000), rapid.SampledFrom([]int{4, 64, 1 << 20, 1 << 40}))
		ps := rapid.OneOf(rapid.Int64Range(-10, 1_000_000_000), rapid.SampledFrom([]int64{0, 1, 1 << 50, -1 << 63, 1<<63 - 1}))
		some := func(name string) int { return rapid.IntRange(0, 4).Draw(t, name) }
		r := report.New(rapid.SampledFrom([]string{"hvia-ge", "hvia-ge-66", ""}).Draw(t, "profile"), 1, report.Hashes{})
		rows := func(name string) (list []report.PingPongResult) {
			for range some(name) {
				list = append(list, report.PingPongResult{Size: size.Draw(t, "size"), HalfRTTPs: ps.Draw(t, "half"), HostPs: ps.Draw(t, "host")})
			}
			return list
		}
		r.Results.RDMAWrite, r.Results.SendReceive = rows("writes"), rows("sends")
		if rapid.Bool().Draw(t, "predicted") {
			r.Results.Prediction = &report.Prediction{RDMAWrite: rows("predicted writes")}
		}
		for range some("posts") {
			r.Results.PostReceive = append(r.Results.PostReceive, report.PostReceiveResult{Size: size.Draw(t, "size"), MeanPs: ps.Draw(t, "mean"), MinPs: ps.Draw(t, "min"), MaxPs: ps.Draw(t, "max")})
		}
		for range some("waits") {
			r.Results.ReceiveWait = append(r.Results.ReceiveWait, report.ReceiveWaitResult{Size: size.Draw(t, "size"), MeanPs: ps.Draw(t, "mean")})
		}
		for range some("stages") {
			r.Results.Waterfall = append(r.Results.Waterfall, report.WaterfallRow{Name: rapid.StringN(0, 60, 120).Draw(t, "name"), MeanPs: ps.Draw(t, "mean"), BudgetPs: ps.Draw(t, "budget")})
		}
		if rapid.Bool().Draw(t, "pipeline") {
			r.Results.Pipeline = &report.Pipeline{Size: size.Draw(t, "size")}
			for range some("hops") {
				h := report.Hop{Name: rapid.String().Draw(t, "name"), BusyPpm: ps.Draw(t, "busy")}
				for range some("spans") {
					h.Spans = append(h.Spans, report.Span{Frame: size.Draw(t, "frame"), StartPs: ps.Draw(t, "start"), EndPs: ps.Draw(t, "end")})
				}
				r.Results.Pipeline.Hops = append(r.Results.Pipeline.Hops, h)
			}
		}
		shares := func() (list []report.TimeShare) {
			for range some("shares") {
				list = append(list, report.TimeShare{Name: rapid.SampledFrom([]string{"library", "wake", "no such", ""}).Draw(t, "name"), Ps: ps.Draw(t, "share")})
			}
			return list
		}
		r.Results.Mvia, r.Results.Tcp = rows("mvia"), rows("tcp")
		r.Results.RDMARead, r.Results.ReliableWrite = rows("read"), rows("reliable")
		for range some("paths") {
			r.Results.Paths = append(r.Results.Paths, report.MessagePath{Protocol: rapid.SampledFrom([]string{"tcp", "?"}).Draw(t, "protocol"), Size: size.Draw(t, "size"), HalfRTTPs: ps.Draw(t, "half"), Rows: shares()})
		}
		for range some("accounts") {
			r.Results.Accounts = append(r.Results.Accounts, report.MessageAccount{
				Protocol: "mvia", Size: size.Draw(t, "size"), HalfRTTPs: ps.Draw(t, "half"), Processor: shares(), ProcessorPs: ps.Draw(t, "processor"), BusPs: ps.Draw(t, "bus"), WirePs: ps.Draw(t, "wire"),
			})
		}
		for range some("targets") {
			r.Results.Targets = append(r.Results.Targets, report.Target{ID: rapid.SampledFrom([]string{"T5", "T8", ""}).Draw(t, "id"), Low: rapid.Float64().Draw(t, "low"), High: rapid.Float64().Draw(t, "high")})
		}
		for range some("points") {
			r.Results.ModelCurve = append(r.Results.ModelCurve, report.ModelPoint{Size: size.Draw(t, "size"), Protocol: "rdma_write", ModelPs: ps.Draw(t, "model"), MeasuredPs: ps.Draw(t, "measured")})
		}
		s := newStudy(r)
		list := s.figures()
		for _, f := range list {
			if (f.picture == nil) != (f.missing != "") {
				t.Fatalf("%s: neither drawn nor missing", f.file)
			}
			if f.picture == nil {
				continue
			}
			b, err := f.picture.svg()
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(b, []byte("NaN")) || bytes.Contains(b, []byte("Inf,")) {
				t.Fatalf("%s: a coordinate is no number:\n%s", f.file, b)
			}
		}
		if _, err := s.html(list); err != nil {
			t.Fatal(err)
		}
	})
}

// Programs that use the experiments draw nothing: only this package imports the
// plotting library.
func TestBenchDoesNotPlot(t *testing.T) {
	deps := func(pkg string) string {
		out, err := exec.Command("go", "list", "-deps", pkg).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	require.NotContains(t, deps("hvia/bench/digests"), "gonum.org")
	require.Contains(t, deps("hvia/bench/figures"), "gonum.org/v1/plot\n")
}

// The table of first writes shows the gain of advertising, and wrong bytes.
func TestPageTellsFirstWrites(t *testing.T) {
	r := sample()
	page := pageOf(t, r)
	require.Contains(t, page, `<table id="table-first-write">`)
	require.Contains(t, page, `<th scope="row" class="n">4</th><td class="n">27.38</td><td class="n">40.32</td><td class="n">65.51</td><td class="n">25.19</td><td>ok</td>`)
	require.Contains(t, page, "WRONG: byte 3 of &lt;4096&gt;")
	r.Results.FirstWrite = nil
	require.NotContains(t, pageOf(t, r), "first-write")
}
