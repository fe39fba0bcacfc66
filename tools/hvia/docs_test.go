// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/sim/verilate"
)

// docs are the pages whose commands and outputs are held to the truth.
var docs = []string{"README.md", "docs/tutorial/first-message.md", "docs/how-to/compare.md", "docs/how-to/examples.md"}

// fence is a fenced block of a page.
type fence struct {
	info    string // what follows the opening fence: sh, go, text
	body    string
	start   int    // offset of body in the page
	printed string // the command of the comment right before it, "" without one
}

var fencePattern = regexp.MustCompile("(?s)(?:<!-- printed by: ([^\n]*) -->\n)?```([a-z]*)\n(.*?)```\n")

func fences(page string) []fence {
	var list []fence
	for _, m := range fencePattern.FindAllStringSubmatchIndex(page, -1) {
		f := fence{info: page[m[4]:m[5]], body: page[m[6]:m[7]], start: m[6]}
		if m[2] >= 0 {
			f.printed = page[m[2]:m[3]]
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

// runHvia runs the tool in a directory of the checkout that git ignores, as if
// it had been built there, and returns its standard output.
func runHvia(t *testing.T, args ...string) string {
	t.Helper()
	build := filepath.Join(checkout(t), "build")
	require.NoError(t, os.MkdirAll(build, 0o755))
	dir, err := os.MkdirTemp(build, "docs-test-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return outputOf(t, dir, "hvia", args...) // testscript.Main puts it on PATH
}

// outputOf runs a command that must succeed and say nothing on standard error.
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
	require.Empty(t, stderr.String(), "%s %v", name, args)
	return stdout.String()
}

// exampleOutputs are what examples printed, by their command: a page that tells a command and
// shows its output has it run once.
var exampleOutputs = map[string]string{}

// runExample runs a program of examples/ in the checkout: words are go run, its folder, its flags.
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
	page := "a\n```sh\nmake x # y\n```\n<!-- printed by: hvia demo -s 4 -->\n```text\none\ntwo\n```\n```\nplain\n```\n"
	got := fences(page)
	require.Equal(t, []fence{
		{"sh", "make x # y\n", 8, ""}, {"text", "one\ntwo\n", 67, "hvia demo -s 4"}, {"", "plain\n", 83, ""},
	}, got)
	for _, f := range got {
		require.True(t, strings.HasPrefix(page[f.start:], f.body))
	}
}

// What a newcomer copies out of the pages works: every command of the tool is
// run, and every target of make exists.
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
						require.NotEmpty(t, runHvia(t, words[1:]...))
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
	for _, folder := range []string{"bench", "tools/hvia/internal/cli"} {
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
	require.Contains(t, schemas, "hvia-fault-matrix/1")
	for s := range schemas {
		require.Contains(t, page, "`"+s+"`", "docs/reference/hvia.md has no such format")
	}
}

// The measuring columns and lines of a text depend on the machine, the hashes
// on sources whose change may change no number.
var machineDependent = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(?m)^( *\d+(?: +[\d.]+){4}  ok (?: +[\d.]+)?) +[\d.]+ +\d+$`), "$1"},
	{regexp.MustCompile(`(?m)^wall: .*$`), "wall:"},
	{regexp.MustCompile(`(?m)^layout [0-9a-f]{16}  params [0-9a-f]{16}  rtl [0-9a-f]{16}$`), "hashes"},
	{regexp.MustCompile(`(?m)^report: .*$`), "report:"},
}

func repeatable(text string) string {
	for _, m := range machineDependent {
		text = m.pattern.ReplaceAllString(text, m.with)
	}
	return text
}

func TestRepeatable(t *testing.T) {
	a := "layout 47fc2a228da722a1  params e49c74300c919d40  rtl 35754ef4c0392a98\n       4       10.600        5.314        5.286       0.38  ok          0.01         397053\nwall: 1.2 s\nreport: x\n"
	b := "layout 47fc2a228da722a1  params e49c74300c919d40  rtl 0000000000000000\n       4       10.600        5.314        5.286       0.38  ok         10.01              7\nwall: 9.9 s\nreport: y\n"
	require.Equal(t, repeatable(a), repeatable(b))
	require.NotEqual(t, repeatable(a), repeatable(strings.Replace(b, "5.314", "5.315", 1)))
	require.NotEqual(t, repeatable(a), repeatable(strings.Replace(b, "ok", "FAIL", 1)))
	gap := "       4       13.600        5.464        8.136       0.29  ok         3.000       0.01         397053\n"
	require.Equal(t, repeatable(gap), repeatable(strings.Replace(gap, "0.01         397053", "9.01         3", 1)))
	require.NotEqual(t, repeatable(gap), repeatable(strings.Replace(gap, "3.000", "3.001", 1)))
}

// The outputs that the pages show are what the tool prints. HVIA_UPDATE=1
// writes the pages anew.
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
	// From the last to the first, so that what is replaced moves none that
	// is still to come.
	for _, f := range slices.Backward(fences(page)) {
		if f.printed == "" {
			continue
		}
		shown++
		var got string
		switch words := strings.Fields(f.printed); words[0] {
		case "hvia":
			got = runHvia(t, words[1:]...)
		case "go":
			got = runExample(t, words)
		default:
			t.Fatalf("%s: %q is neither a command of the tool nor an example", name, f.printed)
		}
		if os.Getenv("HVIA_UPDATE") == "1" {
			page = page[:f.start] + got + page[f.start+len(f.body):]
			continue
		}
		require.Equal(t, repeatable(f.body), repeatable(got),
			"%s shows something else than '%s' prints: 'HVIA_UPDATE=1 go test ./tools/hvia -run TestDocsOutputs' writes it anew", name, f.printed)
	}
	require.Positive(t, shown, "%s shows no output", name)
	if os.Getenv("HVIA_UPDATE") == "1" {
		require.NoError(t, os.WriteFile(filepath.Join(checkout(t), name), []byte(page), 0o644))
	}
}

// The program in the README is a part of the example that is compiled and run.
func TestReadmeExample(t *testing.T) {
	program := readPage(t, "examples/rdmawrite/main.go")
	snippets := 0
	for _, f := range fences(readPage(t, "README.md")) {
		if f.info != "go" {
			continue
		}
		snippets++
		require.Contains(t, program, f.body, "README.md shows something else than examples/rdmawrite/main.go")
		for _, what := range []string{"OpenEndpoint", ".Dial(", ".Write(", ".Accept(", ".Poll("} {
			require.Contains(t, f.body, what)
		}
	}
	require.Equal(t, 1, snippets)
}
