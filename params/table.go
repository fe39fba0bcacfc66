// SPDX-License-Identifier: Apache-2.0

package params

import "slices"

var table = withPriors(slices.Concat(cardTable, sdramTable, boardTable, macTable, wireTable, nicTable, hostTable, kernelTable, driverTable))

// priors are the guesses that fitted parameters had before their fit. A run
// with all of them is a prediction.
var priors = map[string]int64{
	"MacReactClocks": 4,
	"MviaPacketTime": 8100000,
	"MviaWakeTime":   8500000,
	"TcpPacketTime":  7600000,
	"TcpWakeTime":    77000000,
}

// row is a parameter in the tables below.
type row struct {
	name        string
	class       Class
	value       int64
	unit        string
	tag         Tag
	source, doc string
}

func withPriors(rows []row) []Param {
	t := make([]Param, len(rows))
	for i, r := range rows {
		t[i] = Param{Name: r.name, Class: r.class, Value: r.value, Prior: priors[r.name], Unit: r.unit, Tag: r.tag, Source: r.source, Doc: r.doc,
			Least: ranges[r.name].least, Most: ranges[r.name].most}
	}
	return t
}

// cardTable holds the parameters of the RTL.
var cardTable = []row{
	{"VICountLog2", Elaboration, 8, "1", Structure, "256 VIs", "log2 of the number of VIs"},
	{"PageBytesLog2", Elaboration, 12, "1", Sourced, "IA-32: 4 KiB pages of the Pentium III; the paper prints no page size, and its Figure 6 (9 KB in pages 2C00h, 5000h and 8000h, 1 KB of it in the first) fits no other", "log2 of the page size"},
	{"SystemBusBits", Elaboration, 32, "bit", Paper, "the host of the measurements: 32-bit, 33 MHz PCI", "width of the system bus and of the core's data paths"},
	{"MacBusBits", Elaboration, 32, "bit", Structure, "as wide as the system bus", "width of the MAC bus and of the packet buffers"},
	{"DmaBurstBytes", Elaboration, 512, "byte", Paper, "section 5: 512-byte DMA bursts", "longest burst on the system bus"},
	{"ShortBurstBytes", Elaboration, 64, "byte", Structure, "an eighth of DmaBurstBytes, the ablation that measures the value of long bursts", "longest burst of payload with strap ShortBursts"},
	{"PacketSlotBytes", Elaboration, 2048, "byte", Structure, "holds a 1514-byte frame", "one packet buffer"},
	{"PacketSlots", Elaboration, 2, "1", Structure, "two suffice and one does not (one message in, one out)", "packet buffers per direction"},
	{"QueueDepthLog2", Elaboration, 10, "1", Structure, "1,024 descriptors per queue", "log2 of the descriptors posted and not fetched"},
	{"LedgerMessages", Elaboration, 16, "1", Structure, "a 4-byte write takes 5 us of host time and its acknowledgement 12 us; four more may be in flight to the ledger when it stops a queue", "unacknowledged messages of a reliable VI"},
	{"LedgerResponses", Elaboration, 4, "1", Structure, "sending one read response hides the request of the next", "unanswered RDMA reads of the peer of a reliable VI"},
	{"AcknowledgeEvery", Elaboration, 4, "frame", Structure, "a quarter of the window; each message is acknowledged too", "frames inside a message that are acknowledged together"},
	{"RetryAliveFactor", Elaboration, 64, "1", Structure, "the longest wait of a read for its turn is 256 VIs with 4 reads of 64 KiB each, 0.71 s on the wire; TransportRetryLimit timeouts of 2^TransportRetryTimeoutLog2 clocks are 13.8 ms, so 52 is the least, 64 the next power of two", "timeouts in a row without progress before a connection to a living peer breaks, as a multiple of RetryLimit"},
	{"CompletionQueuesLog2", Elaboration, 6, "1", Structure, "64 completion queues for 256 VIs", "log2 of the number of completion queues"},
	{"TransmitSlotLog2", Elaboration, 15, "1", Structure, "half of 2^TransportRetryTimeoutLog2 clocks, and 15 times the wire time of the MAC's full FIFO", "log2 of the core clocks after which frames that the MAC does not take are dropped"},
	{"DisconnectPatience", Elaboration, 262144, "clock", Structure, "a full queue flushes in half of it (about 100 clocks each)", "wait of a disconnect before the card ignores further doorbells of that VI"},
}

// boardTable holds the clocks and the model of the host bridge.
var boardTable = []row{
	{"SystemClockPeriod", Model, 30000, "ps", Sourced, "PCI 2.3: 33.33 MHz", "system PCI and core clock"},
	{"SdramClockPeriod", Model, 10000, "ps", Sourced, "PC100", "SDRAM clock"},
	{"MacClockPeriod", Model, 30000, "ps", Structure, "MAC bus at 33.33 MHz", "MAC side of the packet buffers"},
	{"MacClockPhase", Model, 7000, "ps", Structure, "clocks are asynchronous: any phase but 0", "offset of the MAC clock's edges"},
	{"SdramClockPhase", Model, 3000, "ps", Structure, "clocks are asynchronous: any phase but 0", "offset of the SDRAM clock's edges"},
	{"BridgeArbitrationClocks", Model, 2, "clock", Guess, "central arbiter of a PC chip set", "REQ# to GNT# on an idle bus"},
	{"BridgeDevselClocks", Model, 2, "clock", Guess, "medium decode, as PC chip sets do", "FRAME# to DEVSEL# of host memory"},
	{"BridgeReadInitialClocks", Model, 9, "clock", Calibrated("T10"), "with BridgeReadWaitEvery: 512-byte reads measured in RTL at 142 clocks each, 120.2 MB/s (sim/unit/pci, TestBursts); PCI 2.3 allows 16", "FRAME# to first TRDY# of a read from host memory"},
	{"BridgeWriteInitialClocks", Model, 2, "clock", Guess, "the bridge posts the first dword after it decoded the address", "FRAME# to first TRDY# of a write to host memory"},
	{"BridgeReadWaitEvery", Model, 64, "dword", Calibrated("T10"), "with BridgeReadInitialClocks: 142 clocks, 120.2 MB/s", "dwords between wait states inside a read burst, 0 = none"},
	{"BridgeWriteWaitEvery", Model, 15, "dword", Calibrated("T10"), "512-byte writes measured in RTL at 142 clocks each, 120.2 MB/s (sim/unit/pci, TestBursts)", "dwords between wait states inside a write burst, 0 = none"},
	{"BridgeWaitClocks", Model, 1, "clock", Guess, "the minimum; PCI 2.3 allows 7", "length of a wait inside a burst"},
	{"BridgeSplitWrites", Model, 0, "1/1000", Structure, "the stores of a doorbell stay one burst in the chip sets of the measurements; any other value tries what PCI allows", "probability that the bridge ends a burst of stores after a dword and lets a store of another thread precede the rest"},
	{"BridgePostedWriteClocks", Model, 2, "clock", Guess, "processor store to FRAME#", "host posted write to the first clock of its PCI transaction"},
}

// macTable holds the model of the DP83820.
var macTable = []row{
	{"MacTransmitFifoBytes", Model, 8192, "byte", Sourced, "DP83820: 8 KB transmit FIFO", "transmit FIFO of the MAC"},
	{"MacReceiveFifoBytes", Model, 32768, "byte", Sourced, "DP83820: 32 KB receive FIFO", "receive FIFO of the MAC"},
	{"MacReactClocks", Model, 24, "clock", Calibrated("T3"), "RDMA writes of 64 KiB measured at 99.74 MB/s with 4 clocks, 4.4 % above the 95.5 of the paper; 95.89 with 24, the most that was allowed (2 to 24); nothing else fitted to it", "status of a sent frame written, or CR.TXE, to REQ# for the next transmit descriptor"},
	{"MacRegisterInitialClocks", Model, 3, "clock", Guess, "medium DEVSEL# and one clock", "FRAME# to TRDY# of an access to the MAC's registers"},
	{"MacReadWaitEvery", Model, 9, "1", Calibrated("T10"), "512-byte reads of a target that answers in 3 clocks: 146 clocks each, 116.9 MB/s (sim/unit/mac/dp83820)", "data phases between IRDY# wait states of the MAC's reads, 0 = none"},
	{"MacWriteWaitEvery", Model, 8, "1", Calibrated("T10"), "512-byte writes to a target that answers in 2 clocks: 146 clocks each, 116.9 MB/s (sim/unit/mac/dp83820)", "data phases between IRDY# wait states of the MAC's writes, 0 = none"},
	{"MacTransmitDelay", Model, 250000, "ps", Guess, "DP83820 internal; all of it below 2 us by GAMMA's 8.5 us one way", "transmit FIFO to the PHY"},
	{"MacReceiveDelay", Model, 250000, "ps", Guess, "as MacTransmitDelay", "PHY to the receive FIFO"},
}

// wireTable holds PHY, link and switch.
var wireTable = []row{
	{"WireBitTime", Model, 1000, "ps", Sourced, "IEEE 802.3: 1 Gb/s", "one bit"},
	{"WirePreambleBytes", Model, 8, "byte", Sourced, "IEEE 802.3 clause 3", "preamble and start delimiter"},
	{"WireFcsBytes", Model, 4, "byte", Sourced, "IEEE 802.3 clause 3", "frame check sequence"},
	{"WireGapBytes", Model, 12, "byte", Sourced, "IEEE 802.3 clause 4", "inter-frame gap"},
	{"PhyTransmitDelay", Model, 152000, "ps", Guess, "DP83865-class PHY, GMII to MDI", "PHY, transmit"},
	{"PhyReceiveDelay", Model, 384000, "ps", Sourced, "DP83865 data sheet, MDI to GMII", "PHY, receive"},
	{"CableDelay", Model, 25000, "ps", Structure, "5 m at 5 ns/m", "cable"},
	{"SwitchLatency", Model, 3860000, "ps", Sourced, "EMP (Shivam, Wyckoff, Panda), raw numbers: a switch between two hosts adds 5 us to a short message; 1.14 us of them are a second cable with its PHYs and the time of a frame of 64 bytes", "switch: last byte of a frame's FCS to its preamble on an idle port"},
	{"SwitchQueueBytes", Model, 65536, "byte", Guess, "twice an eighth of the 256 KB that eight ports share in a switch chip of 2002 (RTL8308B data sheet, 6.12)", "switch: capacity of a port's output queue, frames with FCS"},
	{"SwitchTableEntries", Model, 8192, "1", Sourced, "SMC6516 manual: 8,192 addresses, as in most of its kind", "switch: addresses that it learns"},
	{"SwitchAgeingTime", Model, 500000000000, "ps", Guess, "IEEE 802.1D-1998 (table 7-5) recommends 300 s, which is longer than any run; half of the 1 s for which programs wait for a connection", "switch: time without a frame after which an address is dropped"},
}

// hostTable holds the host processor's costs, charged in timed mode.
var hostTable = []row{
	{"HostPostTime", Host, 5250000, "ps", Calibrated("T8"), "Figure 11: 6.0 us less one pair of gettimeofday (0.75 us)", "VipPostSend up to the doorbell store"},
	{"HostReceiveWaitTime", Host, 2530000, "ps", Calibrated("T5"), "gap between send and receive and RDMA write at 4 bytes, with MacReactClocks at 4: 0.315 us without it, 2.900 us with it (15.095 less 12.195)", "RecvWait and RecvDone, from the poll that finds the done bit to the return"},
	{"HostTimeOfDayTime", Host, 750000, "ps", Guess, "a null call (0.40 us, lmbench on a Pentium III with Linux 2.4) and the body", "call of gettimeofday; a pair of them adds one to what it measures"},
	{"HostPollPeriod", Host, 220000, "ps", Guess, "one uncached miss (180 ns, lmbench class) and a loop (40 ns)", "period of a polling loop"},
}

// nicTable holds the model of the plain NIC of the baselines.
var nicTable = []row{
	{"NICTransmitTime", Model, 11250000, "ps", Sourced, "Ciaccio: GAMMA one way over a GA620 (Tigon II) takes 32 us, over a GNIC-II 9.5 us; the difference, halved for each side", "firmware: write of the transmit ring's tail to the first read of its entries"},
	{"NICReceiveTime", Model, 11250000, "ps", Sourced, "as NICTransmitTime, the other half", "firmware: last byte of a frame in the FIFO to the write into its buffer"},
	{"NICFetchEntries", Model, 4, "1", Structure, "64 bytes, two cache lines of a Pentium III", "most ring entries read in one burst"},
	{"NICTransmitBufferFrames", Model, 32, "1", Guess, "48 KB of the 512 KB SRAM of a Tigon II", "frames read and not sent"},
	{"NICReceiveFifoBytes", Model, 131072, "byte", Guess, "a quarter of the 512 KB SRAM of a Tigon II", "frames received and not in memory"},
	{"NICReceiveCoalesceTime", Model, 0, "ps", Guess, "every frame is reported: the 120 us and 25 frames that Linux 2.4 acenic.c sets by default exceed the 57.6 us that the paper measured for M-VIA", "time from the first stored frame not yet reported to the interrupt's cause; a multiple of 1 ns"},
	{"NICReceiveCoalesceFrames", Model, 1, "1", Guess, "as NICReceiveCoalesceTime", "unreported stored frames that raise the cause before that time, 0 = no such number"},
	{"NICTransmitCoalesceTime", Model, 400000000, "ps", Sourced, "Linux 2.4 acenic.c: tx_coal_tick 400", "time from the first read frame not yet reported to the interrupt's cause; a multiple of 1 ns"},
	{"NICTransmitCoalesceFrames", Model, 40, "1", Sourced, "Linux 2.4 acenic.c: max_tx_desc 40", "unreported read frames that raise the cause before that time, 0 = no such number"},
}

// kernelTable holds the host's costs in the protocols of the baselines. Two
// values per protocol are fitted, to the ends of its curve.
var kernelTable = []row{
	{"HostTrapTime", Host, 400000, "ps", Sourced, "lmbench null call, Pentium III 868 MHz with Linux 2.4.20 (lkml, 18 Oct 2002)", "a system call: into the kernel and out of it"},
	{"HostSwitchTime", Host, 1100000, "ps", Sourced, "lmbench context switch 2p/0K, the same machine", "giving the processor to a woken thread"},
	{"HostInterruptTime", Host, 2000000, "ps", Guess, "saving of registers, the PIC's acknowledgement over ISA, handlers' dispatch", "into an interrupt service and out of it"},
	{"HostPacketSendTime", Host, 3000000, "ps", Structure, "the model's work for a sent packet (docs/explanation/reproduction.md)", "header, ring entry and tail of a frame to be sent"},
	{"HostCopyTime", Host, 8929, "ps", Sourced, "lmbench bcopy (libc), the same machine: 112 MB/s", "copying one byte between user memory and the kernel's"},
	{"MviaPacketTime", Host, 8030000, "ps", Calibrated("T4"), "M-VIA at 64 KiB: 63.30 MB/s at the model's 8.1 us (docs/explanation/reproduction.md), 63.49 with it; the paper has 63.5", "M-VIA: the interrupt service's work for a received packet, without the copy"},
	{"MviaWakeTime", Host, 8480000, "ps", Calibrated("T2"), "M-VIA at 4 bytes: 57.69 us at 8.5 us, which is the model's fixed 44.0 us (docs/explanation/reproduction.md) less the other costs and the NIC's; 57.60 with it, as the paper has", "M-VIA: wake of a blocked thread, up to the start of its switch"},
	{"TcpPacketTime", Host, 3440000, "ps", Calibrated("T4"), "TCP/IP at 64 KiB: 51.76 MB/s at the model's 7.6 us (docs/explanation/reproduction.md), which has no acknowledgements, 60.00 with it, as the paper has; every segment is acknowledged, and the acknowledgement is such a packet", "TCP/IP: the interrupt service's work for a received packet, without the copy"},
	{"TcpWakeTime", Host, 81220000, "ps", Calibrated("T2"), "TCP/IP at 4 bytes: 117.84 us at 77.0 us, which is the model's fixed 104.5 us (docs/explanation/reproduction.md) less the other costs and the NIC's; 117.90 with it, as the paper has", "TCP/IP: wake of a blocked thread, up to the start of its switch"},
}

// driverTable holds defaults of the driver's Transport.
var driverTable = []row{
	{"TransportWindow", Driver, 16, "frame", Structure, "four times AcknowledgeEvery", "unacknowledged frames of a reliable VI in flight"},
	{"TransportRetryLimit", Driver, 7, "1", Structure, "a choice; InfiniBand's retry count (3 bits) ends there too", "timeouts in a row without a frame of the peer before a connection breaks"},
	{"TransportRetryTimeoutLog2", Driver, 16, "1", Structure, "1.97 ms at 33 MHz, twice the deadline of TransmitSlotLog2", "log2 of the card's clocks without progress before a retransmission"},
}
