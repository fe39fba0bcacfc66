// SPDX-License-Identifier: Apache-2.0

package layout

var pciSection = Section{
	Title: "PCI configuration space",
	Doc:   "Type 0 header, one function. Two 32-bit, non-prefetchable memory windows.",
	Constants: []Constant{
		{"PciVendorID", 0x5648, 16, "the characters HV; not an assignment of the PCI-SIG, which a board would need"},
		{"PciDeviceID", 0x4547, 16, "the characters GE"},
		{"PciRevisionID", 0x01, 8, "revision of the card"},
		{"PciClassCode", 0x020000, 24, "network controller, Ethernet"},
		{"PciSubsystemVendorID", 0x5648, 16, "as PciVendorID"},
		{"PciSubsystemID", 0x0001, 16, "the card of the 2004 paper"},
		{"PciInterruptPin", 0x01, 8, "INTA#"},
		{"PciMinGnt", 0x11, 8, "requested burst length in units of 250 ns: 512 bytes and overhead"},
		{"PciMaxLat", 0x10, 8, "requested period of access in units of 250 ns"},
		{"PciBar0Log2", 16, 8, "log2 of the size of BAR 0, the card registers"},
		{"PciBar1Log2", 20, 8, "log2 of the size of BAR 1, the doorbell pages"},
		{"PciMemorySize", 0x40000000, 32, "host memory lies at 0 up to here; the bridge answers no other address"},
		{"PciBar0Base", 0xe0000000, 32, "where the host places BAR 0"},
		{"PciBar1Base", 0xe0100000, 32, "where the host places BAR 1"},
		{"PciConfigBase", 0xe0200000, 32, "where the host bridge turns accesses into configuration cycles of the card"},
		{"PciSpoilWrite", 0xe0201000, 32, "test register of the host bridge: the next store to the card has bad parity, with bit 0 in its address phase, with bit 1 + n in dword n"},
		{"PciSpoilRead", 0xe0201004, 32, "test register of the host bridge: the next data phase in which the card reads the dword at this physical address has bad parity"},
	},
	Enums: []Enum{{Name: "PciCommand", Doc: "Bus commands on C/BE#[3:0] in the address phase.", Width: 4, Values: []Value{
		{"MemoryRead", 0x6, "one dword"},
		{"MemoryWrite", 0x7, "burst of any length"},
		{"ConfigRead", 0xa, "one dword, IDSEL"},
		{"ConfigWrite", 0xb, "one dword, IDSEL"},
		{"MemoryReadMultiple", 0xc, "more than one cache line"},
		{"MemoryReadLine", 0xe, "up to one cache line"},
		{"MemoryWriteInvalidate", 0xf, "taken as MemoryWrite, never issued"},
	}}},
	Blocks: []RegisterBlock{{
		Name: "PciConfig", Doc: "The configuration header; what is not listed reads 0.", Size: 0x100,
		Registers: []Register{
			{Name: "ID", Offset: 0x00, Access: ReadOnly, Reset: 0x45475648, Doc: "identification", Bits: []Bits{
				{"Vendor", 0, 16, "PciVendorID"}, {"Device", 16, 16, "PciDeviceID"},
			}},
			{Name: "Command", Offset: 0x04, Access: ReadWrite, Reset: 0x02000000, Doc: "command (low half, RW) and status (high half, W1C)", Bits: []Bits{
				{"MemoryEnable", 1, 1, "answer memory accesses"},
				{"MasterEnable", 2, 1, "may become bus master"},
				{"ParityResponse", 6, 1, "act on parity errors: drop data with bad parity, assert PERR#, record MasterParityError"},
				{"SerrEnable", 8, 1, "with ParityResponse: assert SERR# on an address parity error, and record SignaledSystemError"},
				{"MasterParityError", 24, 1, "as master, detected bad parity on read data, or PERR# for written data"},
				{"DevselTiming", 25, 2, "1 = medium"},
				{"SignaledTargetAbort", 27, 1, "never: this target does not abort"},
				{"ReceivedTargetAbort", 28, 1, "a burst of this master met target abort"},
				{"ReceivedMasterAbort", 29, 1, "a burst of this master met master abort"},
				{"SignaledSystemError", 30, 1, "an address parity error was detected with SerrEnable"},
				{"DetectedParityError", 31, 1, "any parity error was detected, regardless of ParityResponse"},
			}},
			{Name: "Class", Offset: 0x08, Access: ReadOnly, Reset: 0x02000001, Doc: "class code and revision", Bits: []Bits{
				{"Revision", 0, 8, "PciRevisionID"}, {"Code", 8, 24, "PciClassCode"},
			}},
			{Name: "Header", Offset: 0x0c, Access: ReadWrite, Doc: "cache line size, latency timer, header type 0", Bits: []Bits{
				{"CacheLineSize", 0, 8, "reads 0: Memory Write and Invalidate is not issued"},
				{"LatencyTimer", 8, 8, "clocks for which a burst may continue after GNT# is deasserted"},
			}},
			{Name: "Bar0", Offset: 0x10, Access: ReadWrite, Doc: "base of the card registers"},
			{Name: "Bar1", Offset: 0x14, Access: ReadWrite, Doc: "base of the doorbell pages, one 4 KiB page per VI"},
			{Name: "Subsystem", Offset: 0x2c, Access: ReadOnly, Reset: 0x00015648, Doc: "subsystem identification", Bits: []Bits{
				{"Vendor", 0, 16, "PciSubsystemVendorID"}, {"Device", 16, 16, "PciSubsystemID"},
			}},
			{Name: "Interrupt", Offset: 0x3c, Access: ReadWrite, Reset: 0x10110100, Doc: "interrupt and requested latencies", Bits: []Bits{
				{"Line", 0, 8, "RW, for software"}, {"Pin", 8, 8, "PciInterruptPin"}, {"MinGnt", 16, 8, "PciMinGnt"}, {"MaxLat", 24, 8, "PciMaxLat"},
			}},
		},
	}},
}
