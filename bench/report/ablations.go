// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// faults returns a sentence for each variant with wrong bytes.
func (a *Ablations) faults() []string {
	var faults []string
	if a == nil {
		return nil
	}
	for _, v := range a.Variants {
		if !v.Verified {
			faults = append(faults, fmt.Sprintf("%s: %s", v.Name, v.Fault))
		}
	}
	return faults
}

// writeText writes two lines for each variant: what was measured, and what the
// model expects, if anything.
func (a *Ablations) writeText(b *strings.Builder) {
	if a == nil || len(a.Variants) == 0 {
		return
	}
	b.WriteString("\nVariants of the card; \"less the card's\" is the difference from the card as it is, and below that what the model of the paper's card foresaw:\n")
	fmt.Fprintf(b, "%-34s %10s %10s %10s %10s %10s %10s\n", "", "4 B", "1,400 B", "64 KiB", "slope", "gap 4 B", "gap 1,400")
	fmt.Fprintf(b, "%-34s %10s %10s %10s %10s %10s %10s\n", "", "us", "us", "MB/s", "MB/s", "us", "us")
	foreseenBase := map[string]*float64{}
	for i, v := range a.Variants {
		line := func(head string, cell func(f AblationFigure) string) {
			row := fmt.Sprintf("%-34s", head)
			for _, f := range v.Figures {
				row += fmt.Sprintf(" %10s", cell(f))
			}
			b.WriteString(strings.TrimRight(row, " ") + "\n")
		}
		line(v.Name, func(f AblationFigure) string { return fmt.Sprintf("%.3f", f.Value) })
		if i > 0 {
			line("    less the card's", func(f AblationFigure) string { return fmt.Sprintf("%+.3f", f.Value-f.Base) })
		}
		if !slices.ContainsFunc(v.Figures, func(f AblationFigure) bool { return f.Foreseen != nil }) {
			continue
		}
		if i == 0 {
			for _, f := range v.Figures {
				foreseenBase[f.Name] = f.Foreseen
			}
			line("    foreseen", func(f AblationFigure) string { return Number(f.Foreseen) })
			continue
		}
		line("    foreseen less the card's", func(f AblationFigure) string {
			if f.Foreseen == nil || foreseenBase[f.Name] == nil {
				return "-"
			}
			return fmt.Sprintf("%+.2f", *f.Foreseen-*foreseenBase[f.Name])
		})
	}
	for _, v := range a.Variants {
		if len(v.Straps)+len(v.Parameters) == 0 {
			continue
		}
		how := slices.Clone(v.Straps)
		for _, name := range slices.Sorted(maps.Keys(v.Parameters)) {
			how = append(how, fmt.Sprintf("%s=%d", name, v.Parameters[name]))
		}
		fmt.Fprintf(b, "  %s: %s\n", v.Name, strings.Join(how, ", "))
	}
}

// Ablations are figures of the card with parts of its design switched off; the
// unchanged card comes first.
type Ablations struct {
	Sizes    []int     `json:"sizes"`
	Variants []Variant `json:"variants"`
}

// Variant is one of the cards.
type Variant struct {
	Name       string           `json:"name"`
	Straps     []string         `json:"straps,omitempty"`     // that are set
	Parameters map[string]int64 `json:"parameters,omitempty"` // that are replaced
	Figures    []AblationFigure `json:"figures"`
	Verified   bool             `json:"verified"`
	Fault      string           `json:"fault,omitempty"`
}

// AblationFigure is one number of a variant. Foreseen is the value of the model
// in docs/explanation/reproduction.md, nil if it has none.
type AblationFigure struct {
	Name     string   `json:"name"`
	Unit     string   `json:"unit"`
	Value    float64  `json:"value"`
	Base     float64  `json:"base"` // of the unchanged card
	Foreseen *float64 `json:"foreseen"`
}
