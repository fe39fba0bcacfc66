// SPDX-License-Identifier: Apache-2.0

package house

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/sim/verilate"
)

func root(t *testing.T) string {
	t.Helper()
	dir, err := verilate.Root()
	require.NoError(t, err)
	return dir
}

// The tree breaks no rule.
func TestHouse(t *testing.T) {
	found, err := Check(root(t))
	require.NoError(t, err)
	for _, v := range found {
		t.Error(v)
	}
}

// Pages that name a version of Go name that of go.mod, which tools/setup.sh and
// `hvia doctor` read.
func TestPagesNameTheGoOfTheModule(t *testing.T) {
	read := func(name string) string {
		body, err := os.ReadFile(filepath.Join(root(t), name))
		require.NoError(t, err)
		return string(body)
	}
	module := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read("go.mod"))
	require.NotNil(t, module)
	for _, page := range []string{"README.md", "docs/tutorial/first-message.md"} {
		named := regexp.MustCompile(`Go (\d+\.[\d.]*\d)`).FindAllStringSubmatch(read(page), -1)
		require.NotEmpty(t, named, page)
		for _, n := range named {
			require.Equal(t, module[1], n[1], "%s: %s", page, n[0])
		}
	}
}

// blocksSection is the part of docs/explanation/paper.md that maps the paper's
// blocks to modules.
const blocksSection = "## Figures 2 and 5: blocks and modules\n"

// unmapped compares the modules that the page of the paper names with the
// existing ones, and returns the differences.
func unmapped(page string, modules []string) (gone, missing []string) {
	_, section, _ := strings.Cut(page, blocksSection)
	section, _, _ = strings.Cut(section, "\n## ")
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z][a-z0-9_]*)`").FindAllStringSubmatch(section, -1) {
		named[m[1]] = true
	}
	for _, m := range modules {
		if !named[m] {
			missing = append(missing, m)
		}
		delete(named, m)
	}
	return slices.Sorted(maps.Keys(named)), missing
}

// The paper's page names every module, and every module and file that the pages
// about the paper name exists.
func TestPaperBesideTheCode(t *testing.T) {
	gone, missing := unmapped(blocksSection+"| `a`, `b` of `x/y.cc` |\n\n## `c`\n", []string{"b", "d"})
	require.Equal(t, []string{"a"}, gone)
	require.Equal(t, []string{"d"}, missing)

	var modules []string
	err := filepath.WalkDir(filepath.Join(root(t), "rtl"), func(file string, _ fs.DirEntry, err error) error {
		name, ok := strings.CutSuffix(filepath.Base(file), ".sv")
		if dir := filepath.Base(filepath.Dir(file)); ok && dir != "gen" && dir != "checkers" && !strings.HasSuffix(name, "_pkg") {
			modules = append(modules, strings.TrimPrefix(name, "hvia_"))
		}
		return err
	})
	require.NoError(t, err)
	read := func(name string) string {
		body, err := os.ReadFile(filepath.Join(root(t), name))
		require.NoError(t, err)
		return string(body)
	}
	gone, missing = unmapped(read("docs/explanation/paper.md"), modules)
	require.Empty(t, gone, "docs/explanation/paper.md names modules that rtl/ does not have")
	require.Empty(t, missing, "docs/explanation/paper.md: say what block of the paper these modules of rtl/ belong to")

	inTree := regexp.MustCompile("`((?:att|bench|conformance|driver|examples|layout|params|rtl|sim|tools|vipl)/[a-z0-9_./-]*)`")
	for _, page := range []string{"docs/explanation/paper.md", "docs/explanation/sources.md", "docs/explanation/reproduction.md"} {
		for _, m := range inTree.FindAllStringSubmatch(read(page), -1) {
			_, err := os.Stat(filepath.Join(root(t), m[1]))
			require.NoError(t, err, "%s names %s", page, m[1])
		}
	}
}

// Each rule catches the texts that break it, and no others.
func TestRulesCatch(t *testing.T) {
	tests := []struct {
		name, file, body string
		want             string // "" for a file that is in order
	}{
		{"good Go", "driver/a.go", goHead + "import (\n\t\"log/slog\"\n\n\t\"golang.org/x/sys/unix\"\n\n\t\"hvia/att\"\n\t\"hvia/sim/bridge\"\n)\n", ""},
		{"no licence", "driver/a.go", "package p\n", "no line 'SPDX"},
		{"licence too late", "driver/a.go", "package p\n\n\n\n// " + spdx + "\n", "no line 'SPDX"},
		{"no licence in a script", "tools/x.sh", "#!/bin/sh\n", "no line 'SPDX"},
		{"generated without the line", "layout/x_gen.go", goHead, "standard 'Code generated"},
		{"not formatted", "driver/a.go", goHead + "var  x int\n", "not formatted"},
		{"broken Go", "driver/a.go", goHead + "var\n", "does not parse"},
		{"unsafe", "driver/a.go", goHead + "import \"unsafe\"\n", "imports unsafe"},
		{"unsafe in its place", "driver/a_unsafe.go", goHead + "import \"unsafe\"\n", ""},
		{"unsafe in a test", "driver/a_test.go", goHead + "import \"unsafe\"\n", ""},
		{"layout uses params", "layout/a.go", goHead + "import \"hvia/params\"\n", "layout/ may use"},
		{"att uses driver", "att/a.go", goHead + "import \"hvia/driver\"\n", "att/ may use"},
		{"driver uses vipl", "driver/a.go", goHead + "import \"hvia/vipl\"\n", "driver/ may use"},
		{"driver uses params", "driver/a.go", goHead + "import \"hvia/params\"\n", ""},
		{"att uses params", "att/a.go", goHead + "import \"hvia/params\"\n", "att/ may use"},
		{"driver uses the builder", "driver/a.go", goHead + "import \"hvia/sim/verilate\"\n", "driver/ may use"},
		{"vipl uses sim", "vipl/a.go", goHead + "import \"hvia/sim\"\n", "vipl/ may use"},
		{"vipl uses the model", "vipl/a.go", goHead + "import \"hvia/conformance/model\"\n", "vipl/ may use"},
		{"the model uses layout", "conformance/model/a.go", goHead + "import \"hvia/layout\"\n", ""},
		{"the model uses driver", "conformance/model/a.go", goHead + "import \"hvia/driver\"\n", "conformance/model/ may use"},
		{"the model uses vipl", "conformance/model/a.go", goHead + "import \"hvia/vipl\"\n", "conformance/model/ may use"},
		{"the model prints", "conformance/model/a.go", goHead + "import \"fmt\"\n\nfunc f() { fmt.Println() }\n", "prints nothing"},
		{"sim uses vipl", "sim/a.go", goHead + "import \"hvia/vipl\"\n", "sim/ may use"},
		{"name that only begins like a room", "params/a.go", goHead + "import \"hvia/layouts\"\n", "params/ may use"},
		{"a test may", "att/a_test.go", goHead + "import \"hvia/driver\"\n", ""},
		{"library uses cobra", "vipl/a.go", goHead + "import \"github.com/spf13/cobra\"\n", "may use the modules"},
		{"tools uses cobra", "tools/a/a.go", goHead + "import \"github.com/spf13/cobra\"\n", ""},
		{"log", "vipl/a.go", goHead + "import \"log\"\n", "use log/slog"},
		{"new room", "cellar/a.go", goHead + "import \"fmt\"\n", "not in the table of rooms"},
		{"library prints", "att/a.go", goHead + "import \"fmt\"\n\nfunc f() { fmt.Println() }\n", "prints nothing"},
		{"library prints, renamed", "att/a.go", goHead + "import f \"fmt\"\n\nfunc g() { f.Printf(\"\") }\n", "prints nothing"},
		{"library exits", "att/a.go", goHead + "import \"os\"\n\nfunc f() { os.Exit(1) }\n", "never exits"},
		{"library prints by builtin", "att/a.go", goHead + "func f() { println() }\n", "prints nothing"},
		{"tool prints", "tools/a.go", goHead + "import \"fmt\"\n\nfunc f() { fmt.Println() }\n", ""},
		{"library formats", "att/a.go", goHead + "import \"fmt\"\n\nvar s = fmt.Sprint()\n", ""},
		{"old rand", "att/a_test.go", goHead + "import \"math/rand\"\n", "math/rand/v2"},
		{"rand without seed", "att/a_test.go", goHead + "import \"math/rand/v2\"\n\nvar x = rand.IntN(3)\n", "has no seed"},
		{"rand with seed", "att/a_test.go", goHead + "import \"math/rand/v2\"\n\nvar x = rand.New(rand.NewPCG(1, 2))\n", ""},
		{"mark of unfinished work", "docs/a.md", "TO" + "DO later\n", "known gap"},
		{"path of a machine", "docs/a.md", "see /wo" + "rk/shared\n", "one machine"},

		{"good RTL", "rtl/a.sv", svHead + "module a #(\n    parameter int unsigned W = $clog2(8)\n) ();\n  b #(.W(W)) u_b ();  // #1 and $display in a comment\n  c #(\n    // first\n    .W(W)) u_c ();\nendmodule\n", ""},
		{"delay", "rtl/a.sv", svHead + "module a;\n  assign #1 x = y;\nendmodule\n", "a.sv:5: a delay"},
		{"delay with a name", "rtl/a.sv", svHead + "module a;\n  always #(Half) x = y;\nendmodule\n", "a delay"},
		{"cycle delay", "rtl/a.sv", svHead + "module a;\n  always ##1 x = y;\nendmodule\n", "a delay"},
		{"display", "rtl/a.sv", svHead + "module a;\n  initial $display(\"x\");\nendmodule\n", "$display"},
		{"file", "rtl/a.sv", svHead + "module a;\n  initial $readmemh(\"x\", m);\nendmodule\n", "$readmemh"},
		{"error in the design", "rtl/a.sv", svHead + "module a;\n  always_comb if (x) $error(\"x\");\nendmodule\n", "$error"},
		{"error in a checker", "rtl/a/checkers/a_checker.sv", svHead + "module a_checker;\n  always_comb if (x) $error(\"x\");\nendmodule\n", ""},
		{"random in a checker", "rtl/a/checkers/a_checker.sv", svHead + "module a_checker;\n  assign x = $urandom;\nendmodule\n", "$urandom"},
		{"DPI", "rtl/a.sv", svHead + "module a;\n  import \"DPI-C\" function void f();\nendmodule\n", "import"},
		{"simulation branch", "rtl/a.sv", svHead + "module a;\n`ifdef VERILATOR\n`endif\nendmodule\n", "no directives"},
		{"translate_off", "rtl/a.sv", svHead + "module a;\n// synthesis translate_off\nendmodule\n", "translate_off"},
		{"wait", "rtl/a.sv", svHead + "module a;\n  initial wait (x);\nendmodule\n", "wait is"},
		{"await is a name", "rtl/a.sv", svHead + "module a;\n  logic wait_q;\nendmodule\n", ""},
		{"no sentence", "rtl/a.sv", "// " + spdx + "\n\nmodule a;\nendmodule\n", "no sentence"},
		{"bench may delay", "sim/unit/a/a.sv", svHead + "module a;\n  assign #1 x = y;\nendmodule\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, v := range CheckFile(tt.file, []byte(tt.body)) {
				got = append(got, v.String())
			}
			if tt.want == "" {
				require.Empty(t, got)
				return
			}
			require.NotEmpty(t, got)
			require.Contains(t, strings.Join(got, "\n"), tt.want)
		})
	}
}

func TestLinksAreChecked(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "docs"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte("[a](docs/a.md#part) [b](https://example.org/x) [c](#here) [d](docs/gone.md)\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "docs", "a.md"), []byte("[up](../README.md)\n"), 0o644))
	found, err := Check(dir)
	require.NoError(t, err)
	require.Equal(t, []Violation{{"README.md", 1, "link to docs/gone.md, which is not there"}}, found)
}

// The documentation's table has every room, and each of its rows is a folder.
func TestRoomsAreDocumented(t *testing.T) {
	body, err := os.ReadFile(filepath.Join(root(t), "docs/explanation/rooms.md"))
	require.NoError(t, err)
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([\\w/]+|\\.)/`").FindAllStringSubmatch(string(body), -1) {
		rows[m[1]] = true
		require.DirExists(t, filepath.Join(root(t), m[1]))
	}
	for name := range Rooms {
		require.Contains(t, rows, name, "docs/explanation/rooms.md has no row for %s/", name)
	}
	entries, err := os.ReadDir(root(t))
	require.NoError(t, err)
	for _, e := range entries {
		switch name := e.Name(); {
		case !e.IsDir(), strings.HasPrefix(name, "."), name == "bin", name == "build", name == "out":
		default:
			require.Contains(t, rows, name, "docs/explanation/rooms.md has no row for %s/", name)
		}
	}
}

// Commands in the documentation exist.
func TestDocumentedTargetsExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root(t), "Makefile"))
	require.NoError(t, err)
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):`).FindAllStringSubmatch(string(makefile), -1) {
		targets[m[1]] = true
	}
	command := regexp.MustCompile("(?m)(?:^|`)make ([a-z][a-z-]*)")
	n := 0
	for _, page := range []string{"README.md", "CONTRIBUTING.md", "docs/tutorial/first-message.md"} {
		body, err := os.ReadFile(filepath.Join(root(t), page))
		require.NoError(t, err)
		for _, m := range command.FindAllStringSubmatch(string(body), -1) {
			require.True(t, targets[m[1]], "%s says 'make %s', which the Makefile does not have", page, m[1])
			n++
		}
	}
	require.NotZero(t, n)
}

// Continuous integration runs what anyone can run, and nothing else.
func TestCIRunsMakeTest(t *testing.T) {
	body, err := os.ReadFile(filepath.Join(root(t), ".ci/run"))
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(body), "\nexec make test\n"))
	info, err := os.Stat(filepath.Join(root(t), ".ci/run"))
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&0o111, "executable")
	out, err := exec.Command("make", "-C", root(t), "-n", "test").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, part := range []string{"tools/setup.sh", "go vet", "staticcheck", "rtllint", "go test -count=1"} {
		require.Contains(t, string(out), part)
	}
}
