// SPDX-License-Identifier: Apache-2.0

package layout

// macSection: the DP83820 as far as the card and its model use it. There is no
// public data sheet; names, offsets and bits are those that its open drivers
// agree on (Linux ns83820.c, FreeBSD if_nge.c, iPXE, gem5).
var macSection = Section{
	Title: "The MAC bus and the DP83820",
	Doc: "The card's second PCI bus. The card is its host, arbiter and memory; the DP83820 is its only device and, except for register writes of the card, its only master. " +
		"All addresses here are on that bus.",
	Constants: []Constant{
		{"MacVendorID", 0x100b, 16, "National Semiconductor"},
		{"MacDeviceID", 0x0022, 16, "DP83820"},
		{"MacRegisterBase", 0x80000000, 32, "where the card places the registers (BAR 1, memory; BAR 0, I/O, stays off)"},
		{"MacRegisterBytes", 0x1000, 32, "size of BAR 1"},
		{"MacTransmitRing", 0x0100, 16, "not 0, which a link reads as none; transmit descriptor n is at MacTransmitRing + MacDescriptorStride n"},
		{"MacReceiveRing", 0x0200, 16, "receive descriptor n is at MacReceiveRing + MacDescriptorStride n"},
		{"MacDescriptorStride", 16, 16, "bytes from one descriptor to the next"},
		{"MacTransmitBuffer", 0x1000, 16, "transmit packet buffer n begins at MacTransmitBuffer + PacketSlotBytes n"},
		{"MacReceiveBuffer", 0x2000, 16, "receive packet buffer n begins at MacReceiveBuffer + PacketSlotBytes n"},
		{"MacMemoryBytes", 0x3000, 16, "the card answers memory accesses below this address"},
	},
	Blocks: []RegisterBlock{{
		Name: "Mac", Doc: "Registers of the DP83820 that the card writes or its model gives meaning to.", Size: 0x1000,
		Registers: []Register{
			{Name: "CR", Offset: 0x00, Access: ReadWrite, Doc: "command; the bits are strobes, TXE and RXE read as the engines' states", Bits: []Bits{
				{"TXE", 0, 1, "transmit enable: start, or re-read the descriptor"}, {"TXD", 1, 1, "transmit disable, after the present frame"},
				{"RXE", 2, 1, "receive enable: start, or re-read the descriptor"}, {"RXD", 3, 1, "receive disable, after the present frame"},
				{"TXR", 4, 1, "transmit reset"}, {"RXR", 5, 1, "receive reset"}, {"RST", 8, 1, "soft reset"},
			}},
			{Name: "CFG", Offset: 0x04, Access: ReadWrite, Doc: "configuration", Bits: []Bits{
				{"BEM", 0, 1, "big-endian data"}, {"EXTSTS", 8, 1, "descriptors have an extended status dword"}, {"DATA64", 12, 1, "64-bit transfers"}, {"M64ADDR", 13, 1, "64-bit addresses"},
				{"MODE1000", 22, 1, "1000 Mb/s"},
			}},
			{Name: "ISR", Offset: 0x10, Access: ReadClear, Doc: "interrupt status", Bits: []Bits{
				{"RXOK", 0, 1, "frame received"}, {"RXERR", 2, 1, "frame received with an error"}, {"RXIDLE", 4, 1, "no free receive descriptor"}, {"RXORN", 5, 1, "receive FIFO overrun"},
				{"TXOK", 6, 1, "frame sent"}, {"TXERR", 8, 1, "frame not sent"}, {"TXIDLE", 9, 1, "no transmit descriptor"}, {"TXURN", 10, 1, "transmit FIFO underrun"},
				{"RTABT", 20, 1, "target abort seen"}, {"RMABT", 21, 1, "master abort seen"},
			}},
			{Name: "IMR", Offset: 0x14, Access: ReadWrite, Doc: "interrupt mask, as ISR"},
			{Name: "IER", Offset: 0x18, Access: ReadWrite, Doc: "bit 0: interrupts enabled"},
			{Name: "TXDP", Offset: 0x20, Access: ReadWrite, Doc: "transmit descriptor pointer"},
			{Name: "TXCFG", Offset: 0x28, Access: ReadWrite, Doc: "transmit configuration", Bits: []Bits{
				{"DRTH", 0, 8, "drain threshold in units of 32 bytes: bytes in the FIFO before transmission starts; 0 = the whole frame"},
				{"FLTH", 8, 8, "fill threshold in units of 32 bytes: free bytes in the FIFO before a burst starts"},
				{"MXDMA", 20, 3, "longest burst: 0 = 1024 bytes, n = 4 x 2^n bytes up to 7 = 512"}, {"ATP", 28, 1, "pad short frames"},
			}},
			{Name: "RXDP", Offset: 0x30, Access: ReadWrite, Doc: "receive descriptor pointer"},
			{Name: "RXCFG", Offset: 0x38, Access: ReadWrite, Doc: "receive configuration", Bits: []Bits{
				{"DRTH", 1, 5, "drain threshold in units of 8 bytes: bytes of a frame in the FIFO before bursts start; 0 = the whole frame"},
				{"MXDMA", 20, 3, "longest burst, as TXCFG"}, {"ALP", 27, 1, "accept frames longer than 1518 bytes"}, {"ARP", 30, 1, "accept frames shorter than 64 bytes"}, {"AEP", 31, 1, "accept frames with errors"},
			}},
			{Name: "RFCR", Offset: 0x48, Access: ReadWrite, Doc: "receive filter control", Bits: []Bits{
				{"Address", 0, 10, "what RFDR accesses: 0, 2, 4 = bytes 0-1, 2-3, 4-5 of the station address"},
				{"AAU", 28, 1, "accept all unicast"}, {"APM", 27, 1, "accept the station address"}, {"AAM", 29, 1, "accept all multicast"}, {"AAB", 30, 1, "accept all broadcast"}, {"Enable", 31, 1, "filter enable; 0 = nothing is received"},
			}},
			{Name: "RFDR", Offset: 0x4c, Access: ReadWrite, Doc: "receive filter data, 16 bits: the lower address byte in bits 7:0"},
			{Name: "SRR", Offset: 0x58, Access: ReadOnly, Reset: 0x0103, Doc: "silicon revision"},
		},
	}},
	Enums: []Enum{{
		Name: "MacMaxDma", Doc: "Codes of MXDMA that the card uses.", Width: 3, Values: []Value{
			{"Bytes64", 4, "64 bytes"},
			{"Bytes512", 7, "512 bytes"},
		},
	}},
	Structs: []Struct{{
		Name: "MacDescriptor", Doc: "Descriptor in 32-bit mode. A ring is closed by its links.", Size: 16, Fields: []Field{
			{Name: "Link", Offset: 0, Width: 4, Doc: "address of the next descriptor, 0 = none"},
			{Name: "BufferAddress", Offset: 4, Width: 4, Doc: "address of the buffer; receive: a multiple of 8"},
			{Name: "CommandStatus", Offset: 8, Width: 4, Doc: "command from the producer, status from the consumer", Bits: []Bits{
				{"Size", 0, 16, "transmit: bytes of the fragment; receive: bytes of the buffer, then bytes stored (with FCS)"},
				{"Collision", 16, 1, "unused here"}, {"LoopBack", 17, 1, "unused here"}, {"FrameAlignment", 18, 1, "frame alignment error"}, {"FcsError", 19, 1, "receive: bad FCS"}, {"SymbolError", 20, 1, "receive: symbol error"},
				{"Runt", 21, 1, "receive: shorter than 64 bytes"}, {"TooLong", 22, 1, "receive: longer than 1518 bytes"}, {"DestinationClass", 23, 2, "receive: 1 unicast, 2 multicast, 3 broadcast"},
				{"Underrun", 25, 1, "transmit: FIFO underrun"}, {"Overrun", 26, 1, "receive: a FIFO overrun preceded or cut this frame; transmit: aborted"}, {"OK", 27, 1, "no error"}, {"SuppressCrc", 28, 1, "transmit: send without FCS"},
				{"Interrupt", 29, 1, "interrupt when done"}, {"More", 30, 1, "another fragment follows"}, {"Own", 31, 1, "the consumer owns the data: set by the producer (transmit: the card, receive: the MAC), cleared by the consumer"},
			}},
			{Name: "ExtendedStatus", Offset: 12, Width: 4, Doc: "VLAN and checksum status, not used; fetched, and written back with the status, only with CFG.EXTSTS"},
		},
	}},
}
