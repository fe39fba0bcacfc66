// SPDX-License-Identifier: Apache-2.0

package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// Figures is the size of a checkout, without generated files.
type Figures struct {
	Languages map[string]*Size          // "Go", "Go tests", "SystemVerilog", "C++", "Markdown"
	Exported  map[string]int            // package folder: exported functions, methods and types
	Long      map[string]map[string]int // limit: file, function or module: its lines
}

// Size is the size of the files of one language.
type Size struct {
	Files, Code, Words int // lines of code; words of comments, or of pages
}

// The limits of a file, a function and a module, in lines.
const (
	GoFile   = "Go file"
	GoFunc   = "Go function"
	SVModule = "module"
)

var limits = map[string]int{GoFile: 700, GoFunc: 80, SVModule: 700}

var word = regexp.MustCompile(`\pL[\pL\d_'-]*`)

// Count measures every file of a checkout that is not generated.
func Count(root string) (Figures, error) {
	f := Figures{map[string]*Size{}, map[string]int{}, map[string]map[string]int{GoFile: {}, GoFunc: {}, SVModule: {}}}
	err := walk(root, func(name string, body []byte) error {
		language := languageOf(name)
		if language == "" || isGenerated(name) || generatedPage(name, string(body)) {
			return nil
		}
		s := f.Languages[language]
		if s == nil {
			s = &Size{}
			f.Languages[language] = s
		}
		s.Files++
		if language == "Markdown" {
			s.Words += len(word.FindAll(body, -1))
			return nil
		}
		code, literals, comments := separate(name, string(body))
		texts := strings.Split(literals, "\n")
		for i, l := range strings.Split(code, "\n") {
			if strings.TrimSpace(l+texts[i]) != "" {
				s.Code++
			}
		}
		s.Words += len(word.FindAllString(strings.ReplaceAll(comments, spdx, ""), -1))
		switch language {
		case "SystemVerilog":
			f.countModules(code)
		case "Go", "Go tests":
			return f.countGo(name, body)
		}
		return nil
	})
	if err != nil {
		return f, fmt.Errorf("count the lines under %s: %w", root, err)
	}
	return f, nil
}

// walk calls visit with every file of a checkout, by its name relative to the
// root, with slashes.
func walk(root string, visit func(name string, body []byte) error) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() && slices.Contains([]string{".git", ".venv", "bin", "build", "out"}, rel) {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() || rel == ".git" { // a file in a worktree
			return nil
		}
		body, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return visit(rel, body)
	})
}

func languageOf(name string) string {
	if strings.Contains(name, "/testdata/") {
		return ""
	}
	switch path.Ext(name) {
	case ".go":
		if strings.HasSuffix(name, "_test.go") {
			return "Go tests"
		}
		return "Go"
	case ".sv", ".svh":
		return "SystemVerilog"
	case ".cc", ".h", ".cpp", ".hpp":
		return "C++"
	case ".md":
		return "Markdown"
	}
	return ""
}

func generatedPage(name, body string) bool {
	return path.Ext(name) == ".md" && strings.Contains(body[:min(len(body), 300)], "DO NOT EDIT")
}

func (f Figures) countGo(name string, body []byte) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, body, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	f.long(GoFile, path.Base(name), strings.Count(string(body), "\n"))
	test := strings.HasSuffix(name, "_test.go")
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			f.long(GoFunc, funcName(d), fset.Position(d.End()).Line-fset.Position(d.Pos()).Line+1)
			if !test && ast.IsExported(d.Name.Name) && (d.Recv == nil || ast.IsExported(receiver(d))) {
				f.Exported[path.Dir(name)]++
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if t, ok := s.(*ast.TypeSpec); ok && !test && t.Name.IsExported() {
					f.Exported[path.Dir(name)]++
				}
			}
		}
	}
	return nil
}

func receiver(d *ast.FuncDecl) string {
	x := d.Recv.List[0].Type
	for {
		switch t := x.(type) {
		case *ast.StarExpr:
			x = t.X
		case *ast.IndexExpr:
			x = t.X
		case *ast.IndexListExpr:
			x = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}

func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	return receiver(d) + "." + d.Name.Name
}

var module = regexp.MustCompile(`(?ms)^module\s+(?:automatic\s+)?(\w+).*?^endmodule`)

func (f Figures) countModules(code string) {
	for _, m := range module.FindAllStringSubmatch(code, -1) {
		f.long(SVModule, strings.TrimPrefix(m[1], "hvia_"), strings.Count(m[0], "\n")+1)
	}
}

func (f Figures) long(kind, name string, lines int) {
	if lines > limits[kind] {
		f.Long[kind][name] = max(lines, f.Long[kind][name])
	}
}

// separate splits a file into code, literals and comments. Each result is the
// file with everything else blank, so lines keep their numbers.
func separate(name, s string) (code, literals, comments string) {
	goFile := path.Ext(name) == ".go"
	var parts [3][]byte
	for n := range parts {
		parts[n] = bytes.Repeat([]byte(" "), len(s))
		for i := range len(s) {
			if s[i] == '\n' {
				parts[n][i] = '\n'
			}
		}
	}
	for i := 0; i < len(s); {
		var part, end int
		switch {
		case strings.HasPrefix(s[i:], "//"):
			part, end = 2, after(s, i, "\n")
		case strings.HasPrefix(s[i:], "/*"):
			part, end = 2, after(s, i+2, "*/")
		default:
			if end = endOfLiteral(s, i, goFile); end > i+1 {
				part = 1
			}
		}
		copy(parts[part][i:end], s[i:end])
		i = end
	}
	return string(parts[0]), string(parts[1]), string(parts[2])
}

var character = regexp.MustCompile(`^'(\\.[^']*|[^\\'])'`)

// endOfLiteral returns the end of the string or character that starts at i, or
// i+1 if none does.
func endOfLiteral(s string, i int, goFile bool) int {
	switch {
	case s[i] == '`' && goFile:
		return after(s, i+1, "`")
	case strings.HasPrefix(s[i:], `R"(`):
		return after(s, i, `)"`)
	case s[i] == '"':
		for j := i + 1; j < len(s); j++ {
			if s[j] == '\\' {
				j++
			} else if s[j] == '"' {
				return j + 1
			}
		}
		return len(s)
	case s[i] == '\'':
		return i + max(1, len(character.FindString(s[i:min(len(s), i+12)])))
	}
	return i + 1
}

// after returns the offset behind the first mark in s at or after i.
func after(s string, i int, mark string) int {
	if n := strings.Index(s[min(i, len(s)):], mark); n >= 0 {
		return i + n + len(mark)
	}
	return len(s)
}

// String returns the figures as tables.
func (f Figures) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "language\tfiles\tlines of code\twords of comments\t")
	for _, l := range slices.Sorted(maps.Keys(f.Languages)) {
		s := f.Languages[l]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t\n", l, s.Files, s.Code, s.Words)
	}
	_ = w.Flush()
	fmt.Fprintln(&b, "\nExported functions, methods and types:")
	for _, p := range slices.Sorted(maps.Keys(f.Exported)) {
		fmt.Fprintf(&b, "  %s %d\n", p, f.Exported[p])
	}
	for _, kind := range []string{GoFile, GoFunc, SVModule} {
		fmt.Fprintf(&b, "\nLonger than %d lines, %s: %d\n", limits[kind], kind, len(f.Long[kind]))
		for _, n := range slices.Sorted(maps.Keys(f.Long[kind])) {
			fmt.Fprintf(&b, "  %s %d\n", n, f.Long[kind][n])
		}
	}
	return b.String()
}
