// SPDX-License-Identifier: Apache-2.0

package house

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	goHead = "// SPDX-License-Identifier: Apache-2.0\n\npackage p\n\n"
	svHead = "// SPDX-License-Identifier: Apache-2.0\n\n// What it is for.\n"
)

func TestCount(t *testing.T) {
	dir := t.TempDir()
	for name, body := range map[string]string{
		"a/a.go": goHead + "// F is two words\n// and two more.\nfunc F() {\n\n\tprintln(\"// no comment\", '\"', `\n/*`)\n}\n\n" +
			"type T[K any] int\n\nfunc (t *T[K]) M() {}\nfunc (t T[K]) m() {}\nfunc f() {}\n",
		"a/a_test.go": goHead + "func F() {" + strings.Repeat("\n", 80) + "}\n",
		"a/a_gen.go":  goHead + "func G() {}\n",
		"rtl/m.sv":    svHead + "module hvia_m #(parameter int W = 8'hff);" + strings.Repeat(" // x\n", 701) + "endmodule\n",
		"sim/a.cc":    "int a = 1'000; /* one\ntwo */ char b = '\\''; // three\n",
		"docs/a.md":   "# Two words\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644))
	}
	f, err := Count(dir)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"a": 3}, f.Exported)
	require.Equal(t, map[string]map[string]int{GoFile: {}, GoFunc: {"F": 81}, SVModule: {"m": 702}}, f.Long)
	sizes := map[string]Size{}
	for l, s := range f.Languages {
		sizes[l] = *s
	}
	require.Equal(t, map[string]Size{
		"Go":       {1, 9, 7},
		"Go tests": {1, 3, 0},
		"C++":      {1, 2, 3}, "Markdown": {1, 0, 2},
		"SystemVerilog": {1, 2, 705},
	}, sizes)
	require.Contains(t, f.String(), "Longer than 80 lines, Go function: 1\n  F 81\n")
}
