// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/sim/verilate"
)

// docs are the pages whose commands and outputs are tested.
var docs = []string{"README.md", "docs/reference/results.md", "docs/tutorial/first-message.md", "docs/how-to/compare.md", "docs/how-to/examples.md"}

type fence struct {
	info    string // after the opening fence: sh, go, text
	body    string
	start   int    // offset of body in the page
	printed string // the command of the comment right before it, "" without one
	lines   [2]int // the shown range of lines of the output, zero for all
}

// shown returns the part of a command's output that the page shows.
func (f fence) shown(output string) string {
	output = asShown(output)
	if f.lines[1] == 0 {
		return output
	}
	all := slices.Collect(strings.Lines(output))
	return strings.Join(all[min(f.lines[0]-1, len(all)):min(f.lines[1], len(all))], "")
}

var fencePattern = regexp.MustCompile("(?s)(?:<!-- printed by: ([^\n]*?)(?: \\(lines (\\d+) to (\\d+)\\))? -->\n)?```([a-z]*)\n(.*?)```\n")

func fences(page string) []fence {
	var list []fence
	for _, m := range fencePattern.FindAllStringSubmatchIndex(page, -1) {
		f := fence{info: page[m[8]:m[9]], body: page[m[10]:m[11]], start: m[10]}
		if m[2] >= 0 {
			f.printed = page[m[2]:m[3]]
		}
		for i := range f.lines {
			if at := m[4+2*i:]; at[0] >= 0 {
				f.lines[i], _ = strconv.Atoi(page[at[0]:at[1]])
			}
		}
		list = append(list, f)
	}
	return list
}

func checkout(t *testing.T) string {
	t.Helper()
	root, err := verilate.Root()
	require.NoError(t, err)
	return root
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(checkout(t), name))
	require.NoError(t, err)
	return string(body)
}

// runHvia runs the tool in a directory of the checkout that git ignores, and
// returns its standard output.
func runHvia(t *testing.T, args ...string) string {
	t.Helper()
	return outputOf(t, scratch(t), "hvia", args...) // testscript.Main puts it on PATH
}

func scratch(t *testing.T) string {
	t.Helper()
	build := filepath.Join(checkout(t), "build")
	require.NoError(t, os.MkdirAll(build, 0o755))
	dir, err := os.MkdirTemp(build, "docs-test-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// outputOf runs a command that must succeed and print nothing to stderr but the
// stages of a build.
func outputOf(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "%s %v: %s", name, args, &stderr)
	for line := range strings.Lines(stderr.String()) {
		require.True(t, strings.HasPrefix(line, "build: "), "%s %v: %s", name, args, &stderr)
	}
	return stdout.String()
}

// exampleOutputs are the outputs of examples by their command, so that each
// runs once.
var exampleOutputs = map[string]string{}

// runExample runs a program of examples/ in the checkout: words are go run, its
// folder, its flags.
func runExample(t *testing.T, words []string) string {
	t.Helper()
	require.Greater(t, len(words), 2, "%v", words)
	require.Equal(t, "run", words[1], "%v", words)
	require.True(t, strings.HasPrefix(words[2], "./examples/"), "%v: a page shows programs of ./examples/ only", words)
	command := strings.Join(words, " ")
	if _, ok := exampleOutputs[command]; !ok {
		exampleOutputs[command] = outputOf(t, checkout(t), words[0], words[1:]...)
	}
	return exampleOutputs[command]
}

func TestFences(t *testing.T) {
	page := "a\n```sh\nmake x # y\n```\n<!-- printed by: hvia demo -s 4 (lines 2 to 3) -->\n```text\none\ntwo\n```\n```\nplain\n```\n"
	got := fences(page)
	require.Equal(t, []fence{
		{info: "sh", body: "make x # y\n", start: 8},
		{"text", "one\ntwo\n", 82, "hvia demo -s 4", [2]int{2, 3}},
		{info: "", body: "plain\n", start: 98},
	}, got)
	require.Equal(t, "b\nc\n", got[1].shown("a\nb\nc\nd\n"))
	for _, f := range got {
		require.True(t, strings.HasPrefix(page[f.start:], f.body))
	}
}

// The commands of the pages work: every command of the tool runs, and every
// target of make exists.
func TestDocsCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	makefile := readPage(t, "Makefile")
	for _, name := range docs {
		commands := 0
		for _, f := range fences(readPage(t, name)) {
			if f.info != "sh" {
				continue
			}
			for line := range strings.Lines(f.body) {
				line, _, _ = strings.Cut(line, "#")
				words := strings.Fields(strings.ReplaceAll(line, "''", `""`))
				if len(words) == 0 {
					continue
				}
				commands++
				for i := range words {
					words[i] = strings.ReplaceAll(words[i], `""`, "")
				}
				switch words[0] {
				case "make":
					require.Len(t, words, 2, "%s: %s", name, line)
					require.Contains(t, makefile, "\n"+words[1]+":", "%s: %s", name, line)
				case "bin/hvia":
					t.Run(strings.Join(words[1:], " "), func(t *testing.T) {
						got := runHvia(t, words[1:]...)
						require.NotEmpty(t, got)
						if words[1] == "compare" && slices.Contains(words, "--faults") {
							showsLoss(t, got)
						}
					})
				case "go":
					t.Run(strings.Join(words[2:], " "), func(t *testing.T) {
						require.NotEmpty(t, runExample(t, words))
					})
				default:
					t.Errorf("%s: %q is neither a command of the tool nor an example nor a target of make", name, line)
				}
			}
		}
		require.Positive(t, commands, "%s", name)
	}
}

// The reference of the command names every verb and every format of JSON.
func TestReferenceOfTheCommand(t *testing.T) {
	page := readPage(t, "docs/reference/hvia.md")
	help := runHvia(t, "--help")
	_, verbs, _ := strings.Cut(help, "\nCommands:\n")
	verbs, _, found := strings.Cut(verbs, "\n\n")
	require.True(t, found, "no list of commands in %s", help)
	for line := range strings.Lines(verbs) {
		require.Contains(t, page, "| `hvia "+strings.Fields(line)[0], "docs/reference/hvia.md has no such verb")
	}
	schema := regexp.MustCompile(`"(hvia-[a-z-]+/\d+)"`)
	schemas := map[string]bool{}
	for _, folder := range []string{"bench/*", "tools/hvia/internal/cli"} {
		files, err := filepath.Glob(filepath.Join(checkout(t), folder, "*.go"))
		require.NoError(t, err)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			body, err := os.ReadFile(name)
			require.NoError(t, err)
			for _, m := range schema.FindAllStringSubmatch(string(body), -1) {
				schemas[m[1]] = true
			}
		}
	}
	require.Contains(t, schemas, "hvia-fault-matrix/2")
	for s := range schemas {
		require.Contains(t, page, "`"+s+"`", "docs/reference/hvia.md has no such format")
	}
}

// Pages show "..." for hashes, which change with every commit to the sources,
// and for wall times. The rest of an output is shown and compared.
var notShown = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{hashPattern, "..."},
	{regexp.MustCompile(`(?m)^wall: .*$`), "wall: ..."},
}

var hashPattern = regexp.MustCompile(`\b[0-9a-f]{16}\b`)

func asShown(output string) string {
	for _, n := range notShown {
		output = n.pattern.ReplaceAllString(output, n.with)
	}
	return output
}

func TestShown(t *testing.T) {
	output := "layout 47fc2a228da722a1  params e49c74300c919d40  rtl 35754ef4c0392a98\n" +
		"4096  rdma   87.868   87.875    0\n" +
		"digest rdma  b3650046604d04e7\n" +
		"the region has handle 0x100000\n" +
		"wall: 1.2 s; the build of the simulator took 142.6 s\n" +
		"report: out/reproduce/report.json\n"
	require.Equal(t, "layout ...  params ...  rtl ...\n"+
		"4096  rdma   87.868   87.875    0\n"+
		"digest rdma  ...\n"+
		"the region has handle 0x100000\n"+
		"wall: ...\n"+
		"report: out/reproduce/report.json\n", asShown(output))
	require.Equal(t, asShown(output), asShown(asShown(output)))
}

// showsLoss checks an example of a lossy link: every protocol loses frames, and
// those that can retransmit do.
func showsLoss(t *testing.T, output string) {
	t.Helper()
	lines := regexp.MustCompile(`(?m)^(\S+) +dropped [1-9][\d,]* of [\d,]+ frames(; retransmitted [1-9][\d,]*)?$`).FindAllStringSubmatch(output, -1)
	digests := regexp.MustCompile(`(?m)^digest (\S+) `).FindAllStringSubmatch(output, -1)
	require.NotEmpty(t, digests, output)
	require.Len(t, lines, len(digests), "not every protocol loses a frame: %s", output)
	for i, l := range lines {
		require.Equal(t, digests[i][1], l[1])
		reliable := l[1] == "tcp" || strings.HasSuffix(l[1], "-rd") || strings.HasSuffix(l[1], "-rr")
		require.Equal(t, reliable, l[2] != "", "%s", l[0])
	}
}

// No page holds the hash of a build: it would be stale with the next commit.
func TestPagesHoldNoHash(t *testing.T) {
	root := checkout(t)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if name := d.Name(); err == nil && (name == ".git" || name == "build" || name == "out" || name == "bin") {
				return filepath.SkipDir
			}
			return err
		}
		if filepath.Ext(path) == ".md" {
			body, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NotRegexp(t, hashPattern, string(body), path)
		}
		return nil
	})
	require.NoError(t, err)
}

// The tool prints the outputs that the pages show. HVIA_UPDATE=1 rewrites the
// pages.
func TestDocsOutputs(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	for _, name := range docs {
		t.Run(name, func(t *testing.T) { holdOutputs(t, name) })
	}
}

func holdOutputs(t *testing.T, name string) {
	page := readPage(t, name)
	shown := 0
	// From the last to the first, so that a replacement moves no later one.
	for _, f := range slices.Backward(fences(page)) {
		if f.printed == "" {
			continue
		}
		shown++
		var got string
		switch words := strings.Fields(f.printed); words[0] {
		case "hvia":
			dir := scratch(t)
			got = outputOf(t, dir, "hvia", words[1:]...)
			if words[1] == "reproduce" {
				holdFigure(t, dir)
			}
		case "go":
			got = runExample(t, words)
		default:
			t.Fatalf("%s: %q is neither a command of the tool nor an example", name, f.printed)
		}
		if os.Getenv("HVIA_UPDATE") == "1" {
			page = page[:f.start] + f.shown(got) + page[f.start+len(f.body):]
			continue
		}
		require.Equal(t, f.body, f.shown(got),
			"%s shows something else than '%s' prints: 'make docs' writes it anew", name, f.printed)
	}
	require.Positive(t, shown, "%s shows no output", name)
	if os.Getenv("HVIA_UPDATE") == "1" {
		require.NoError(t, os.WriteFile(filepath.Join(checkout(t), name), []byte(page), 0o644))
	}
}

// holdFigure compares the figure of the README with the one that `hvia
// reproduce` has drawn in a directory.
func holdFigure(t *testing.T, dir string) {
	t.Helper()
	const file = "docs/images/figure-07-latency.svg"
	drawn, err := os.ReadFile(filepath.Join(dir, "out/reproduce/figures", filepath.Base(file)))
	require.NoError(t, err)
	if os.Getenv("HVIA_UPDATE") == "1" {
		require.NoError(t, os.WriteFile(filepath.Join(checkout(t), file), drawn, 0o644))
		return
	}
	require.Equal(t, string(drawn), readPage(t, file), "%s is not the figure of this run: 'make docs' draws it anew", file)
}

// The README has the results of the page with the whole output.
func TestReadmeResults(t *testing.T) {
	results := readPage(t, "docs/reference/results.md")
	rows := regexp.MustCompile(`(?m)^\| (T\d+): [^|]*((?:\| [\d.]+ )+)\|$`).FindAllStringSubmatch(readPage(t, "README.md"), -1)
	require.Len(t, rows, 5)
	for _, r := range rows {
		numbers := strings.FieldsFunc(r[2], func(c rune) bool { return c == '|' || c == ' ' })
		require.Regexp(t, `(?m)^`+r[1]+` .* `+strings.ReplaceAll(strings.Join(numbers, " +"), ".", `\.`)+` `, results, r[0])
	}
}

func TestReadmeIsShort(t *testing.T) {
	require.LessOrEqual(t, strings.Count(readPage(t, "README.md"), "\n"), 120)
}

// The program in the README is part of an example that is compiled and run.
func TestReadmeExample(t *testing.T) {
	program := readPage(t, "examples/rdmawrite/main.go")
	snippets := 0
	for _, f := range fences(readPage(t, "README.md")) {
		if f.info != "go" {
			continue
		}
		snippets++
		require.Contains(t, program, f.body, "README.md shows something else than examples/rdmawrite/main.go")
		for _, what := range []string{"OpenEndpoint", ".Dial(", ".Write("} {
			require.Contains(t, f.body, what)
		}
	}
	require.Equal(t, 1, snippets)
}
