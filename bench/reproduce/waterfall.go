// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"hvia/bench/report"
	"hvia/params"
)

// The host's rows of the waterfall. The rows between them are the stages of the
// trace.
const (
	rowPost = "host: VipPostSend up to the doorbell's store"
	rowPoll = "host: a look finds the data"
)

// latencyBudget is the expected time of each step of an RDMA write of 4 bytes
// on the paper's card (docs/explanation/reproduction.md, Budget of an RDMA
// write of 4 bytes; 12.65 us in all). Where the page has several rows for one
// stage of the trace, this is their sum.
var latencyBudget = map[string]int64{
	rowPost:                          5_250_000,                   // row 1
	"doorbell posted write":          240_000,                     // 2
	"doorbell decode":                90_000,                      // 3
	"ATT: descriptor VA to PA":       230_000,                     // 4
	"system PCI read, descriptor":    780_000,                     // 5
	"parse":                          60_000,                      // 6
	"ATT: send buffer":               230_000,                     // 7
	"system PCI read, payload":       450_000,                     // 8
	"header insert":                  60_000,                      // 9
	"MAC PCI: kick, descriptor":      180_000 + 850_000,           // 10: CR.TXE; 11: dead time and descriptor
	"MAC PCI read, frame":            780_000,                     // 12
	"DP83820 transmit":               250_000,                     // 13
	"wire and PHYs":                  580_000 + 560_000,           // 14: the bits; 15: PHYs and cable
	"DP83820 receive, MAC PCI write": 250_000 + 720_000 + 300_000, // 16: inside the chip; 17: the frame; 18: its status
	"header parse, VI check":         120_000,                     // 19
	"ATT: target buffer":             230_000,                     // 20
	"system PCI write, payload":      240_000,                     // 21
	rowPoll:                          200_000,                     // 22
}

// waterfall lists the steps of a message from the call of VipPostSend to the
// poll that finds its last byte. The rows add up to half a round trip: the rest
// after the post and the stages is the wait for the next poll.
func (p *pingPong) waterfall(half, post int64, sums []int64, messages int64) []report.WaterfallRow {
	rows := []report.WaterfallRow{{Name: rowPost, MeanPs: post}}
	left := half - post
	for j, s := range p.exchange.Stages() {
		mean := sums[j] / messages
		rows = append(rows, report.WaterfallRow{Name: s.Name, MeanPs: mean})
		left -= mean
	}
	rows = append(rows, report.WaterfallRow{Name: rowPoll, MeanPs: left})
	if p.board.Profile == params.Base {
		for i := range rows {
			rows[i].BudgetPs = latencyBudget[rows[i].Name]
		}
	}
	return rows
}
