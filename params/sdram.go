// SPDX-License-Identifier: Apache-2.0

package params

import (
	"fmt"
	"slices"
)

// PC100 SDRAM on the card. The controller counts clocks; the chip model checks
// the data sheet's times. The counts are derived from the times, for the card's
// clock and for the slow clock of an ablation; TestSdramClocksCoverTimes checks
// both.
var sdramTable = slices.Concat(sdramChip, sdramClocks("Sdram", 10000, ""), sdramCommon,
	[]row{{"SdramSlowClockPeriod", Elaboration, sdramSlowPeriod, "ps", Structure, "33.33 MHz, as the PCI bus: an SDRAM at a third of its speed, a variant of docs/explanation/reproduction.md", "SDRAM clock that the counts SdramSlow... are for: strap SlowSdram, with SdramClockPeriod replaced by this"}},
	sdramClocks("SdramSlow", sdramSlowPeriod, ", with strap SlowSdram"), sdramTimes)

const (
	sdramSlowPeriod  = 30000
	sdramRcdTime     = 20000
	sdramRpTime      = 20000
	sdramRasTime     = 50000
	sdramRcTime      = 70000
	sdramRefreshTime = 15625000
	sdramPowerUpTime = 200000000
)

var sdramChip = []row{
	{"SdramBankBits", Elaboration, 2, "1", Sourced, "PC100 devices have four banks", "log2 of the banks"},
	{"SdramRowBits", Elaboration, 12, "1", Structure, "4 x 4096 x 1024 x 32 bits = 64 MiB", "log2 of the rows of a bank"},
	{"SdramColumnBits", Elaboration, 10, "1", Structure, "4 x 4096 x 1024 x 32 bits = 64 MiB", "log2 of the dwords of a row"},
	{"SdramCasClocks", Elaboration, 2, "clock", Sourced, "PC100 SPD of the Transcend TS8MLS64V8C2: CL2", "READ to data"},
}

// sdramCommon holds what the data sheet counts in clocks of any period.
var sdramCommon = []row{
	{"SdramMrdClocks", Elaboration, 2, "clock", Sourced, "PC SDRAM specification 1.7: tMRD", "MODE REGISTER SET to any command"},
	{"SdramWrClocks", Elaboration, 2, "clock", Sourced, "PC SDRAM specification 1.7: tDPL", "last written data to PRECHARGE"},
	{"SdramInitRefreshes", Elaboration, 8, "1", Sourced, "8 is customary, 2 the minimum of JESD21-C", "refreshes before the mode register is set"},
}

// sdramClocks are the counts for a period: the shortest that cover the times,
// for refresh the longest.
func sdramClocks(prefix string, period int64, when string) []row {
	at := fmt.Sprintf(" at %d ns", period/1000)
	up := func(time int64) int64 { return (time + period - 1) / period }
	return []row{
		{prefix + "RcdClocks", Elaboration, up(sdramRcdTime), "clock", Structure, "SdramRcdTime" + at, "ACTIVE to READ or WRITE" + when},
		{prefix + "RpClocks", Elaboration, up(sdramRpTime), "clock", Structure, "SdramRpTime" + at, "PRECHARGE to ACTIVE or REFRESH" + when},
		{prefix + "RasClocks", Elaboration, up(sdramRasTime), "clock", Structure, "SdramRasTime" + at, "ACTIVE to PRECHARGE" + when},
		{prefix + "RcClocks", Elaboration, up(sdramRcTime), "clock", Structure, "SdramRcTime" + at, "ACTIVE to ACTIVE, REFRESH to any command" + when},
		{prefix + "RefreshClocks", Elaboration, sdramRefreshTime / period, "clock", Structure, "SdramRefreshTime" + at, "REFRESH to REFRESH" + when},
		{prefix + "PowerUpClocks", Elaboration, up(sdramPowerUpTime), "clock", Structure, "SdramPowerUpTime" + at, "reset to the first command" + when},
	}
}

var sdramTimes = []row{
	{"SdramRcdTime", Model, sdramRcdTime, "ps", Sourced, "PC100 SPD of the Transcend TS8MLS64V8C2", "tRCD"},
	{"SdramRpTime", Model, sdramRpTime, "ps", Sourced, "PC100 SPD of the Transcend TS8MLS64V8C2", "tRP"},
	{"SdramRasTime", Model, sdramRasTime, "ps", Sourced, "PC100 SPD of the Transcend TS8MLS64V8C2", "tRAS"},
	{"SdramRcTime", Model, sdramRcTime, "ps", Sourced, "PC100: tRAS + tRP", "tRC, of ACTIVE and of REFRESH"},
	{"SdramRrdTime", Model, 20000, "ps", Sourced, "PC100 SPD of the Transcend TS8MLS64V8C2", "tRRD, ACTIVE to ACTIVE of another bank"},
	{"SdramRefreshTime", Model, sdramRefreshTime, "ps", Sourced, "4096 rows in 64 ms", "mean time between refreshes"},
	{"SdramPowerUpTime", Model, sdramPowerUpTime, "ps", Sourced, "PC SDRAM specification 1.7", "stable power to the first command"},
}
