// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/params"
)

func sampleAblations() *Report {
	foreseen := []float64{12.65, 13.49}
	r := New(params.Base, 1, Hashes{})
	r.Wall = Wall{Seconds: 1.5, BuildSeconds: 2}
	r.Ablations = &Ablations{Sizes: []int{4, 1400}, Variants: []Variant{
		{Name: "whole", Verified: true, Figures: []AblationFigure{{"short", "us", 12.8, 12.8, &foreseen[0]}, {"frame", "us", 60, 60, nil}}},
		{Name: "less", Verified: false, Fault: "byte 7", Straps: []string{"A", "B"}, Parameters: map[string]int64{"X": 3}, Figures: []AblationFigure{{"short", "us", 13.9, 12.8, &foreseen[1]}, {"frame", "us", 59.5, 60, nil}}},
	}}
	return r
}

func TestAblationText(t *testing.T) {
	var b strings.Builder
	require.NoError(t, sampleAblations().WriteText(&b))
	require.Contains(t, b.String(), `
whole                                  12.800     60.000
    foreseen                            12.65          -
less                                   13.900     59.500
    less the card's                    +1.100     -0.500
    foreseen less the card's            +0.84          -
  less: A, B, X=3

wall: 1.5 s; the build of the simulator took 2.0 s
wrong: less: byte 7
`)
	r := sample()
	r.Results.Ablations = sampleAblations().Ablations
	b.Reset()
	require.NoError(t, r.WriteText(&b))
	require.Contains(t, b.String(), "\nless  ")
	require.Equal(t, []string{"less: byte 7"}, r.Faults())
	require.Error(t, r.Failed())
}

func TestAblationsAreSaved(t *testing.T) {
	path, err := sampleAblations().Save(t.TempDir())
	require.NoError(t, err)
	got, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, sampleAblations(), got)
}
