// SPDX-License-Identifier: Apache-2.0

package render

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
)

// The committed files are exactly what the tables give.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	files, err := Files(layout.Sections())
	require.NoError(t, err)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", "..", "..", name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is not what layout's tables give: run go generate ./layout", name)
	}
}

func TestCheckRefusesBrokenTables(t *testing.T) {
	field := func(name string, off, width int) layout.Field {
		return layout.Field{Name: name, Offset: off, Width: width}
	}
	tests := []struct {
		name string
		s    layout.Section
		want string
	}{
		{"overlapping fields", layout.Section{Structs: []layout.Struct{{Name: "S", Size: 8, Fields: []layout.Field{field("A", 0, 4), field("B", 2, 4)}}}}, "overlap at byte 2"},
		{"field beyond the end", layout.Section{Structs: []layout.Struct{{Name: "S", Size: 4, Fields: []layout.Field{field("A", 2, 4)}}}}, "reaches byte 4 of 4"},
		{"one name twice", layout.Section{Structs: []layout.Struct{{Name: "S", Size: 4}, {Name: "S", Size: 4}}}, "is used by"},
		{"bits outside", layout.Section{Structs: []layout.Struct{{Name: "S", Size: 4, Fields: []layout.Field{{Name: "A", Width: 2, Bits: []layout.Bits{{Name: "X", Lo: 12, Width: 5}}}}}}}, "bits X"},
		{"bits overlap", layout.Section{Blocks: []layout.RegisterBlock{{Name: "R", Size: 4, Registers: []layout.Register{{Name: "A", Bits: []layout.Bits{{Name: "X", Lo: 0, Width: 2}, {Name: "Y", Lo: 1, Width: 1}}}}}}}, "overlap others"},
		{"register offset twice", layout.Section{Blocks: []layout.RegisterBlock{{Name: "R", Size: 8, Registers: []layout.Register{{Name: "A"}, {Name: "B"}}}}}, "share offset"},
		{"constant too wide", layout.Section{Constants: []layout.Constant{{Name: "C", Value: 16, Width: 4}}}, "does not fit"},
		{"enum value twice", layout.Section{Enums: []layout.Enum{{Name: "E", Width: 2, Values: []layout.Value{{Name: "A", Value: 1}, {Name: "B", Value: 1}}}}}, "share the value"},
		{"enum value too wide", layout.Section{Enums: []layout.Enum{{Name: "E", Width: 2, Values: []layout.Value{{Name: "A", Value: 4}}}}}, "does not fit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.ErrorContains(t, Check([]layout.Section{tt.s}), tt.want)
		})
	}
}

// The hash that card, simulator and programs compare covers exactly what they
// must agree on.
func TestHashCoversNamesOffsetsWidthsAndValues(t *testing.T) {
	table := func(change func(*layout.Section)) uint64 {
		s := layout.Section{
			Title:     "T",
			Constants: []layout.Constant{{Name: "C", Value: 1, Width: 4, Doc: "a"}},
			Enums:     []layout.Enum{{Name: "E", Width: 2, Values: []layout.Value{{Name: "A", Value: 1}}}},
			Structs:   []layout.Struct{{Name: "S", Size: 8, Fields: []layout.Field{{Name: "F", Width: 4, Bits: []layout.Bits{{Name: "B", Width: 1}}}}}},
			Blocks:    []layout.RegisterBlock{{Name: "R", Size: 8, Registers: []layout.Register{{Name: "A", Access: layout.ReadOnly}}}},
		}
		change(&s)
		return hashOf([]layout.Section{s})
	}
	same := table(func(*layout.Section) {})
	for name, change := range map[string]func(*layout.Section){
		"constant's value": func(s *layout.Section) { s.Constants[0].Value = 2 },
		"constant's name":  func(s *layout.Section) { s.Constants[0].Name = "D" },
		"enum's value":     func(s *layout.Section) { s.Enums[0].Values[0].Value = 2 },
		"struct's size":    func(s *layout.Section) { s.Structs[0].Size = 16 },
		"byte order":       func(s *layout.Section) { s.Structs[0].Endian = layout.Big },
		"field's offset":   func(s *layout.Section) { s.Structs[0].Fields[0].Offset = 4 },
		"field's width":    func(s *layout.Section) { s.Structs[0].Fields[0].Width = 2 },
		"bit's position":   func(s *layout.Section) { s.Structs[0].Fields[0].Bits[0].Lo = 1 },
		"register offset":  func(s *layout.Section) { s.Blocks[0].Registers[0].Offset = 4 },
		"register's reset": func(s *layout.Section) { s.Blocks[0].Registers[0].Reset = 1 },
	} {
		require.NotEqual(t, same, table(change), name)
	}
	require.Equal(t, same, table(func(s *layout.Section) {
		s.Title, s.Doc = "other", "other"
		s.Constants[0].Doc, s.Enums[0].Doc, s.Enums[0].Values[0].Doc = "b", "b", "b"
		s.Structs[0].Doc, s.Structs[0].Fields[0].Doc, s.Structs[0].Fields[0].Bits[0].Doc = "b", "b", "b"
		s.Blocks[0].Doc, s.Blocks[0].Registers[0].Doc = "b", "b"
	}))
}
