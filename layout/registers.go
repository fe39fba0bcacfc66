// SPDX-License-Identifier: Apache-2.0

package layout

var interruptBits = []Bits{
	{"CommandDone", 0, 1, "a command block was completed"},
	{"RawReceive", 1, 1, "a raw frame was stored and its ring entry written"},
	{"RawTransmit", 2, 1, "a raw frame was taken from memory and its ring entry written"},
	{"AsyncError", 3, 1, "an asynchronous error occurred, see AsyncErrorInfo"},
	{"BusError", 4, 1, "a host bus transfer ended in master or target abort"},
	{"Notify", 5, 1, "an event armed with NotifyArm occurred, see NotifyInfo"},
}

var registerSection = Section{
	Title: "Card registers",
	Doc:   "BAR 0. Privileged: only the kernel agent maps it. All registers are 32 bits; byte enables are honoured.",
	Constants: []Constant{
		{"CardID", 0x48564941, 32, "the characters HVIA"},
		{"NICID", 0x48564e49, 32, "the characters HVNI: a plain NIC: the raw-frame port without VIA"},
		{"CardVersionMajor", 1, 8, "raised when a driver must change"},
		{"CardVersionMinor", 2, 8, "raised when something was added"},
		{"CounterBase", 0x400, 20, "offset of counter 0; counter n is at CounterBase + 4 n"},
		{"CounterSlots", 128, 32, "counters addressable behind CounterBase"},
		{"AsyncErrorSlots", 16, 32, "asynchronous errors that can wait for a read of AsyncErrorInfo; further ones are dropped"},
		{"AsyncErrorDroppedBase", 0x080, 20, "offset of the first of AsyncErrorDroppedWords dwords: bit v % 32 of dword v / 32 says that an error of VI index v was dropped since that dword was last read; a read clears the dword"},
		{"AsyncErrorDroppedWords", 8, 32, "dwords behind AsyncErrorDroppedBase: one bit for each VI index"},
	},
	Blocks: []RegisterBlock{{
		Name: "Register", Doc: "The register block.", Size: 0x10000,
		Registers: []Register{
			{Name: "ID", Offset: 0x000, Access: ReadOnly, Reset: 0x48564941, Doc: "identifies the card"},
			{Name: "Version", Offset: 0x004, Access: ReadOnly, Reset: 0x0102, Doc: "version of the register interface", Bits: []Bits{
				{"Minor", 0, 8, "minor version"}, {"Major", 8, 8, "major version"},
			}},
			{Name: "LayoutHashLow", Offset: 0x008, Access: ReadOnly, Doc: "low half of the hash of the layouts that the card was built from"},
			{Name: "LayoutHashHigh", Offset: 0x00c, Access: ReadOnly, Doc: "high half of that hash"},
			{Name: "Capability", Offset: 0x010, Access: ReadOnly, Doc: "what this build offers", Bits: []Bits{
				{"VICountLog2", 0, 8, "log2 of the number of VIs"},
				{"DataBytes", 8, 8, "width of the host bus in bytes"},
				{"Ports", 16, 4, "number of Ethernet ports"},
				{"Reliability", 20, 3, "mask of reliability levels (VIA bit values)"},
				{"RDMARead", 23, 1, "RDMA read is implemented"},
				{"CompletionQueuesLog2", 25, 4, "log2 of the number of completion queues"},
				{"TableInHostMemory", 24, 1, "strap AttInHostMemory is set: the driver gives the translation table its memory (AttHostLevel1, AttHostLevel2)"},
			}},
			{Name: "Strap", Offset: 0x014, Access: ReadOnly, Doc: "the reset straps as sampled"},
			{Name: "Control", Offset: 0x018, Access: ReadWrite, Doc: "card control", Bits: []Bits{
				{"SoftReset", 0, 1, "write 1: quiesce the host bus, then reset everything but the PCI configuration; reads 1 until done"},
				{"Enable", 1, 1, "accept doorbells and received frames"},
			}},
			{Name: "State", Offset: 0x01c, Access: ReadOnly, Doc: "card state", Bits: []Bits{
				{"Ready", 0, 1, "the SDRAM is initialised and the card accepts commands"},
				{"CommandBusy", 1, 1, "a command block is in progress"},
				{"Quiet", 2, 1, "the card is quiescent"},
				{"LinkDown", 3, 1, "the MAC has no link"},
			}},
			{Name: "InterruptStatus", Offset: 0x020, Access: WriteClear, Doc: "pending interrupt causes; INTA# is asserted while a cause is pending and unmasked", Bits: interruptBits},
			{Name: "InterruptEnable", Offset: 0x024, Access: ReadWrite, Doc: "causes that may assert INTA#, in the order of InterruptStatus"},
			{Name: "InterruptModeration0", Offset: 0x028, Access: ReadOnly, Doc: "reserved for moderation, reads 0"},
			{Name: "InterruptModeration1", Offset: 0x02c, Access: ReadOnly, Doc: "reserved for moderation, reads 0"},
			{Name: "CommandAddress", Offset: 0x030, Access: WriteOnly, Doc: "physical address of a command block, 64-byte aligned; writing it starts the command; ignored and counted while CommandBusy or not Ready, or if not all four bytes are written"},
			{Name: "MacLow", Offset: 0x038, Access: ReadWrite, Doc: "bytes 0 (lowest bits) to 3 of the port's MAC address"},
			{Name: "MacHigh", Offset: 0x03c, Access: ReadWrite, Doc: "bytes 4 (lowest bits) and 5 of the MAC address"},
			{Name: "RawTransmitBase", Offset: 0x040, Access: ReadWrite, Doc: "physical address of the raw transmit ring, 16-byte aligned, inside one page (entries wrap inside the page of Base); a write sets Head and Tail to 0"},
			{Name: "RawTransmitSize", Offset: 0x044, Access: ReadWrite, Doc: "size of the ring; a write sets Head and Tail to 0 and drops entries not started", Bits: []Bits{
				{"Log2", 0, 4, "log2 of its entries, 1 to 8; 0 = off, larger values are stored as 0"},
				{"Busy", 31, 1, "an entry is in flight, also of a ring that was switched off: its memory is in use until this reads 0"},
			}},
			{Name: "RawTransmitTail", Offset: 0x048, Access: ReadWrite, Doc: "index after the last entry that software filled, taken modulo the size"},
			{Name: "RawTransmitHead", Offset: 0x04c, Access: ReadOnly, Doc: "index of the first entry not yet returned to software"},
			{Name: "RawReceiveBase", Offset: 0x050, Access: ReadWrite, Doc: "physical address of the raw receive ring, 16-byte aligned, inside one page (entries wrap inside the page of Base); a write sets Head and Tail to 0"},
			{Name: "RawReceiveSize", Offset: 0x054, Access: ReadWrite, Doc: "size of the ring; a write sets Head and Tail to 0 and drops entries not started", Bits: []Bits{
				{"Log2", 0, 4, "log2 of its entries, 1 to 8; 0 = off, larger values are stored as 0"},
				{"Busy", 31, 1, "an entry is in flight, also of a ring that was switched off: its memory is in use until this reads 0"},
			}},
			{Name: "RawReceiveTail", Offset: 0x058, Access: ReadWrite, Doc: "index after the last empty buffer that software posted, taken modulo the size"},
			{Name: "RawReceiveHead", Offset: 0x05c, Access: ReadOnly, Doc: "index of the first entry not yet returned to software"},
			{Name: "AsyncErrorInfo", Offset: 0x060, Access: ReadClear, Doc: "the oldest waiting asynchronous error; a read removes it, so read it with one 32-bit access", Bits: []Bits{
				{"Code", 0, 8, "AsyncError code, 0 without Valid"}, {"VI", 8, 8, "VI index, 0 without Valid"}, {"Valid", 16, 1, "an error waited; 0 = none"},
				{"Overflow", 17, 1, "errors were dropped since the last read because the queue was full; AsyncErrorDropped has their VIs, State the link; cleared by the read"},
				{"Count", 18, 14, "asynchronous errors since reset, dropped ones too, modulo 16384"},
			}},
			{Name: "NotifyArm", Offset: 0x0a0, Access: WriteOnly, Doc: "arms one interrupt: the next completion of the named work queue, or the next entry of the named completion queue, raises cause Notify once; no effect on a queue that is armed; ignored if not all four bytes are written", Bits: []Bits{
				{"Index", 0, 8, "VI index, or number of the completion queue"}, {"Kind", 8, 2, "NotifyKind"},
			}},
			{Name: "NotifyInfo", Offset: 0x0a4, Access: ReadClear, Doc: "the oldest armed event that occurred; a read removes it, so read it with one 32-bit access", Bits: []Bits{
				{"Index", 0, 8, "as in NotifyArm, 0 without Valid"}, {"Kind", 8, 2, "NotifyKind, 0 without Valid"}, {"Valid", 16, 1, "an event waited; 0 = none"},
			}},
			{Name: "AttHostLevel1", Offset: 0x064, Access: ReadWrite, Doc: "with TableInHostMemory: physical address of level 1 of the translation table, page aligned (lower bits are stored as 0), AttLevel1Stride bytes for each entry below the limit; written before InitialiseAtt and unchanged until a reset"},
			{Name: "AttHostLevel2", Offset: 0x068, Access: ReadWrite, Doc: "likewise of level 2, where AttLevel2Base would be: an entry at SDRAM address a lies at AttHostLevel2 + a - AttLevel2Base"},
		},
	}},
	Enums: []Enum{
		{Name: "AsyncError", Doc: "Asynchronous error codes, VIP_ERROR_CODE of VIPL.", Width: 8, Values: []Value{
			{"PostDescriptor", 0, "descriptor address or handle invalid at post"},
			{"ConnectionLost", 1, "connection lost"},
			{"ReceiveQueueEmpty", 2, "a packet was dropped because the receive queue was empty"},
			{"VIOverrun", 3, "too many descriptors were posted to a work queue"},
			{"RDMAWriteProtection", 4, "protection error on an incoming RDMA write"},
			{"RDMAWriteData", 5, "data corruption on an incoming RDMA write"},
			{"RDMAWriteAbort", 6, "an incoming RDMA write was cut off"},
			{"RDMAReadProtection", 7, "protection error on an incoming RDMA read"},
			{"CompletionProtection", 8, "protection error while writing completion status"},
			{"RDMATransport", 9, "transport error on RDMA"},
			{"Catastrophic", 10, "catastrophic error"},
			{"CompletionQueueOverrun", 11, "an entry was lost: the completion queue of a work queue of this VI was full (VIPL reports Catastrophic for the resource CQ)"},
			{"LinkDown", 13, "the link went down; an error of the NIC, not of a VI (VIPL has no code for it; resource NIC)"},
			{"LinkUp", 14, "the link is up again; an event of the NIC, not of a VI"},
			{"Overflow", 12, "errors of a NIC handle were dropped because too many waited; from the agent, never from the card"},
		}},
		{Name: "NotifyKind", Doc: "What can be armed for an interrupt.", Width: 2, Values: []Value{
			{"Send", 0, "the send queue of a VI"}, {"Receive", 1, "the receive queue of a VI"}, {"CompletionQueue", 2, "a completion queue"},
		}},
		{Name: "Strap", Doc: "Bit numbers of the reset straps.", Width: 5, Values: []Value{
			{"SingleTransmitSlot", 0, "use one transmit packet buffer instead of two"},
			{"SingleReceiveSlot", 1, "use one receive packet buffer instead of two"},
			{"CutThroughTransmit", 2, "offer a transmit packet buffer to the MAC as soon as its first words are in"},
			{"CutThroughReceive", 3, "offer a receive packet buffer to the receive engine while the MAC still writes it"},
			{"ReceiveFetchOnArrival", 4, "fetch a receive descriptor when a message waits for it, instead of when it is posted"},
			{"ShortBursts", 5, "bursts of ShortBurstBytes (64) instead of DmaBurstBytes (512): payload and raw frames on the system bus, and all of the MAC on its bus (MXDMA)"},
			{"NoAttOverlap", 6, "no translation overlaps its transfer: the DMA engines translate the next page only after every burst of the present one (without the strap while they run), " +
				"and the table caches no level-1 entry, so each translation reads both levels. With or without the strap, the first translation of a segment or target " +
				"starts after the whole chunk of the descriptor or the whole header was read"},
			{"SlowSdram", 7, "the SDRAM controller uses the counts for an SDRAM clock of SdramSlowClockPeriod (33.33 MHz); a simulation must run that clock (--param SdramClockPeriod=30000)"},
			{"AttInHostMemory", 8, "both levels of the translation table lie in host memory, at AttHostLevel1 and AttHostLevel2, instead of the card's SDRAM: each level costs a read over the system bus, level 2 after the checks"},
		}},
	},
}

var doorbellSection = Section{
	Title: "Doorbell pages",
	Doc: "BAR 1: one page per VI, so that the agent can map exactly one VI's page into a process. A doorbell is three dwords, written in order, " +
		"in one burst or in several; the third commits. Any other sequence of writes is dropped and counted.",
	Constants: []Constant{
		{"DoorbellPageBytes", 4096, 32, "size of a VI's page; page n belongs to VI index n"},
		{"DoorbellSend", 0x00, 12, "offset of the send queue's doorbell in the page"},
		{"DoorbellReceive", 0x40, 12, "offset of the receive queue's doorbell in the page"},
		{"DoorbellDwords", 3, 32, "dwords of one doorbell"},
	},
	Structs: []Struct{{
		Name: "Doorbell", Doc: "One doorbell.", Size: 12, Fields: []Field{
			{Name: "AddressLow", Offset: 0, Width: 4, Doc: "descriptor's virtual address, bits 31:0 (64-byte aligned)"},
			{Name: "AddressHigh", Offset: 4, Width: 4, Doc: "descriptor's virtual address, bits 63:32"},
			{Name: "Handle", Offset: 8, Width: 4, Doc: "memory handle of the descriptor's region; this write commits"},
		},
	}},
}

var descriptorSection = Section{
	Title: "Descriptors",
	Doc: "The VIA descriptor: a control segment, for RDMA an address segment, then data segments, contiguous in registered memory and 64-byte aligned. " +
		"The card writes bytes 20 to 31 only, Status last.",
	Constants: []Constant{
		{"DescriptorAlignment", 64, 32, "VIP_DESCRIPTOR_ALIGNMENT"},
		{"DescriptorFetchBytes", 64, 32, "bytes that the card reads in the first fetch: control segment and two further segments"},
		{"MaxDataSegments", 252, 32, "data segments of one descriptor"},
		{"DescriptorErrorMask", 0x1fe, 32, "VIP_STATUS_ERROR_MASK: the bits of Status from FormatError to RemoteDescriptorError"},
	},
	Structs: []Struct{
		{Name: "Descriptor", Doc: "Control segment.", Size: 32, Fields: []Field{
			{Name: "Next", Offset: 0, Width: 8, Doc: "virtual address of the next descriptor of the queue, written by the provider before its doorbell"},
			{Name: "NextHandle", Offset: 8, Width: 4, Doc: "memory handle of the next descriptor"},
			{Name: "SegmentCount", Offset: 12, Width: 2, Doc: "address and data segments that follow"},
			{Name: "Control", Offset: 14, Width: 2, Doc: "what to do", Bits: []Bits{
				{"Operation", 0, 2, "DescriptorOperation"},
				{"Immediate", 2, 1, "immediate data present"},
				{"QueueFence", 3, 1, "hold until earlier RDMA reads are complete"},
				{"Reserved", 4, 12, "zero"},
			}},
			{Name: "Reserved", Offset: 16, Width: 4, Doc: "zero"},
			{Name: "ImmediateData", Offset: 20, Width: 4, Doc: "from the consumer on send, from the provider on receive"},
			{Name: "Length", Offset: 24, Width: 4, Doc: "consumer: sum of the data segments; provider: bytes moved"},
			{Name: "Status", Offset: 28, Width: 4, Doc: "cleared by the consumer, written by the provider, last", Bits: []Bits{
				{"Done", 0, 1, "processing finished"},
				{"FormatError", 1, 1, "malformed descriptor"},
				{"ProtectionError", 2, 1, "local address, handle or tag rejected"},
				{"LengthError", 3, 1, "local length wrong"},
				{"PartialError", 4, 1, "message cut off on the wire"},
				{"Flushed", 5, 1, "never processed: disconnect or error state"},
				{"TransportError", 6, 1, "lost, corrupt or timed out"},
				{"RDMAProtectionError", 7, 1, "the peer NAKed the RDMA access"},
				{"RemoteDescriptorError", 8, 1, "the peer NAKed for its receive descriptor"},
				{"Operation", 16, 3, "StatusOperation"},
				{"Immediate", 19, 1, "ImmediateData is valid"},
			}},
		}},
		{Name: "AddressSegment", Doc: "Remote buffer, RDMA only.", Size: 16, Fields: []Field{
			{Name: "Address", Offset: 0, Width: 8, Doc: "remote virtual address"},
			{Name: "Handle", Offset: 8, Width: 4, Doc: "remote memory handle"},
			{Name: "Reserved", Offset: 12, Width: 4, Doc: "zero"},
		}},
		{Name: "DataSegment", Doc: "Local buffer.", Size: 16, Fields: []Field{
			{Name: "Address", Offset: 0, Width: 8, Doc: "local virtual address"},
			{Name: "Handle", Offset: 8, Width: 4, Doc: "local memory handle"},
			{Name: "Length", Offset: 12, Width: 4, Doc: "bytes"},
		}},
	},
	Enums: []Enum{
		{Name: "DescriptorOperation", Doc: "Operation in the control field.", Width: 2, Values: []Value{
			{"Send", 0, "send, or receive on the receive queue"}, {"RDMAWrite", 1, "RDMA write"}, {"RDMARead", 2, "RDMA read"}, {"Reserved", 3, "format error"},
		}},
		{Name: "StatusOperation", Doc: "Operation echoed in the status field.", Width: 3, Values: []Value{
			{"Send", 0, "send"}, {"Receive", 1, "receive"}, {"RDMAWrite", 2, "RDMA write"},
			{"RemoteRDMAWrite", 3, "receive consumed by an RDMA write with immediate data"}, {"RDMARead", 4, "RDMA read"},
		}},
	},
}

var viSection = Section{
	Title: "VI context",
	Doc:   "The card's state of each VI. The VI manager writes it by command. The number on the wire is generation and index, so a frame for an earlier use of the index is recognised.",
	Structs: []Struct{
		{Name: "VIContext", Doc: "As carried in a command block.", Size: 32, Fields: []Field{
			{Name: "Attributes", Offset: 0, Width: 4, Doc: "state and attributes", Bits: []Bits{
				{"State", 0, 3, "VIState"},
				{"EnableRDMAWrite", 3, 1, "the peer may RDMA write through this VI"},
				{"EnableRDMARead", 4, 1, "the peer may RDMA read through this VI"},
				{"Reliability", 5, 3, "one VIA reliability bit"},
				{"Generation", 8, 8, "generation of this index"},
				{"Tag", 16, 16, "protection tag"},
			}},
			{Name: "MaxTransferSize", Offset: 4, Width: 4, Doc: "largest message in bytes"},
			{Name: "PeerMac", Offset: 8, Width: 6, Bytes: true, Doc: "peer's MAC address in wire order"},
			{Name: "PeerVI", Offset: 14, Width: 2, Doc: "peer's VI number on the wire"},
			{Name: "SendSequence", Offset: 16, Width: 4, Doc: "sequence number of the first frame to send"},
			{Name: "ReceiveSequence", Offset: 20, Width: 4, Doc: "sequence number of the first frame expected"},
			{Name: "Window", Offset: 24, Width: 1, Doc: "reliable levels: frames that may be in flight, 1 to 255"},
			{Name: "RetryLimit", Offset: 25, Width: 1, Doc: "reliable levels: RetryLimit + 1 timeouts in a row without a sign of life of the peer break the connection; without progress RetryAliveFactor times as many"},
			{Name: "ReadLimit", Offset: 26, Width: 1, Doc: "reliable levels: RDMA reads of this VI that may await their response, 1 to LedgerResponses"},
			{Name: "RetryTimeoutLog2", Offset: 27, Width: 1, Doc: "reliable levels: log2 of the timeout in clocks without progress, 8 to 31"},
			{Name: "SendCompletionQueue", Offset: 28, Width: 1, Doc: "completion queue of the send queue: its number plus one, 0 = none"},
			{Name: "ReceiveCompletionQueue", Offset: 29, Width: 1, Doc: "likewise of the receive queue"},
			{Name: "Reserved", Offset: 30, Width: 2, Doc: "zero"},
		}},
	},
	Enums: []Enum{
		{Name: "VIState", Doc: "VI states; Idle to Error are VIPL's.", Width: 3, Values: []Value{
			{"Idle", 0, "created, not connected"}, {"Connected", 1, "connected"}, {"ConnectPending", 2, "connection in progress (state of the agent)"},
			{"Error", 3, "broken, waits for disconnect"}, {"Free", 7, "index not in use"},
		}},
		{Name: "Reliability", Doc: "VIA reliability levels.", Width: 3, Values: []Value{
			{"Unreliable", 1, "unreliable delivery"}, {"Delivery", 2, "reliable delivery"}, {"Reception", 4, "reliable reception"},
		}},
	},
}

var completionQueueSection = Section{
	Title: "Completion queues",
	Doc: "A completion queue is physically contiguous host memory, page aligned: a CompletionQueueHeader, written by the library, followed by 2^n entries, which the card writes in order, cyclically. " +
		"The card writes Word last. The flag Lap is 1 in the first round, 0 in the second and so on, so an entry is new when its Lap differs from that of the round before; the library clears the ring (Lap 0) before the queue is created.",
	Constants: []Constant{
		{"CompletionQueueMinLog2", 1, 8, "log2 of the fewest entries"},
		{"CompletionQueueMaxLog2", 12, 8, "log2 of the most entries"},
	},
	Structs: []Struct{
		{Name: "CompletionQueueHeader", Doc: "Start of a completion queue, written by the library.", Size: 64, Fields: []Field{
			{Name: "Consumed", Offset: 0, Width: 4, Doc: "entries reaped by the library since the queue, or this ring of it, was created, modulo 2^32. The card reads it only when the ring looks full"},
		}},
		{Name: "CompletionEntry", Doc: "One entry: a descriptor of a work queue is complete. Its status is already in memory.", Size: 8, Fields: []Field{
			{Name: "Sequence", Offset: 0, Width: 4, Doc: "queue sequence of the descriptor, low 16 bits, for the trace"},
			{Name: "Word", Offset: 4, Width: 4, Doc: "which queue", Bits: []Bits{
				{"VI", 0, 8, "VI index"}, {"Receive", 8, 1, "1 = the receive queue"}, {"Valid", 30, 1, "1"}, {"Lap", 31, 1, "1 in odd rounds, 0 in even ones, counted from 1"},
			}},
		}},
	},
}

var commandSection = Section{
	Title: "Command blocks",
	Doc:   "The agent writes a block in DMA-able memory and its physical address into CommandAddress. The card fetches the block, executes it, and writes Detail, then Status. One command at a time.",
	Structs: []Struct{
		{Name: "Command", Doc: "A command block, 64-byte aligned.", Size: 64, Fields: []Field{
			{Name: "Opcode", Offset: 0, Width: 4, Doc: "CommandOpcode"},
			{Name: "Index", Offset: 4, Width: 4, Doc: "VI index, or level-1 index, or level-1 limit"},
			{Name: "Handle", Offset: 8, Width: 4, Doc: "memory handle"},
			{Name: "ListAddress", Offset: 12, Width: 4, Doc: "physical address of a list of page addresses (one dword each, inside one page)"},
			{Name: "ListCount", Offset: 16, Width: 4, Doc: "entries in the list, 0 to 1024"},
			{Name: "Level2Address", Offset: 20, Width: 4, Doc: "SDRAM byte address at which the list is stored"},
			{Name: "Payload", Offset: 24, Width: 32, Bytes: true, Doc: "AttLevel1 or VIContext"},
			{Name: "Detail", Offset: 56, Width: 4, Doc: "written by the card before Status: Attributes of the VI for QueryVI and for BadState of a VI's command, entries written so far (modulo 2^16) for ResizeCompletionQueue and DestroyCompletionQueue, else 0"},
			{Name: "Status", Offset: 60, Width: 4, Doc: "CommandStatus, 0 until the card writes it"},
		}},
	},
	Enums: []Enum{
		{Name: "CommandOpcode", Doc: "Commands.", Width: 8, Values: []Value{
			{"Nop", 0, "does nothing, completes"},
			{"InitialiseAtt", 1, "Index = level-1 limit: clear the valid bit of every entry below it, then accept only handles below it"},
			{"WriteLevel2", 2, "store the list at Level2Address"},
			{"RegisterMemory", 3, "store the list, then the level-1 entry in Payload at Index"},
			{"DeregisterMemory", 4, "invalidate Handle everywhere; completes when every engine has drained it"},
			{"CreateVI", 5, "Free to Idle, context in Payload"},
			{"DestroyVI", 6, "Idle to Free"},
			{"ConnectVI", 7, "Idle to Connected, context in Payload"},
			{"DisconnectVI", 8, "Idle, Connected or Error to Idle; completes when both queues are flushed"},
			{"ModifyVI", 9, "attributes of an Idle VI, context in Payload"},
			{"QueryVI", 10, "Detail = the Attributes word"},
			{"CreateCompletionQueue", 12, "Index = number, ListAddress = physical address of the CompletionQueueHeader, ListCount = log2 of the entries; BadState if the number is in use"},
			{"DestroyCompletionQueue", 13, "Index = number; no entry is written to it afterwards. The agent first unties every VI"},
			{"ResizeCompletionQueue", 14, "Index, ListAddress and ListCount as CreateCompletionQueue: later entries go to the new ring, from its start, first lap; Detail = entries written to the old one"},
			{"ResetVI", 11, "any state to Free, queues emptied without writing descriptors (its memory may be gone)"},
		}},
		{Name: "CommandStatus", Doc: "How a command ended.", Width: 8, Values: []Value{
			{"Pending", 0, "not finished"}, {"Done", 1, "executed"}, {"BadOpcode", 2, "unknown opcode"},
			{"BadArgument", 3, "index, count or address out of range"}, {"BadState", 4, "the VI's state does not allow it"},
			{"BusError", 5, "the card could not read the memory that the block names"},
		}},
	},
}

var frameSection = Section{
	Title: "Frames",
	Doc:   "Ethernet II. VIA frames carry a 28-byte header after the Ethernet header, all big-endian.",
	Constants: []Constant{
		{"EtherTypeVia", 0x88b5, 16, "VIA data frames (IEEE local experimental 1)"},
		{"EtherTypeConnection", 0x88b6, 16, "the agents' connection protocol (IEEE local experimental 2)"},
		{"ViaVersion", 1, 4, "header version"},
		{"MaxPayload", 1472, 16, "payload bytes of one frame: 1514 - 42"},
		{"MaxFrame", 1514, 16, "largest frame without FCS"},
		{"MinFrame", 60, 16, "smallest frame without FCS; shorter ones are padded"},
		{"HeaderBytes", 42, 16, "Ethernet and VIA header together"},
		{"SequenceWindow", 64, 32, "unreliable level: a frame is dropped if its number is behind the expected one or at least this far ahead, unless it agrees with the frames before it. The largest message has 45 frames: after the loss of a whole message the next is still accepted at once"},
		{"SequenceAgreement", 8, 4, "unreliable level: after this many frames in a row outside SequenceWindow, each ahead of the one before by less than SequenceWindow, the last is accepted and sets the number. One suffices against a damaged frame, two against random numbers; eight also exceed the frames that arrive late after newer ones, and cost a peer seven frames after an attack"},
	},
	Structs: []Struct{
		{Name: "EthernetHeader", Doc: "Ethernet II header.", Endian: Big, Size: 14, Fields: []Field{
			{Name: "Destination", Offset: 0, Width: 6, Bytes: true, Doc: "destination MAC"},
			{Name: "Source", Offset: 6, Width: 6, Bytes: true, Doc: "source MAC"},
			{Name: "EtherType", Offset: 12, Width: 2, Doc: "protocol"},
		}},
		{Name: "ViaHeader", Doc: "VIA header, at byte 14 of the frame.", Endian: Big, Size: 28, Fields: []Field{
			{Name: "OperationVersion", Offset: 0, Width: 1, Doc: "operation and version", Bits: []Bits{
				{"Operation", 0, 4, "FrameOperation"}, {"Version", 4, 4, "ViaVersion"},
			}},
			{Name: "Flags", Offset: 1, Width: 1, Doc: "frame flags", Bits: []Bits{
				{"First", 0, 1, "first frame of a message"}, {"Last", 1, 1, "last frame of a message"}, {"Immediate", 2, 1, "the immediate field is valid"},
				{"Reserved", 3, 5, "zero"},
			}},
			{Name: "PayloadLength", Offset: 2, Width: 2, Doc: "payload bytes in this frame (padding not counted)"},
			{Name: "DestinationVI", Offset: 4, Width: 2, Doc: "generation (bits 15:8) and index (7:0)"},
			{Name: "SourceVI", Offset: 6, Width: 2, Doc: "the sender's VI number"},
			{Name: "Sequence", Offset: 8, Width: 4, Doc: "frame sequence number of the connection's direction; acknowledgement: that of the frame expected next, or NAKed"},
			{Name: "Address", Offset: 12, Width: 8, Doc: "RDMA write: target virtual address of this frame's payload; read request: address of the remote buffer; send, read response: offset (31:0) and message length (63:32)"},
			{Name: "Handle", Offset: 20, Width: 4, Doc: "RDMA write, read request: remote memory handle"},
			{Name: "Immediate", Offset: 24, Width: 4, Doc: "immediate data; length of a read request; AcknowledgeCode of an acknowledgement"},
		}},
	},
	Enums: []Enum{
		{Name: "FrameOperation", Doc: "Operations on the wire.", Width: 4, Values: []Value{
			{"Send", 0, "part of a send"}, {"RDMAWrite", 1, "part of an RDMA write"}, {"RDMAReadRequest", 2, "RDMA read request"},
			{"RDMAReadResponse", 3, "part of a read response"}, {"Acknowledge", 4, "acknowledgement; has no number"},
		}},
		{Name: "AcknowledgeCode", Doc: "Codes of an acknowledgement. Each acknowledges all frames before its sequence number.", Width: 3, Values: []Value{
			{"Ok", 0, "the frame of that number is expected next"},
			{"Gap", 1, "the same, and a later one arrived: rewind"},
			{"RemoteDescriptor", 2, "NAK of that frame: no receive descriptor, a malformed one, or its buffers are too small or not accessible; the connection is broken"},
			{"RDMAProtection", 3, "NAK of that frame: address, handle, tag or rights of an RDMA operation; the connection is broken"},
			{"Transport", 4, "NAK of that frame: host bus, order of frames, or the memory of the peer's RDMA read; the connection is broken"},
		}},
		{Name: "AcknowledgeOperation", Doc: "Inside the card: report of the receive engine to `acknowledge` on a frame of a reliable VI.", Width: 3, Values: []Value{
			{"Accept", 0, "accepted in order, nothing urgent"},
			{"AcceptLast", 1, "accepted in order, the last of its message"},
			{"Old", 2, "an accepted frame arrived another time"},
			{"Gap", 3, "a frame arrived whose predecessor is missing"},
			{"NAK", 4, "a frame is NAKed: the connection is broken"},
			{"Again", 5, "a frame arrived after a NAK"},
		}},
		{Name: "ReceiveReport", Doc: "Inside the card: report or question of the receive engine to the ledger.", Width: 3, Values: []Value{
			{"Acknowledge", 0, "an acknowledgement arrived"},
			{"Request", 1, "a read request arrived in order"},
			{"Find", 2, "which read is the oldest without its response?"},
			{"Answered", 3, "that read is complete, or cannot be delivered"},
			{"Progress", 4, "a frame of its response arrived, not the last"},
		}},
	},
}

var rawSection = Section{
	Title: "Raw-frame rings",
	Doc: "Plain Ethernet frames for the agent. A ring lies in one page; software fills entries up to Tail, the card consumes them from Head on. " +
		"A buffer lies inside one page. The card writes only the Status of an entry, after the frame is in memory (receive) or read from it (transmit).",
	Structs: []Struct{{
		Name: "RawEntry", Doc: "Ring entry.", Size: 16, Fields: []Field{
			{Name: "Address", Offset: 0, Width: 4, Doc: "physical address of the buffer"},
			{Name: "Length", Offset: 4, Width: 4, Doc: "transmit: frame bytes, 14 to 1514, of a plain NIC all entries of a frame together; receive: buffer bytes", Bits: []Bits{
				{"Bytes", 0, 16, "bytes of the buffer"},
				{"More", 31, 1, "transmit, plain NIC only: the frame goes on in the next entry; a card ends such an entry with Error"},
			}},
			{Name: "Reserved", Offset: 8, Width: 4, Doc: "zero"},
			{Name: "Status", Offset: 12, Width: 4, Doc: "cleared by software, written by the card", Bits: []Bits{
				{"Done", 0, 1, "the entry belongs to software again"},
				{"Error", 1, 1, "length out of range, buffer not inside one page, or bus error; receive: buffer too small"},
				{"Length", 16, 16, "receive: bytes of the frame"},
			}},
		},
	}},
}

var nicSection = Section{
	Title: "Plain NIC",
	Doc: "An Ethernet NIC without VIA, for the baselines. Its BAR 0 has ID (NICID), Version, LayoutHash, Capability (no reliability level: no VIs), Control, State, InterruptStatus, InterruptEnable, MacLow, MacHigh " +
		"and the registers of the raw rings where the card has them, these registers, and its counters at CounterBase + 4 n; everything else reads 0 and takes no writes. " +
		"A frame may be gathered from several entries (More); all of them return when it was read, or all with Error when one cannot be used or the sum is no frame. " +
		"It takes frames for its own address and for the broadcast address. A cause is raised when the register's number of frames was completed in memory since it was last raised or cleared, or when the time since the first of them is over; " +
		"both are without effect before the first frame. Without Enable no entry is started and frames from the wire are lost. A soft reset or RST# sets all registers to their reset values.",
	Blocks: []RegisterBlock{{
		Name: "NICRegister", Doc: "Registers of a plain NIC that the card does not have.", Size: 0x10000,
		Registers: []Register{
			{Name: "ReceiveCoalesceTime", Offset: 0x028, Access: ReadWrite, Doc: "ns from the first received frame not yet reported to the RawReceive cause, 0 = at once; after a reset the parameter NICReceiveCoalesceTime"},
			{Name: "ReceiveCoalesceFrames", Offset: 0x02c, Access: ReadWrite, Doc: "unreported received frames that raise the cause before that time, 0 = no such number; after a reset the parameter NICReceiveCoalesceFrames"},
			{Name: "TransmitCoalesceTime", Offset: 0x06c, Access: ReadWrite, Doc: "likewise for frames read and RawTransmit; NICTransmitCoalesceTime"},
			{Name: "TransmitCoalesceFrames", Offset: 0x070, Access: ReadWrite, Doc: "likewise; NICTransmitCoalesceFrames"},
		},
	}},
	Enums: []Enum{{Name: "NICCounter", Doc: "Counter numbers of a plain NIC; where the card counts the same, its numbers.", Width: 7, Values: []Value{
		{"ReceiveOverrun", 28, "frames dropped: the receive FIFO was full"},
		{"ReceiveNotForUs", 33, "frames dropped: other destination address"},
		{"Transmit", 48, "frames read from memory, and sent"},
		{"Receive", 49, "frames stored"},
		{"ReceiveDropped", 50, "frames dropped: no buffer"},
		{"TransmitError", 51, "transmit entries ended with Error"},
		{"ReceiveError", 52, "receive entries ended with Error"},
		{"MasterAbort", 75, "bursts without a target"},
		{"TransmitBytes", 96, "bytes of the frames that Transmit counts, padding included"},
		{"ReceiveBytes", 97, "bytes of the frames that Receive counts"},
		{"Interrupt", 98, "times that the interrupt line rose"},
		{"BusClocks", 99, "clocks in which the NIC, or an access to it, used the system bus"},
	}}},
}

var traceSection = Section{
	Title: "Trace events",
	Doc:   "One record per event of an engine: {event, VI, queue sequence, time}. Names follow the stages of a message.",
	Enums: []Enum{
		{Name: "TraceEvent", Doc: "Events of the card's trace port, and of the models around it.", Width: 8, Values: []Value{
			{"DoorbellCommitted", 1, "third dword accepted"},
			{"DescriptorStart", 2, "the VI was taken from the ready list"},
			{"DescriptorTranslated", 3, "physical address of the descriptor known"},
			{"DescriptorFetched", 4, "last dword of the descriptor read"},
			{"DescriptorParsed", 5, "descriptor passed to the transmit engine"},
			{"SendTranslated", 6, "physical address of the send buffer known (first page of a frame)"},
			{"PayloadRead", 7, "last payload byte of a frame read from host memory"},
			{"FrameBuilt", 8, "frame complete in the packet buffer"},
			{"CompletionWritten", 9, "Status of the descriptor is on the bus"},
			{"MacTransmitStart", 10, "first word of the frame given to the MAC"},
			{"MacTransmitEnd", 11, "last word of the frame given to the MAC"},
			{"MacReceiveStart", 12, "first word of a frame taken from the MAC"},
			{"MacReceiveEnd", 13, "frame complete in the receive buffer"},
			{"ReceiveParsed", 14, "header parsed and the VI checked"},
			{"ReceiveTranslated", 15, "physical address of the target known"},
			{"ReceiveWritten", 16, "last payload byte of the frame is on the bus"},
			{"CommandStart", 17, "command address written"},
			{"CommandDone", 18, "command status is on the bus"},
			{"RawTransmitted", 19, "raw frame built in the packet buffer"},
			{"RawReceived", 20, "raw ring entry is on the bus"},
			{"ReceiveDescriptorStored", 21, "a receive descriptor is on the chip; sequence is the receive queue's"},
			{"ReceiveCompletionWritten", 22, "Status of a receive descriptor is on the bus; sequence is the receive queue's"},
			{"MacBusStart", 23, "FRAME# asserted on the MAC bus; sequence is a MacBusUse"},
			{"MacBusEnd", 24, "the MAC bus is idle again"},
			{"HostBusStart", 25, "FRAME# asserted on the system bus by any master; sequence is 1 if it is this card"},
			{"HostBusEnd", 26, "the system bus is idle again"},
			{"AcknowledgeBuilt", 27, "acknowledgement complete in the packet buffer; sequence is its number's low 16 bits"},
			{"AcknowledgeReceived", 28, "the ledger took an acknowledgement; likewise"},
			{"Rewound", 29, "the ledger rewinds to the oldest unacknowledged frame; likewise"},
			{"Resumed", 30, "the ledger gives the transmit engine a message to retransmit or to continue; likewise of the first frame to send"},
			{"CompletionQueueWritten", 31, "Word of a completion queue's entry is on the bus; sequence is the number of the queue"},
			{"HostDoorbell", 32, "host model: doorbell store; sequence is its offset in the page"},
			{"HostVisible", 33, "host model: a poller saw the data"},
			{"WireStart", 34, "wire model: first bit on the wire"},
			{"WireEnd", 35, "wire model: frame passed to the receiving MAC"},
		}},
		{Name: "TraceSource", Doc: "Engines with a trace port.", Width: 4, Values: []Value{
			{"Doorbell", 0, "doorbell"}, {"DescriptorFetch", 1, "descriptor_fetch"}, {"Transmit", 2, "tx_engine"}, {"Completion", 3, "completion"},
			{"MacTransmit", 4, "gec, transmit side"}, {"MacReceive", 5, "gec, receive side"}, {"Receive", 6, "rx_engine"}, {"Command", 7, "vi_manager"}, {"Raw", 8, "raw_port"},
			{"MacBus", 9, "gec, MAC bus"}, {"HostBus", 10, "system bus"}, {"Ledger", 11, "send_ledger"},
		}},
		{Name: "MacBusUse", Doc: "Purpose of a transaction of the MAC bus.", Width: 3, Values: []Value{
			{"Configuration", 0, "configuration cycle or register access by the card"}, {"Kick", 1, "write of CR by the card"},
			{"DescriptorRead", 2, "descriptor read by the MAC"}, {"StatusWrite", 3, "status written by the MAC"},
			{"FrameRead", 4, "burst of a frame to send"}, {"FrameWrite", 5, "burst of a received frame"},
		}},
	},
	Structs: []Struct{{
		Name: "TraceRecord", Doc: "A record in a trace file.", Size: 16, Fields: []Field{
			{Name: "Time", Offset: 0, Width: 8, Doc: "simulated time in picoseconds (two's complement)"},
			{Name: "Sequence", Offset: 8, Width: 4, Doc: "queue or frame sequence"},
			{Name: "Node", Offset: 12, Width: 1, Doc: "node number"},
			{Name: "VI", Offset: 13, Width: 1, Doc: "VI index"},
			{Name: "Event", Offset: 14, Width: 1, Doc: "TraceEvent"},
			{Name: "Port", Offset: 15, Width: 1, Doc: "Ethernet port"},
		},
	}, {
		Name: "FrameRecord", Doc: "A frame in a frame file; the frame's bytes follow.", Size: 16, Fields: []Field{
			{Name: "Time", Offset: 0, Width: 8, Doc: "simulated time at which the preamble begins at the sender into this cable, in picoseconds (two's complement)"},
			{Name: "Source", Offset: 8, Width: 1, Doc: "sending node, or WireSwitch"},
			{Name: "Destination", Offset: 9, Width: 1, Doc: "receiving node, or WireSwitch"},
			{Name: "Length", Offset: 10, Width: 2, Doc: "bytes that follow: the frame without preamble and FCS"},
			{Name: "Faults", Offset: 12, Width: 2, Doc: "injected faults: bit n for WireFault n; the bytes are those sent"},
		},
	}},
}

var counterSection = Section{
	Title: "Counters",
	Doc: "32 bits each, wrapping, read at CounterBase + 4 n of BAR 0. One bank per block. Every frame that MacReceiveFrame counts ends in exactly one of ReceiveNotForUs, RawReceive, " +
		"RawReceiveDropped, RawReceiveError, ReceiveMalformed, ReceiveBadVI, ReceiveOldSequence, ReceiveUnsupported, ReceiveDropped, ReceiveQueueEmpty, ReceiveLength, ReceiveDescriptorError, " +
		"ReceiveProtection, ReceiveBusError, ReceiveReadLimit, ReceiveOutOfOrder, ReceiveAcknowledge, ReceiveNAKed and ReceiveFrame; ReceiveGap, ReceiveAborted and ReceiveMessage count in addition.",
	Enums: []Enum{{Name: "Counter", Doc: "Counter numbers.", Width: 7, Values: []Value{
		{"DoorbellSend", 0, "send doorbells committed"},
		{"DoorbellReceive", 1, "receive doorbells committed"},
		{"DoorbellMalformed", 2, "doorbells or dwords of them dropped: wrong sequence, restarted, byte enables, VI or alignment"},
		{"DoorbellOverrun", 3, "doorbells dropped: queue count full"},
		{"DescriptorFetched", 8, "descriptors read"},
		{"DescriptorBad", 9, "unreachable descriptors (handle, tag, bounds, bus)"},
		{"DescriptorFlushed", 10, "descriptors flushed"},
		{"DescriptorError", 11, "descriptors completed with a local error"},
		{"DescriptorSegments", 12, "reads of further segments"},
		{"CompletionQueueEntry", 13, "entries of completion queues written"},
		{"CompletionQueueOverrun", 14, "entries lost: the completion queue was full, or the bus rejected the write"},
		{"Notify", 15, "armed events that occurred"},
		{"TransmitMessage", 16, "messages passed to the network"},
		{"TransmitFrame", 17, "VIA frames built"},
		{"TransmitAborted", 18, "messages given up after the first frame (protection or bus error on a later page)"},
		{"TransmitAcknowledge", 19, "acknowledgements built"},
		{"CompletionWritten", 20, "completions written"},
		{"CompletionError", 21, "completions with a bus error, or with deregistered descriptor memory"},
		{"CompletionReceive", 22, "those of CompletionWritten that belong to receive queues"},
		{"RetransmitFrame", 23, "VIA frames retransmitted; TransmitFrame counts them too"},
		{"MacTransmitFrame", 24, "frames given to the MAC"},
		{"MacReceiveFrame", 25, "good frames taken from the MAC"},
		{"MacReceiveBad", 26, "frames dropped: FCS or cut off"},
		{"MacReceiveLong", 27, "frames dropped: longer than the buffer"},
		{"MacReceiveOverrun", 28, "frames dropped: the MAC's FIFO was full"},
		{"MacBusError", 29, "transactions of the MAC bus that ended in an abort or with a parity error"},
		{"RetryTimeout", 30, "timeouts of reliable connections"},
		{"Rewind", 31, "rewinds of reliable connections after a gap reported by the peer"},
		{"ReceiveFrame", 32, "VIA frames accepted, all of their payload in host memory"},
		{"ReceiveNotForUs", 33, "frames dropped: other destination address"},
		{"ReceiveMalformed", 34, "VIA frames dropped: version, operation, flags or length"},
		{"ReceiveBadVI", 35, "VIA frames dropped: VI not connected, wrong generation, wrong source"},
		{"ReceiveOldSequence", 36, "VIA frames dropped: sequence behind the expected one"},
		{"ReceiveGap", 37, "VIA frames accepted with a gap before them"},
		{"ReceiveProtection", 38, "RDMA frames dropped: handle, tag, bounds or enable bits"},
		{"ReceiveBusError", 39, "frames with a host bus error"},
		{"ReceiveAborted", 40, "incoming messages cut off"},
		{"ReceiveUnsupported", 41, "VIA frames dropped: operation not implemented"},
		{"ReceiveQueueEmpty", 42, "frames dropped: no receive descriptor for the message that they start"},
		{"ReceiveDropped", 43, "frames dropped: their message was given up, or never started"},
		{"ReceiveLength", 44, "frames that exceed the posted buffers"},
		{"ReceiveDescriptorError", 45, "frames dropped: the receive descriptor is malformed, or its buffers are not accessible"},
		{"ReceiveMessage", 46, "messages that consumed a receive descriptor"},
		{"ReceiveReadLimit", 47, "read requests dropped: the limit of unanswered ones is reached"},
		{"RawTransmit", 48, "raw frames sent"},
		{"RawReceive", 49, "raw frames stored"},
		{"RawReceiveDropped", 50, "raw frames dropped: no buffer"},
		{"RawTransmitError", 51, "raw transmit entries ended with Error"},
		{"RawReceiveError", 52, "raw receive entries ended with Error"},
		{"ReceiveOutOfOrder", 53, "frames dropped: an earlier one is missing (reliable), or SequenceWindow or more are (unreliable)"},
		{"ReceiveAcknowledge", 54, "acknowledgements of reliable connections"},
		{"ReceiveNAKed", 55, "frames of reliable connections dropped: NAKed, or after a NAK"},
		{"Command", 56, "commands executed"},
		{"CommandError", 57, "commands rejected"},
		{"CommandIgnored", 58, "writes to CommandAddress while busy"},
		{"RetryExhausted", 59, "reliable connections broken after RetryLimit timeouts"},
		{"AcknowledgeStray", 60, "acknowledgements of frames that are not in flight"},
		{"NAKReceived", 61, "reliable connections broken by a NAK of the peer"},
		{"NAKSent", 62, "reliable connections broken by a NAK of this card"},
		{"ReadResponse", 63, "RDMA reads whose complete response was acknowledged"},
		{"AttTranslate", 64, "translations"},
		{"AttLevel1Read", 65, "level-1 entries read from SDRAM"},
		{"AttLevel2Read", 66, "level-2 entries read from SDRAM"},
		{"AttError", 67, "failed translations"},
		{"AttInvalidate", 68, "handles invalidated"},
		{"SdramRefresh", 69, "refreshes"},
		{"MacTransmitDropped", 70, "frames dropped: the MAC did not take them in time, for example without a link"},
		{"PciMasterRead", 72, "read bursts completed"},
		{"PciMasterWrite", 73, "write bursts completed"},
		{"PciMasterRetry", 74, "bursts retried or disconnected by the target"},
		{"PciMasterAbort", 75, "bursts ended by master or target abort"},
		{"PciParityError", 76, "parity errors detected"},
		{"PciTargetWrite", 77, "dwords written by the host"},
		{"PciTargetRead", 78, "dwords read by the host"},
	}}},
}
