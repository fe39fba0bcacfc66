// SPDX-License-Identifier: Apache-2.0

package params

// A run may replace parameters of the classes model and host, inside these
// ranges. Beyond them models would round silently, violate their bus protocol
// at every transaction, or never end. The simulator checks the ranges too, and
// relations between values.

const (
	millisecond = 1_000_000_000 // ps
	manyClocks  = 1024
)

type limits struct{ least, most int64 }

var ranges = map[string]limits{
	"SdramRcdTime":              {0, millisecond},
	"SdramRpTime":               {0, millisecond},
	"SdramRasTime":              {0, millisecond},
	"SdramRcTime":               {0, millisecond},
	"SdramRrdTime":              {0, millisecond},
	"SdramRefreshTime":          {1, 1000 * millisecond},
	"SdramPowerUpTime":          {0, 1000 * millisecond},
	"SystemClockPeriod":         {1000, 1_000_000},
	"SdramClockPeriod":          {1000, 1_000_000},
	"MacClockPeriod":            {1000, 1_000_000},
	"MacClockPhase":             {0, 999_999},
	"SdramClockPhase":           {0, 999_999},
	"BridgeArbitrationClocks":   {1, manyClocks},
	"BridgeDevselClocks":        {1, 3},  // fast, medium, slow
	"BridgeReadInitialClocks":   {2, 16}, // PCI 2.3: first data phase
	"BridgeWriteInitialClocks":  {1, 16},
	"BridgeReadWaitEvery":       {0, 1 << 20},
	"BridgeWriteWaitEvery":      {0, 1 << 20},
	"BridgeWaitClocks":          {1, 7}, // PCI 2.3: data phases after the first
	"BridgeSplitWrites":         {0, 1000},
	"BridgePostedWriteClocks":   {1, manyClocks},
	"MacTransmitFifoBytes":      {2048, 1 << 20}, // a frame and the burst behind it
	"MacReceiveFifoBytes":       {2048, 1 << 20},
	"MacReactClocks":            {0, manyClocks},
	"MacRegisterInitialClocks":  {2, 16}, // medium decode
	"MacReadWaitEvery":          {0, 1 << 20},
	"MacWriteWaitEvery":         {0, 1 << 20},
	"MacTransmitDelay":          {0, millisecond},
	"MacReceiveDelay":           {0, millisecond},
	"WireBitTime":               {1, 1_000_000},
	"WirePreambleBytes":         {0, 1024},
	"WireFcsBytes":              {4, 4}, // CRC-32, which the MAC makes and checks
	"WireGapBytes":              {0, 1 << 20},
	"PhyTransmitDelay":          {0, millisecond},
	"PhyReceiveDelay":           {0, millisecond},
	"CableDelay":                {0, 1000 * millisecond},
	"SwitchLatency":             {0, 1000 * millisecond},
	"SwitchQueueBytes":          {1518, 1 << 30}, // the largest frame and its FCS
	"SwitchTableEntries":        {0, 1 << 20},
	"SwitchAgeingTime":          {1, 900_000 * millisecond},
	"NICTransmitTime":           {0, millisecond},
	"NICReceiveTime":            {0, millisecond},
	"NICFetchEntries":           {1, 32}, // 512 bytes
	"NICTransmitBufferFrames":   {1, 1 << 20},
	"NICReceiveFifoBytes":       {2048, 1 << 30},
	"NICReceiveCoalesceTime":    {0, 1000 * millisecond},
	"NICReceiveCoalesceFrames":  {0, 1 << 20},
	"NICTransmitCoalesceTime":   {0, 1000 * millisecond},
	"NICTransmitCoalesceFrames": {0, 1 << 20},

	// Host. The limit of HostCopyTime is lower, because it is charged for each
	// byte.
	"HostPostTime":        {0, millisecond},
	"HostReceiveWaitTime": {0, millisecond},
	"HostTimeOfDayTime":   {0, millisecond},
	"HostPollPeriod":      {1000, millisecond}, // a loop that takes no time would never end
	"HostTrapTime":        {0, millisecond},
	"HostSwitchTime":      {0, millisecond},
	"HostInterruptTime":   {0, millisecond},
	"HostPacketSendTime":  {0, millisecond},
	"HostCopyTime":        {0, 1_000_000},
	"MviaPacketTime":      {0, millisecond},
	"MviaWakeTime":        {0, millisecond},
	"TcpPacketTime":       {0, millisecond},
	"TcpWakeTime":         {0, millisecond},
}
