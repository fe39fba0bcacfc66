// SPDX-License-Identifier: Apache-2.0

// Board `hvia-ge`: the core between two PCI buses, the system's and the one with the Ethernet
// controller (DP83820), and the SDRAM's pins. Both buses are `W` bits wide.
module hvia_board #(
    parameter int unsigned W = 32
) (
    input  hvia_types_pkg::blocks_t block_clk_i,  // PCI CLK, the same net for each bit
    input  logic         rst_ni,      // PCI RST#
    input  logic         sd_clk_i,
    input  logic         mac_clk_i,
    input  logic [47:0]  timebase_i,
    input  logic [47:0]  sd_timebase_i,
    input  logic [31:0]  strap_i,

    // PCI
    output logic         req_n_o,
    input  logic         gnt_n_i,
    input  logic         idsel_i,
    output logic         inta_n_o,
    input  logic [W-1:0] ad_i,
    output logic [W-1:0] ad_o,
    output logic         ad_oe,
    input  logic [W/8-1:0] cbe_n_i,
    output logic [W/8-1:0] cbe_n_o,
    output logic         cbe_n_oe,
    input  logic         par_i,
    output logic         par_o,
    output logic         par_oe,
    input  logic         frame_n_i,
    output logic         frame_n_o,
    output logic         frame_n_oe,
    input  logic         irdy_n_i,
    output logic         irdy_n_o,
    output logic         irdy_n_oe,
    input  logic         trdy_n_i,
    output logic         trdy_n_o,
    output logic         trdy_n_oe,
    input  logic         devsel_n_i,
    output logic         devsel_n_o,
    output logic         devsel_n_oe,
    input  logic         stop_n_i,
    output logic         stop_n_o,
    output logic         stop_n_oe,
    input  logic         perr_n_i,
    output logic         perr_n_o,
    output logic         perr_n_oe,
    output logic         serr_n_oe,  // open drain: SERR# is 0 while it is driven
    // Idle at W = 32.
    input  logic         par64_i,
    output logic         par64_o,
    output logic         par64_oe,
    output logic         req64_n_o,
    output logic         req64_n_oe,
    input  logic         ack64_n_i,

    // SDRAM
    output logic         sd_cke_o,
    output logic         sd_cs_n_o,
    output logic         sd_ras_n_o,
    output logic         sd_cas_n_o,
    output logic         sd_we_n_o,
    output logic [1:0]   sd_ba_o,
    output logic [11:0]  sd_a_o,
    output logic [3:0]   sd_dqm_o,
    output logic [31:0]  sd_dq_o,
    output logic         sd_dq_oe_o,
    input  logic [31:0]  sd_dq_i,

    // MAC bus
    output logic         mb_rst_no,
    output logic         mb_idsel_o,
    input  logic         mb_req_n_i,
    output logic         mb_gnt_n_o,
    input  logic [W-1:0] mb_ad_i,
    output logic [W-1:0] mb_ad_o,
    output logic         mb_ad_oe,
    input  logic [W/8-1:0] mb_cbe_n_i,
    output logic [W/8-1:0] mb_cbe_n_o,
    output logic         mb_cbe_n_oe,
    input  logic         mb_par_i,
    output logic         mb_par_o,
    output logic         mb_par_oe,
    input  logic         mb_frame_n_i,
    output logic         mb_frame_n_o,
    output logic         mb_frame_n_oe,
    input  logic         mb_irdy_n_i,
    output logic         mb_irdy_n_o,
    output logic         mb_irdy_n_oe,
    input  logic         mb_trdy_n_i,
    output logic         mb_trdy_n_o,
    output logic         mb_trdy_n_oe,
    input  logic         mb_devsel_n_i,
    output logic         mb_devsel_n_o,
    output logic         mb_devsel_n_oe,
    input  logic         mb_stop_n_i,
    output logic         mb_stop_n_o,
    output logic         mb_stop_n_oe,
    input  logic         mb_par64_i,
    output logic         mb_par64_o,
    output logic         mb_par64_oe,
    input  logic         mb_req64_n_i,
    output logic         mb_req64_n_o,
    output logic         mb_req64_n_oe,
    input  logic         mb_ack64_n_i,
    output logic         mb_ack64_n_o,
    output logic         mb_ack64_n_oe,
    input  logic         phy_link_n_i,  // of the PHY behind the MAC: low with a link

    // Trace
    output logic [11:0]  trace_valid_o,
    output logic [95:0]  trace_event_o,
    output logic [95:0]  trace_vi_o,
    output logic [191:0] trace_seq_o,
    output logic [47:0]  trace_time_o,

    // Nothing changes in the domain before an input does or its timebase reaches the deadline.
    output logic         quiet_o,
    output hvia_types_pkg::blocks_t block_quiet_o,
    output logic         sd_quiet_o,
    output logic         mac_quiet_o,
    output logic [47:0]  next_deadline_o,
    output logic [47:0]  sd_next_deadline_o,
    output logic         ready_o
);

  logic        bus_rst_n, core_rst_n, sd_rst_n, mac_rst_n;
  logic        soft_reset, soft_reset_busy, quiesce, pci_idle, host_idle;
  logic [31:0] strap;
  logic        pci_quiet, monitor_quiet;
  hvia_types_pkg::blocks_t block_quiet;

  hvia_reset_control u_reset_control (
      .clk_i(block_clk_i.resets), .rst_ni, .sd_clk_i, .mac_clk_i, .soft_reset_i(soft_reset),
      .busy_o(soft_reset_busy),
      .quiesce_o(quiesce), .bus_idle_i(pci_idle && host_idle), .bus_rst_no(bus_rst_n),
      .core_rst_no(core_rst_n), .sd_rst_no(sd_rst_n), .mac_rst_no(mac_rst_n),
      .strap_i, .strap_o(strap), .quiet_o(block_quiet.resets)
  );

  hvia_types_pkg::host_req_t bus_req;
  hvia_types_pkg::host_rsp_t bus_rsp;
  logic [W-1:0]   bus_wdata, bus_rdata;
  logic [W/8-1:0] bus_wstrb;
  hvia_types_pkg::target_req_t tgt_req;
  hvia_types_pkg::target_rsp_t tgt_rsp;
  logic           irq;
  hvia_types_pkg::counts_t counts;

  hvia_pci_interface #(.W(W)) u_pci_interface (
      .clk_i(block_clk_i.pci), .rst_ni(bus_rst_n), .quiesce_i(quiesce), .idle_o(pci_idle),
      .quiet_o(pci_quiet),
      .req_valid_i(bus_req.valid), .req_ready_o(bus_rsp.ready), .req_write_i(bus_req.write),
      .req_addr_i(bus_req.addr), .req_len_i(bus_req.len),
      .wdata_i(bus_wdata), .wstrb_i(bus_wstrb), .wvalid_i(bus_req.wvalid),
      .wready_o(bus_rsp.wready), .wdone_o(bus_rsp.wdone), .werr_o(bus_rsp.werr),
      .rdata_o(bus_rdata), .rvalid_o(bus_rsp.rvalid), .rready_i(bus_req.rready),
      .rlast_o(bus_rsp.rlast), .rerr_o(bus_rsp.rerr),
      .tgt_wvalid_o(tgt_req.wvalid), .tgt_wready_i(tgt_rsp.wready), .tgt_wbar_o(tgt_req.wbar),
      .tgt_waddr_o(tgt_req.waddr), .tgt_wdata_o(tgt_req.wdata), .tgt_wbe_o(tgt_req.wbe),
      .tgt_rvalid_o(tgt_req.rvalid), .tgt_raddr_o(tgt_req.raddr), .tgt_rbar_o(tgt_req.rbar),
      .tgt_rready_i(tgt_rsp.rready), .tgt_rdata_i(tgt_rsp.rdata),
      .irq_i(irq), .req_n_o, .gnt_n_i, .idsel_i, .inta_n_o,
      .ad_i, .ad_o, .ad_oe,
      .cbe_n_i, .cbe_n_o, .cbe_n_oe,
      .par_i, .par_o, .par_oe,
      .frame_n_i, .frame_n_o, .frame_n_oe,
      .irdy_n_i, .irdy_n_o, .irdy_n_oe,
      .trdy_n_i, .trdy_n_o, .trdy_n_oe,
      .devsel_n_i, .devsel_n_o, .devsel_n_oe,
      .stop_n_i, .stop_n_o, .stop_n_oe,
      .perr_n_i, .perr_n_o, .perr_n_oe,
      .serr_n_oe,
      .par64_i, .par64_o, .par64_oe,
      .req64_n_o, .req64_n_oe, .ack64_n_i,
      .stat_pci_master_read_o(counts[hvia_pkg::CounterPciMasterRead]),
      .stat_pci_master_write_o(counts[hvia_pkg::CounterPciMasterWrite]),
      .stat_pci_master_retry_o(counts[hvia_pkg::CounterPciMasterRetry]),
      .stat_pci_master_abort_o(counts[hvia_pkg::CounterPciMasterAbort]),
      .stat_pci_parity_error_o(counts[hvia_pkg::CounterPciParityError]),
      .stat_pci_target_write_o(counts[hvia_pkg::CounterPciTargetWrite]),
      .stat_pci_target_read_o(counts[hvia_pkg::CounterPciTargetRead])
  );

  logic         mac_enable, mac_ready, link_down;
  logic [47:0]  mac_address, slot_deadline;
  hvia_types_pkg::tx_frame_t tx_frame;
  logic         tx_slot_ready, tx_wready, rx_done;
  logic [W-1:0] tx_wdata, rx_rdata;
  logic [$clog2(W/8):0] tx_wbytes;
  hvia_types_pkg::rx_frame_t rx_frame;
  logic [$clog2(hvia_params_pkg::PacketSlotBytes*8/W)-1:0] rx_raddr;
  hvia_types_pkg::trace_t mac_tx_trace, mac_rx_trace, mac_bus_trace, host_bus_trace;

  hvia_bus_monitor #(
      .StartEvent(hvia_pkg::TraceEventHostBusStart), .EndEvent(hvia_pkg::TraceEventHostBusEnd)
  ) u_host_bus_monitor (
      .clk_i(block_clk_i.pci), .rst_ni(bus_rst_n), .frame_n_i, .irdy_n_i,
      .use_i({15'd0, frame_n_oe}),
      .trace_valid_o(host_bus_trace.valid), .trace_event_o(host_bus_trace.code),
      .trace_vi_o(host_bus_trace.vi), .trace_seq_o(host_bus_trace.seq), .quiet_o(monitor_quiet)
  );

  hvia_gec #(.W(W)) u_gec (
      .clk_i(block_clk_i.gec), .rst_ni(core_rst_n), .enable_i(mac_enable), .mac_i(mac_address),
      .single_tx_slot_i(strap[hvia_pkg::StrapSingleTransmitSlot]),
      .single_rx_slot_i(strap[hvia_pkg::StrapSingleReceiveSlot]),
      .cut_tx_i(strap[hvia_pkg::StrapCutThroughTransmit]),
      .cut_rx_i(strap[hvia_pkg::StrapCutThroughReceive]),
      .short_bursts_i(strap[hvia_pkg::StrapShortBursts]), .mac_ready_o(mac_ready), .timebase_i,
      .next_deadline_o(slot_deadline), .phy_link_n_i, .link_down_o(link_down),
      .tx_slot_ready_o(tx_slot_ready), .tx_wvalid_i(tx_frame.valid), .tx_wready_o(tx_wready),
      .tx_wdata_i(tx_wdata), .tx_wbytes_i(tx_wbytes), .tx_wlast_i(tx_frame.last),
      .tx_wabort_i(tx_frame.aborted), .tx_wvi_i(tx_frame.vi), .tx_wseq_i(tx_frame.seq),
      .tx_wlen_i(tx_frame.len),
      .rx_valid_o(rx_frame.valid), .rx_len_o(rx_frame.len), .rx_avail_o(rx_frame.avail),
      .rx_end_o(rx_frame.complete), .rx_bad_o(rx_frame.bad), .rx_raddr_i(rx_raddr),
      .rx_rdata_o(rx_rdata), .rx_done_i(rx_done),
      .stat_mac_transmit_frame_o(counts[hvia_pkg::CounterMacTransmitFrame]),
      .stat_mac_receive_frame_o(counts[hvia_pkg::CounterMacReceiveFrame]),
      .stat_mac_receive_bad_o(counts[hvia_pkg::CounterMacReceiveBad]),
      .stat_mac_receive_long_o(counts[hvia_pkg::CounterMacReceiveLong]),
      .stat_mac_receive_overrun_o(counts[hvia_pkg::CounterMacReceiveOverrun]),
      .stat_mac_bus_error_o(counts[hvia_pkg::CounterMacBusError]),
      .stat_mac_transmit_dropped_o(counts[hvia_pkg::CounterMacTransmitDropped]),
      .trace_tx_valid_o(mac_tx_trace.valid), .trace_tx_event_o(mac_tx_trace.code),
      .trace_tx_vi_o(mac_tx_trace.vi), .trace_tx_seq_o(mac_tx_trace.seq),
      .trace_rx_valid_o(mac_rx_trace.valid), .trace_rx_event_o(mac_rx_trace.code),
      .trace_rx_vi_o(mac_rx_trace.vi), .trace_rx_seq_o(mac_rx_trace.seq),
      .trace_bus_valid_o(mac_bus_trace.valid), .trace_bus_event_o(mac_bus_trace.code),
      .trace_bus_vi_o(mac_bus_trace.vi), .trace_bus_seq_o(mac_bus_trace.seq),
      .quiet_o(block_quiet.gec),
      .mac_clk_i, .mac_rst_ni(mac_rst_n), .mac_quiet_o,
      .mb_rst_no, .mb_idsel_o, .mb_req_n_i, .mb_gnt_n_o,
      .mb_ad_i, .mb_ad_o, .mb_ad_oe,
      .mb_cbe_n_i, .mb_cbe_n_o, .mb_cbe_n_oe,
      .mb_par_i, .mb_par_o, .mb_par_oe,
      .mb_frame_n_i, .mb_frame_n_o, .mb_frame_n_oe,
      .mb_irdy_n_i, .mb_irdy_n_o, .mb_irdy_n_oe,
      .mb_trdy_n_i, .mb_trdy_n_o, .mb_trdy_n_oe,
      .mb_devsel_n_i, .mb_devsel_n_o, .mb_devsel_n_oe,
      .mb_stop_n_i, .mb_stop_n_o, .mb_stop_n_oe,
      .mb_par64_i, .mb_par64_o, .mb_par64_oe,
      .mb_req64_n_i, .mb_req64_n_o, .mb_req64_n_oe,
      .mb_ack64_n_i, .mb_ack64_n_o, .mb_ack64_n_oe
  );

  // Counters of other blocks
  assign {counts[127:79], counts[71], counts[69:30], counts[23:0]} = '0;

  hvia_core #(.W(W)) u_core (
      .block_clk_i(block_clk_i.core), .bus_rst_ni(bus_rst_n), .rst_ni(core_rst_n),
      .sd_clk_i, .sd_rst_ni(sd_rst_n),
      .timebase_i, .sd_timebase_i, .strap_i(strap),
      .soft_reset_o(soft_reset), .soft_reset_busy_i(soft_reset_busy), .quiesce_i(quiesce),
      .host_idle_o(host_idle),
      .bus_req_o(bus_req), .bus_rsp_i(bus_rsp), .bus_wdata_o(bus_wdata), .bus_wstrb_o(bus_wstrb),
      .bus_rdata_i(bus_rdata),
      .tgt_req_i(tgt_req), .tgt_rsp_o(tgt_rsp), .irq_o(irq),
      .mac_enable_o(mac_enable), .mac_address_o(mac_address), .mac_ready_i(mac_ready),
      .tx_slot_ready_i(tx_slot_ready), .tx_frame_o(tx_frame), .tx_wready_i(tx_wready),
      .tx_wdata_o(tx_wdata), .tx_wbytes_o(tx_wbytes),
      .rx_frame_i(rx_frame), .rx_raddr_o(rx_raddr), .rx_rdata_i(rx_rdata), .rx_done_o(rx_done),
      .link_down_i(link_down), .slot_deadline_i(slot_deadline), .counts_i(counts),
      .mac_tx_trace_i(mac_tx_trace), .mac_rx_trace_i(mac_rx_trace), .mac_bus_trace_i(mac_bus_trace),
      .host_bus_trace_i(host_bus_trace), .board_quiet_i(block_quiet.gec),
      .sd_o({sd_cke_o, sd_cs_n_o, sd_ras_n_o, sd_cas_n_o, sd_we_n_o, sd_ba_o, sd_a_o, sd_dqm_o,
          sd_dq_o, sd_dq_oe_o}),
      .sd_dq_i,
      .trace_valid_o, .trace_event_o, .trace_vi_o, .trace_seq_o, .trace_time_o,
      .block_quiet_o(block_quiet.core), .sd_quiet_o, .next_deadline_o,
      .sd_next_deadline_o, .ready_o
  );

  // In reset every block takes its clock.
  assign block_quiet.pci = pci_quiet && monitor_quiet;
  assign block_quiet_o   = core_rst_n ? block_quiet : '0;
  assign quiet_o         = &block_quiet_o;

endmodule
