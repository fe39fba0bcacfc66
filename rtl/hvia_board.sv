// SPDX-License-Identifier: Apache-2.0

// Board `hvia-ge` as far as it goes today: the core behind a 32-bit, 33 MHz PCI interface, with the
// SDRAM's pins and plain frame streams in the place of the Ethernet controller.
module hvia_board (
    input  logic         clk_i,       // PCI CLK
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
    input  logic [31:0]  ad_i,
    output logic [31:0]  ad_o,
    output logic         ad_oe,
    input  logic [3:0]   cbe_n_i,
    output logic [3:0]   cbe_n_o,
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

    // MAC. Its reset goes with the card's, soft resets too: half a frame would be left in it.
    output logic         mac_rst_no,
    output logic         mac_tx_valid_o,
    input  logic         mac_tx_ready_i,
    output logic [31:0]  mac_tx_data_o,
    output logic [2:0]   mac_tx_bytes_o,
    output logic         mac_tx_last_o,
    input  logic         mac_rx_valid_i,
    output logic         mac_rx_ready_o,
    input  logic [31:0]  mac_rx_data_i,
    input  logic [2:0]   mac_rx_bytes_i,
    input  logic         mac_rx_last_i,
    input  logic         mac_rx_err_i,
    output logic         mac_rx_room_o,
    input  logic         mac_rx_overrun_i,

    // Trace
    output logic [8:0]   trace_valid_o,
    output logic [71:0]  trace_event_o,
    output logic [71:0]  trace_vi_o,
    output logic [143:0] trace_seq_o,
    output logic [47:0]  trace_time_o,

    // Nothing changes in the domain before an input does or its timebase reaches the deadline.
    output logic         quiet_o,
    output logic         sd_quiet_o,
    output logic         mac_quiet_o,
    output logic [47:0]  next_deadline_o,
    output logic [47:0]  sd_next_deadline_o,
    output logic         ready_o
);

  localparam int unsigned W = 32;

  logic        bus_rst_n, core_rst_n, sd_rst_n, mac_rst_n;
  assign mac_rst_no = mac_rst_n;
  logic        soft_reset, soft_reset_busy, quiesce, pci_idle, host_idle;
  logic [31:0] strap;
  logic        reset_quiet, pci_quiet, core_quiet;

  reset_control u_reset_control (
      .clk_i,
      .rst_ni,
      .sd_clk_i,
      .mac_clk_i,
      .soft_reset_i(soft_reset),
      .busy_o      (soft_reset_busy),
      .quiesce_o   (quiesce),
      .bus_idle_i  (pci_idle && host_idle),
      .bus_rst_no  (bus_rst_n),
      .core_rst_no (core_rst_n),
      .sd_rst_no   (sd_rst_n),
      .mac_rst_no  (mac_rst_n),
      .strap_i,
      .strap_o     (strap),
      .quiet_o     (reset_quiet)
  );

  logic           req_valid, req_ready, req_write, wvalid, wready, wdone, werr, rvalid, rready;
  logic           rlast, rerr;
  logic [31:0]    req_addr;
  logic [9:0]     req_len;
  logic [W-1:0]   wdata, rdata;
  logic [W/8-1:0] wstrb;
  logic           tgt_wvalid, tgt_wready, tgt_wbar, tgt_wend, tgt_rvalid, tgt_rbar, tgt_rready;
  logic [19:0]    tgt_waddr, tgt_raddr;
  logic [31:0]    tgt_wdata, tgt_rdata;
  logic [3:0]     tgt_wbe;
  logic           irq;
  logic [6:0]     stat_bus;

  pci_interface u_pci_interface (
      .clk_i,
      .rst_ni                 (bus_rst_n),
      .quiesce_i              (quiesce),
      .idle_o                 (pci_idle),
      .quiet_o                (pci_quiet),
      .req_valid_i            (req_valid),
      .req_ready_o            (req_ready),
      .req_write_i            (req_write),
      .req_addr_i             (req_addr),
      .req_len_i              (req_len),
      .wdata_i                (wdata),
      .wstrb_i                (wstrb),
      .wvalid_i               (wvalid),
      .wready_o               (wready),
      .wdone_o                (wdone),
      .werr_o                 (werr),
      .rdata_o                (rdata),
      .rvalid_o               (rvalid),
      .rready_i               (rready),
      .rlast_o                (rlast),
      .rerr_o                 (rerr),
      .tgt_wvalid_o           (tgt_wvalid),
      .tgt_wready_i           (tgt_wready),
      .tgt_wbar_o             (tgt_wbar),
      .tgt_waddr_o            (tgt_waddr),
      .tgt_wdata_o            (tgt_wdata),
      .tgt_wbe_o              (tgt_wbe),
      .tgt_wend_o             (tgt_wend),
      .tgt_rvalid_o           (tgt_rvalid),
      .tgt_raddr_o            (tgt_raddr),
      .tgt_rbar_o             (tgt_rbar),
      .tgt_rready_i           (tgt_rready),
      .tgt_rdata_i            (tgt_rdata),
      .irq_i                  (irq),
      .req_n_o,
      .gnt_n_i,
      .idsel_i,
      .inta_n_o,
      .ad_i,
      .ad_o,
      .ad_oe,
      .cbe_n_i,
      .cbe_n_o,
      .cbe_n_oe,
      .par_i,
      .par_o,
      .par_oe,
      .frame_n_i,
      .frame_n_o,
      .frame_n_oe,
      .irdy_n_i,
      .irdy_n_o,
      .irdy_n_oe,
      .trdy_n_i,
      .trdy_n_o,
      .trdy_n_oe,
      .devsel_n_i,
      .devsel_n_o,
      .devsel_n_oe,
      .stop_n_i,
      .stop_n_o,
      .stop_n_oe,
      .stat_pci_master_read_o (stat_bus[0]),
      .stat_pci_master_write_o(stat_bus[1]),
      .stat_pci_master_retry_o(stat_bus[2]),
      .stat_pci_master_abort_o(stat_bus[3]),
      .stat_pci_parity_error_o(stat_bus[4]),
      .stat_pci_target_write_o(stat_bus[5]),
      .stat_pci_target_read_o (stat_bus[6])
  );

  hvia_core #(
      .W(W)
  ) u_core (
      .clk_i,
      .bus_rst_ni       (bus_rst_n),
      .rst_ni           (core_rst_n),
      .sd_clk_i,
      .sd_rst_ni        (sd_rst_n),
      .mac_clk_i,
      .mac_rst_ni       (mac_rst_n),
      .timebase_i,
      .sd_timebase_i,
      .strap_i          (strap),
      .soft_reset_o     (soft_reset),
      .soft_reset_busy_i(soft_reset_busy),
      .quiesce_i        (quiesce),
      .host_idle_o      (host_idle),
      .bus_req_valid_o  (req_valid),
      .bus_req_ready_i  (req_ready),
      .bus_req_write_o  (req_write),
      .bus_req_addr_o   (req_addr),
      .bus_req_len_o    (req_len),
      .bus_wdata_o      (wdata),
      .bus_wstrb_o      (wstrb),
      .bus_wvalid_o     (wvalid),
      .bus_wready_i     (wready),
      .bus_wdone_i      (wdone),
      .bus_werr_i       (werr),
      .bus_rdata_i      (rdata),
      .bus_rvalid_i     (rvalid),
      .bus_rready_o     (rready),
      .bus_rlast_i      (rlast),
      .bus_rerr_i       (rerr),
      .tgt_wvalid_i     (tgt_wvalid),
      .tgt_wready_o     (tgt_wready),
      .tgt_wbar_i       (tgt_wbar),
      .tgt_waddr_i      (tgt_waddr),
      .tgt_wdata_i      (tgt_wdata),
      .tgt_wbe_i        (tgt_wbe),
      .tgt_wend_i       (tgt_wend),
      .tgt_rvalid_i     (tgt_rvalid),
      .tgt_rbar_i       (tgt_rbar),
      .tgt_raddr_i      (tgt_raddr),
      .tgt_rready_o     (tgt_rready),
      .tgt_rdata_o      (tgt_rdata),
      .irq_o            (irq),
      .stat_bus_i       (stat_bus),
      .mac_tx_valid_o,
      .mac_tx_ready_i,
      .mac_tx_data_o,
      .mac_tx_bytes_o,
      .mac_tx_last_o,
      .mac_rx_valid_i,
      .mac_rx_ready_o,
      .mac_rx_data_i,
      .mac_rx_bytes_i,
      .mac_rx_last_i,
      .mac_rx_err_i,
      .mac_rx_room_o,
      .mac_rx_overrun_i,
      .sd_cke_o,
      .sd_cs_n_o,
      .sd_ras_n_o,
      .sd_cas_n_o,
      .sd_we_n_o,
      .sd_ba_o,
      .sd_a_o,
      .sd_dqm_o,
      .sd_dq_o,
      .sd_dq_oe_o,
      .sd_dq_i,
      .trace_valid_o,
      .trace_event_o,
      .trace_vi_o,
      .trace_seq_o,
      .trace_time_o,
      .quiet_o          (core_quiet),
      .sd_quiet_o,
      .mac_quiet_o,
      .next_deadline_o,
      .sd_next_deadline_o,
      .ready_o
  );

  assign quiet_o = core_quiet && pci_quiet && reset_quiet;

endmodule
