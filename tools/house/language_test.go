// SPDX-License-Identifier: Apache-2.0

package house

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLanguage(t *testing.T) {
	tests := []struct {
		name, file, body string
		want             string // part of the violation, "" if it breaks nothing
	}{
		{"comment", "a.go", "// The frame is re" + "fused.\n", `a.go:1: "re` + `fused": the glossary says NAK`},
		{"over two lines", "a.go", "// It looks in\n// va" + "in.\n", `"in va` + `in"`},
		{"message", "a.go", "var x = \"re" + "fused\"\n", "NAK"},
		{"identifier", "a.go", "var so, many = 1, ref" + "used\n", ""},
		{"message in C++", "a.cc", "throw X(\"so m" + "any\");\n", "the given number"},
		{"SystemVerilog", "a.sv", "// own mes" + "sage\n", "request"},
		{"page", "a.md", "A judg" + "e.\n", "oracle"},
		{"quotation", "a.md", "It says \"so m" + "any\".\n", ""},
		{"code span", "a.md", "The pin `so m" + "any`.\n", ""},
		{"fence", "a.md", "```\nso m" + "any\n```\n", ""},
		{"link target", "a.md", "[a](so/m/be" + "nches)\n", ""},
		{"folder", "a.md", "In sim/be" + "nches/x.\n", ""},
		{"generated", "a_gen.go", "// so m" + "any\n", ""},
		{"wide comment", "a.go", "\t// " + strings.Repeat("x", 74) + "\n", "81 columns, at most 80"},
		{"wide code", "a.go", "var x = " + strings.Repeat("x", 80) + "\n", ""},
		{"wide RTL", "a.sv", strings.Repeat("x", 101) + "\n", "at most 100"},
		{"wide page", "a.md", strings.Repeat("x", 101) + "\n", "at most 100"},
		{"wide table", "a.md", "|" + strings.Repeat("x", 101) + "|\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, v := range CheckText(tt.file, []byte(tt.body)) {
				got = append(got, v.String())
			}
			if tt.want == "" {
				require.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			require.Contains(t, got[0], tt.want)
		})
	}
}
