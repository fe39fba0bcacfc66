// SPDX-License-Identifier: Apache-2.0

package main

// memories is the number of memories that Yosys must find in a module after
// proc, at each data width; 0 for modules that are not listed. Yosys reads some
// arrays as one register without a warning; only the count shows it.
var memories = map[string]int{
	"hvia_acknowledge":   2,
	"hvia_att_walker":    1,
	"hvia_cdc_fifo":      1,
	"hvia_completion":    2,
	"hvia_counters":      1,
	"hvia_doorbell":      4,
	"hvia_gec":           2,
	"hvia_host_arbiter":  3,
	"hvia_notify":        1,
	"hvia_pci_master":    2,
	"hvia_pci_target":    1,
	"hvia_raw_ring":      2,
	"hvia_receive_store": 3,
	"hvia_registers":     1,
	"hvia_rx_engine":     1,
	"hvia_send_ledger":   6,
	"hvia_tx_engine":     1,
	"hvia_vi_context":    1,
	"hvia_vi_list":       1,
	"hvia_vi_manager":    1,
	"hvia_work_queue":    4,
}
