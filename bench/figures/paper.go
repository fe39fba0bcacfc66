// SPDX-License-Identifier: Apache-2.0

package figures

// Numbers that the paper prints ("A VIA-based RDMA Mechanism for High
// Performance PC Cluster Systems", 2004, section 5). It prints no other points
// of its curves. The size of the largest bandwidth, 64 KiB, is this project's
// assumption.
const (
	paperShortest = 4
	paperLongest  = 65536

	paperLatencyRDMA = 12.5 // µs
	paperLatencyMVIA = 57.6
	paperLatencyTCP  = 117.9

	paperBandwidthRDMA = 95.5 // MB/s
	paperBandwidthMVIA = 63.5
	paperBandwidthTCP  = 60.0

	paperGap          = 2.9 // µs, mean over the sizes
	paperGainLargest  = 1.4 // MB/s
	paperGainSmallest = 0.1

	paperPostReceive = 6.0 // µs, at every size
)
