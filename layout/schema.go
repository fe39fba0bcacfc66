// SPDX-License-Identifier: Apache-2.0

// Package layout is the one source of every layout that two parts of HVIA
// share: PCI configuration space, card registers, doorbell pages, descriptors,
// translation table entries, command blocks, frame headers, trace events and
// the pages of the bridge. Each is a table of plain Go values in this package;
// from the tables come the SystemVerilog package rtl/gen/hvia_pkg.sv, the C++
// header sim/gen/hvia_layout.h, the Go accessors in accessors_gen.go and the
// reference page docs/reference/layout.md. No offset is typed twice.
//
// Names are written once, in Go's spelling, and used unchanged in all three
// languages (C++ prefixes constants with k).
package layout

//go:generate go run ./internal/cmd/layoutgen

// Endian is the byte order of a structure.
type Endian int

// Byte orders.
const (
	Little Endian = iota // host memory, registers, SDRAM words
	Big                  // wire
)

// Struct is a fixed layout of bytes in memory, on the wire or in SDRAM.
type Struct struct {
	Name   string
	Doc    string `json:"-"`
	Endian Endian
	Size   int // bytes
	Fields []Field
}

// Field is an unsigned integer (1, 2, 4 or 8 bytes) or a byte array (any
// other width, or Bytes set) inside a Struct.
type Field struct {
	Name   string
	Offset int // bytes from the start of the structure
	Width  int // bytes
	Bytes  bool
	Doc    string `json:"-"`
	Bits   []Bits // for integers: the named bit ranges inside
}

// Bits is a named range of bits, inside a field or a register.
type Bits struct {
	Name  string
	Lo    int
	Width int
	Doc   string `json:"-"`
}

// Enum is a closed set of codes.
type Enum struct {
	Name   string // Go type and prefix of the constants
	Doc    string `json:"-"`
	Width  int    // bits
	Values []Value
}

// Value is one code of an Enum.
type Value struct {
	Name  string
	Value uint64
	Doc   string `json:"-"`
}

// Constant is a named number of a layout: a size, a count, a magic.
type Constant struct {
	Name  string
	Value uint64
	Width int    // bits in SystemVerilog
	Doc   string `json:"-"`
}

// Access says what software may do with a register.
type Access string

// Kinds of access.
const (
	ReadOnly   Access = "RO"
	ReadWrite  Access = "RW"
	WriteOnly  Access = "WO"
	WriteClear Access = "W1C" // write 1 to clear
	ReadClear  Access = "RC"  // a read removes what it returns
)

// Register is one 32-bit register.
type Register struct {
	Name   string
	Offset int    // bytes from the start of the block
	Access Access `json:"-"`
	Reset  uint32
	Doc    string `json:"-"`
	Bits   []Bits
}

// RegisterBlock is a set of registers behind one base address.
type RegisterBlock struct {
	Name      string // prefix of the constants
	Doc       string `json:"-"`
	Size      int    // bytes
	Registers []Register
}

// Section groups tables on one page of the reference.
type Section struct {
	Title     string `json:"-"`
	Doc       string `json:"-"`
	Constants []Constant
	Enums     []Enum
	Structs   []Struct
	Blocks    []RegisterBlock
}

// Sections returns every table, in the order of the reference.
func Sections() []Section {
	return sections
}
