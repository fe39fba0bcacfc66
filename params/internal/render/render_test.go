// SPDX-License-Identifier: Apache-2.0

package render

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/params"
)

// The committed files are exactly what the table gives.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	files, err := Files(params.Table(), params.Profiles)
	require.NoError(t, err)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", "..", "..", name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is not what the table gives: run go generate ./params", name)
	}
}

func TestCheckRefuses(t *testing.T) {
	good := params.Param{Name: "A", Value: 1, Unit: "ps", Tag: params.Sourced, Source: "data sheet", Doc: "a"}
	change := func(f func(*params.Param)) []params.Param { p := good; f(&p); return []params.Param{p} }
	tests := []struct {
		name  string
		table []params.Param
		want  string
	}{
		{"no source", change(func(p *params.Param) { p.Source = "" }), "lacks its unit, source"},
		{"no unit", change(func(p *params.Param) { p.Unit = "" }), "lacks its unit"},
		{"blank source", change(func(p *params.Param) { p.Source = " " }), "lacks its unit, source"},
		{"blank unit", change(func(p *params.Param) { p.Unit = "\t" }), "lacks its unit"},
		{"no meaning", change(func(p *params.Param) { p.Doc = "" }), "lacks its unit, source or meaning"},
		{"blank meaning", change(func(p *params.Param) { p.Doc = " " }), "lacks its unit, source or meaning"},
		{"no name", change(func(p *params.Param) { p.Name = "" }), "has no name"},
		{"no tag", change(func(p *params.Param) { p.Tag = "" }), "not on the list"},
		{"tag of a calibrated one without its target", []params.Param{{Name: "HostPostTime", Unit: "ps", Tag: "CALIBRATED", Source: "x", Doc: "x"}}, "not on the list"},
		{"unknown tag", change(func(p *params.Param) { p.Tag = "FITTED" }), "not on the list"},
		{"calibrated tag that is not on the list", change(func(p *params.Param) { p.Tag = params.Calibrated("T1") }), "not on the list"},
		{"calibrated to another target", []params.Param{{Name: "HostPostTime", Unit: "ps", Tag: params.Calibrated("T1"), Source: "x", Doc: "x"}}, "not on the list"},
		{"a prior of what was not fitted", change(func(p *params.Param) { p.Prior = 4 }), "A has a value before the fit"},
		{"no range", change(func(p *params.Param) { p.Class = params.Model }), "A is 1, its range 0 to 0"},
		{"below its range", change(func(p *params.Param) { p.Class, p.Least, p.Most = params.Host, 2, 3 }), "A is 1, its range 2 to 3"},
		{"a range that begins below 0", change(func(p *params.Param) { p.Class, p.Least, p.Most = params.Host, -1, 3 }), "its range -1 to 3"},
		{"a range of what no run replaces", change(func(p *params.Param) { p.Most = 3 }), "A has a range"},
		{"twice", []params.Param{good, good}, "appears twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.ErrorContains(t, Check(tt.table, nil), tt.want)
		})
	}
	require.NoError(t, Check([]params.Param{good}, nil))
	require.NoError(t, Check([]params.Param{{Name: "HostPostTime", Unit: "ps", Tag: params.CalibratedTargets["HostPostTime"], Source: "x", Doc: "x"}}, nil))
	base := params.Profile{Name: params.Base, Doc: "base"}
	for _, tt := range []struct {
		profiles []params.Profile
		want     string
	}{
		{[]params.Profile{base, {Name: "p", Doc: "p", Replaces: map[string]int64{"B": 1}}}, "does not exist"},
		{[]params.Profile{base, base}, "appears twice"},
		{[]params.Profile{base, {Name: "p"}}, "lacks its name or meaning"},
		{[]params.Profile{{Name: "p", Doc: "p"}}, "the first profile"},
		{[]params.Profile{{Name: params.Base, Doc: "base", Replaces: map[string]int64{"A": 1}}}, "the first profile"},
	} {
		require.ErrorContains(t, Check([]params.Param{good}, tt.profiles), tt.want)
	}
	require.NoError(t, Check([]params.Param{good}, []params.Profile{base, {Name: "p", Doc: "p", Replaces: map[string]int64{"A": 2}}}))
}
