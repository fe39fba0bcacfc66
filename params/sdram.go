// SPDX-License-Identifier: Apache-2.0

package params

// PC100 SDRAM on the card. The controller counts clocks; the chip model checks
// the data sheet's times. TestSdramClocksCoverTimes holds the two together.
var sdramTable = []row{
	{"SdramBankBits", Elaboration, 2, "1", Sourced, "PC100 devices have four banks", "log2 of the banks"},
	{"SdramRowBits", Elaboration, 12, "1", Structure, "4 x 4096 x 1024 x 32 bits = 64 MiB", "log2 of the rows of a bank"},
	{"SdramColumnBits", Elaboration, 10, "1", Structure, "4 x 4096 x 1024 x 32 bits = 64 MiB", "log2 of the dwords of a row"},
	{"SdramCasClocks", Elaboration, 2, "clock", Sourced, "PC100 SPD of the Transcend TS8MLS64V8C2: CL2", "READ to data"},
	{"SdramRcdClocks", Elaboration, 2, "clock", Structure, "SdramRcdTime at 10 ns", "ACTIVE to READ or WRITE"},
	{"SdramRpClocks", Elaboration, 2, "clock", Structure, "SdramRpTime at 10 ns", "PRECHARGE to ACTIVE or REFRESH"},
	{"SdramRasClocks", Elaboration, 5, "clock", Structure, "SdramRasTime at 10 ns", "ACTIVE to PRECHARGE"},
	{"SdramRcClocks", Elaboration, 7, "clock", Structure, "SdramRcTime at 10 ns", "ACTIVE to ACTIVE, REFRESH to any command"},
	{"SdramMrdClocks", Elaboration, 2, "clock", Sourced, "PC SDRAM specification 1.7: tMRD", "MODE REGISTER SET to any command"},
	{"SdramWrClocks", Elaboration, 2, "clock", Sourced, "PC SDRAM specification 1.7: tDPL", "last written data to PRECHARGE"},
	{"SdramRefreshClocks", Elaboration, 1562, "clock", Structure, "SdramRefreshTime at 10 ns", "REFRESH to REFRESH"},
	{"SdramPowerUpClocks", Elaboration, 20000, "clock", Structure, "SdramPowerUpTime at 10 ns", "reset to the first command"},
	{"SdramInitRefreshes", Elaboration, 8, "1", Sourced, "8 is customary, 2 the minimum of JESD21-C", "refreshes before the mode register is set"},

	{"SdramRcdTime", Model, 20000, "ps", Sourced, "PC100 SPD of the Transcend TS8MLS64V8C2", "tRCD"},
	{"SdramRpTime", Model, 20000, "ps", Sourced, "PC100 SPD of the Transcend TS8MLS64V8C2", "tRP"},
	{"SdramRasTime", Model, 50000, "ps", Sourced, "PC100 SPD of the Transcend TS8MLS64V8C2", "tRAS"},
	{"SdramRcTime", Model, 70000, "ps", Sourced, "PC100: tRAS + tRP", "tRC, of ACTIVE and of REFRESH"},
	{"SdramRrdTime", Model, 20000, "ps", Sourced, "PC100 SPD of the Transcend TS8MLS64V8C2", "tRRD, ACTIVE to ACTIVE of another bank"},
	{"SdramRefreshTime", Model, 15625000, "ps", Sourced, "4096 rows in 64 ms", "mean time between refreshes"},
	{"SdramPowerUpTime", Model, 200000000, "ps", Sourced, "PC SDRAM specification 1.7", "stable power to the first command"},
}
