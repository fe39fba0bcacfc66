// SPDX-License-Identifier: Apache-2.0

package layout

var attSection = Section{
	Title: "Address translation table",
	Doc: "Two levels in the card's SDRAM. A memory handle names a level-1 entry and the generation that must be found there. The level-1 entry describes a region; its level-2 entries are consecutive dwords, one per page. " +
		"Errors are checked in this order: handle (index at or above the limit, entry not valid, other generation), backend (the entry contradicts itself), tag, access right, bounds.",
	Constants: []Constant{
		{"AttSdramBytes", 0x4000000, 32, "SDRAM on the card"},
		{"AttLevel1Base", 0, 32, "SDRAM byte address of level-1 entry 0"},
		{"AttLevel1Stride", 32, 32, "bytes from one level-1 entry to the next"},
		{"AttLevel1Count", 0x100000, 32, "level-1 entries that the area holds; also the largest level-1 limit"},
		{"AttLevel2Base", 0x2000000, 32, "SDRAM byte address of the level-2 area"},
		{"AttLevel2Count", 0x800000, 32, "level-2 entries that the area holds"},
		{"AttPageBytes", 4096, 32, "bytes of a page"},
	},
	Structs: []Struct{
		{Name: "AttLevel1", Doc: "A level-1 entry: one region.", Size: 24, Fields: []Field{
			{Name: "StartAddress", Offset: 0, Width: 8, Doc: "virtual address of the region's first byte"},
			{Name: "Level2Address", Offset: 8, Width: 4, Doc: "SDRAM byte address of the first level-2 entry, dword aligned"},
			{Name: "PageCount", Offset: 12, Width: 4, Doc: "level-2 entries, at least 1"},
			{Name: "FirstBytes", Offset: 16, Width: 2, Doc: "bytes of the region in its first page, 1 to 4096"},
			{Name: "LastBytes", Offset: 18, Width: 2, Doc: "bytes of the region in its last page, 1 to 4096; equal to FirstBytes if there is one page"},
			{Name: "Attributes", Offset: 20, Width: 4, Doc: "valid bit, rights, generation, tag", Bits: []Bits{
				{"Valid", 0, 1, "the entry describes a region"},
				{"RDMAWrite", 1, 1, "remote writes are allowed"},
				{"RDMARead", 2, 1, "remote reads are allowed"},
				{"Generation", 4, 12, "must equal the handle's generation"},
				{"Tag", 16, 16, "protection tag, must equal the VI's"},
			}},
		}},
		{Name: "AttLevel2", Doc: "A level-2 entry: one page.", Size: 4, Fields: []Field{
			{Name: "Page", Offset: 0, Width: 4, Doc: "physical address; a region's first entry holds the address of the region's first byte, the others are page aligned"},
		}},
		{Name: "AttHandle", Doc: "A memory handle. The value 0 is never used.", Size: 4, Fields: []Field{
			{Name: "Value", Offset: 0, Width: 4, Doc: "index and generation", Bits: []Bits{
				{"Index", 0, 20, "level-1 index"},
				{"Generation", 20, 12, "counts the uses of that index, modulo 4096"},
			}},
		}},
	},
	Enums: []Enum{
		{Name: "AttAccess", Doc: "The right that an access requires.", Width: 2, Values: []Value{
			{"Local", 0, "by a descriptor of the owner: no right required"},
			{"RemoteWrite", 1, "by an incoming RDMA write: RDMAWrite"},
			{"RemoteRead", 2, "by an incoming RDMA read: RDMARead"},
		}},
		{Name: "AttClient", Doc: "Clients of the translation ports; the highest number is served first.", Width: 2, Values: []Value{
			{"Descriptor", 0, "descriptor fetch, which keeps one level-1 entry per VI"},
			{"Transmit", 1, "reads of payload"},
			{"Receive", 2, "writes of payload"},
		}},
		{Name: "AttError", Doc: "How a translation ended.", Width: 3, Values: []Value{
			{"None", 0, "translated"},
			{"Handle", 1, "no region has this handle"},
			{"Bounds", 2, "a byte of the access lies outside the region"},
			{"Tag", 3, "the region has another protection tag"},
			{"Access", 4, "the region lacks the right"},
			{"Backend", 5, "the table's memory failed, or the entry contradicts itself"},
		}},
		{Name: "AttUpdate", Doc: "Operations of the table's update port.", Width: 2, Values: []Value{
			{"Write", 0, "store dwords at an SDRAM byte address"},
			{"Invalidate", 1, "clear a handle's valid bit and every cached copy"},
			{"Limit", 2, "drop all entries, then accept handles below a new level-1 limit"},
		}},
	},
}
