// SPDX-License-Identifier: Apache-2.0

package main

// memories says how many memories Yosys must find in a module after proc, at
// each data width. A module that is not listed has none. Yosys reads some arrays
// as one register and warns of nothing; only the count shows it.
var memories = map[string]int{
	"acknowledge":   2,
	"att_walker":    1,
	"cdc_fifo":      1,
	"completion":    2,
	"counters":      1,
	"doorbell":      4,
	"gec":           2,
	"host_arbiter":  3,
	"notify":        1,
	"pci_master":    2,
	"pci_target":    1,
	"raw_ring":      2,
	"receive_store": 3,
	"registers":     1,
	"rx_engine":     1,
	"send_ledger":   6,
	"tx_engine":     1,
	"vi_context":    1,
	"vi_list":       1,
	"vi_manager":    1,
	"work_queue":    4,
}
