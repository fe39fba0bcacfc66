// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"

	"hvia/sim/verilate"
)

// switched returns the changed and new files of one build with all bugs, and
// the bugs that it leaves out. A function with bugs becomes one that calls the
// variant of the enabled bug, whose number, from 1, is the value of
// [verilate.FaultVariable]. So a bug must lie in functions that differ
// only in their bodies. The files have paths as in the bugs.
func switched(files map[string]string, bugs []Bug) (map[string]string, []int, error) {
	result, apart := map[string]string{}, []int(nil)
	for name, text := range files {
		file, err := parse(text)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		variants := map[int][]int{} // bugs by declaration
		added := ""
		for i, b := range bugs {
			if b[1] != name {
				continue
			}
			wrong := strings.Replace(text, b[2], b[3], 1)
			other, err := parse(wrong)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", b[0], err)
			}
			changed := differences(file, other, text, wrong)
			if changed == nil {
				apart = append(apart, i)
			}
			for _, d := range changed {
				variants[d] = append(variants[d], i+1)
				added += renamed(other.Decls[d].(*ast.FuncDecl), wrong, i+1)
			}
		}
		for d := len(file.Decls) - 1; d >= 0; d-- {
			if len(variants[d]) > 0 {
				f := file.Decls[d].(*ast.FuncDecl)
				added += dispatcher(f, text, variants[d])
				text = text[:f.Pos()-1] + renamed(f, text, 0) + text[f.End()-1:]
			}
		}
		result[name] = text + added
		result[path.Join(path.Dir(name), "injected_bug.go")] = fmt.Sprintf(
			"package %s\n\nimport (\"os\"; \"strconv\")\n\nvar injectedBug, _ = strconv.Atoi(os.Getenv(%q))\n", file.Name.Name, verilate.FaultVariable)
	}
	return result, apart, nil
}

func parse(text string) (*ast.File, error) {
	return parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
}

// source returns a node's text. The file set of parse has one file, so offsets
// are positions minus 1.
func source(n ast.Node, text string) string { return text[n.Pos()-1 : n.End()-1] }

// differences returns the declarations in which two files differ, or nil unless
// all are functions that can be switched.
func differences(a, b *ast.File, left, right string) (changed []int) {
	if len(a.Decls) != len(b.Decls) {
		return nil
	}
	for i := range a.Decls {
		if source(a.Decls[i], left) == source(b.Decls[i], right) {
			continue
		}
		f, isFunction := a.Decls[i].(*ast.FuncDecl)
		g, same := b.Decls[i].(*ast.FuncDecl)
		// recover has an effect only in the deferred function itself.
		if !isFunction || !same || f.Type.TypeParams != nil || strings.Contains(source(f, left), "recover()") ||
			left[f.Pos()-1:f.Body.Pos()-1] != right[g.Pos()-1:g.Body.Pos()-1] {
			return nil
		}
		changed = append(changed, i)
	}
	return changed
}

func variantName(f *ast.FuncDecl, bug int) string {
	return fmt.Sprintf("%s__%d", f.Name.Name, bug)
}

// renamed returns a function under the name of a variant; 0 has no bug.
func renamed(f *ast.FuncDecl, text string, bug int) string {
	return text[f.Pos()-1:f.Name.Pos()-1] + variantName(f, bug) + text[f.Name.End()-1:f.End()-1] + "\n\n"
}

// dispatcher returns the function that calls a variant.
func dispatcher(f *ast.FuncDecl, text string, bugs []int) string {
	var parameters, arguments []string
	for _, field := range f.Type.Params.List {
		for range max(1, len(field.Names)) {
			name := fmt.Sprintf("argument%d", len(arguments))
			parameters = append(parameters, name+" "+source(field.Type, text))
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				name += "..."
			}
			arguments = append(arguments, name)
		}
	}
	receiver, prefix, results, give := "", "", "", ""
	if f.Recv != nil {
		receiver, prefix = "(receiver "+source(f.Recv.List[0].Type, text)+") ", "receiver."
	}
	if f.Type.Results != nil {
		results, give = source(f.Type.Results, text)+" ", "return "
	}
	out := fmt.Sprintf("func %s%s(%s) %s{\n", receiver, f.Name.Name, strings.Join(parameters, ", "), results)
	for _, bug := range append(bugs, 0) {
		call := fmt.Sprintf("%s%s%s(%s)\n", give, prefix, variantName(f, bug), strings.Join(arguments, ", "))
		switch {
		case bug == 0:
			out += call
		case give == "":
			out += fmt.Sprintf("if injectedBug == %d { %sreturn }\n", bug, call)
		default:
			out += fmt.Sprintf("if injectedBug == %d { %s}\n", bug, call)
		}
	}
	return out + "}\n\n"
}
