// SPDX-License-Identifier: Apache-2.0
//
// The PCI side as in the card: requesters and the arbiter on one set of pins.
module pci_tb #(
    parameter int unsigned N = 6,
    parameter int unsigned W = 32
) (
    input  logic              clk_i,
    input  logic              rst_ni,
    input  logic              quiesce_i,
    output logic              idle_o,
    output logic              quiet_o,

    input  logic [N-1:0]      req_valid_i,
    output logic [N-1:0]      req_ready_o,
    input  logic [N-1:0]      req_low_priority_i,
    input  logic [N-1:0]      req_more_i,
    input  logic [N-1:0]      req_write_i,
    input  logic [N*32-1:0]   req_addr_i,
    input  logic [N*10-1:0]   req_len_i,
    input  logic [N*W-1:0]    wdata_i,
    input  logic [N*W/8-1:0]  wstrb_i,
    input  logic [N-1:0]      wvalid_i,
    output logic [N-1:0]      wready_o,
    output logic [N-1:0]      wdone_o,
    output logic [N-1:0]      werr_o,
    output logic [W-1:0]      rdata_o,
    output logic [N-1:0]      rvalid_o,
    input  logic [N-1:0]      rready_i,
    output logic              rlast_o,
    output logic              rerr_o,

    output logic              tgt_wvalid_o,
    input  logic              tgt_wready_i,
    output logic              tgt_wbar_o,
    output logic [19:0]       tgt_waddr_o,
    output logic [31:0]       tgt_wdata_o,
    output logic [3:0]        tgt_wbe_o,
    output logic              tgt_rvalid_o,
    output logic [19:0]       tgt_raddr_o,
    output logic              tgt_rbar_o,
    input  logic              tgt_rready_i,
    input  logic [31:0]       tgt_rdata_i,

    input  logic              irq_i,
    output logic              req_n_o,
    input  logic              gnt_n_i,
    input  logic              idsel_i,
    output logic              inta_n_o,
    input  logic [W-1:0]      ad_i,
    output logic [W-1:0]      ad_o,
    output logic              ad_oe,
    input  logic [W/8-1:0]    cbe_n_i,
    output logic [W/8-1:0]    cbe_n_o,
    output logic              cbe_n_oe,
    input  logic              par_i,
    output logic              par_o,
    output logic              par_oe,
    input  logic              frame_n_i,
    output logic              frame_n_o,
    output logic              frame_n_oe,
    input  logic              irdy_n_i,
    output logic              irdy_n_o,
    output logic              irdy_n_oe,
    input  logic              trdy_n_i,
    output logic              trdy_n_o,
    output logic              trdy_n_oe,
    input  logic              devsel_n_i,
    output logic              devsel_n_o,
    output logic              devsel_n_oe,
    input  logic              perr_n_i,
    output logic              perr_n_o,
    output logic              perr_n_oe,
    output logic              serr_n_oe,
    input  logic              stop_n_i,
    output logic              stop_n_o,
    output logic              stop_n_oe,
    input  logic              par64_i,
    output logic              par64_o,
    output logic              par64_oe,
    output logic              req64_n_o,
    output logic              req64_n_oe,
    input  logic              ack64_n_i,

    output logic              stat_pci_master_read_o,
    output logic              stat_pci_master_write_o,
    output logic              stat_pci_master_retry_o,
    output logic              stat_pci_master_abort_o,
    output logic              stat_pci_parity_error_o,
    output logic              stat_pci_target_write_o,
    output logic              stat_pci_target_read_o
);

  logic        bus_req_valid, bus_req_ready, bus_req_write, bus_wvalid, bus_wready, bus_wdone;
  logic        bus_werr, bus_rvalid, bus_rready, bus_rlast, bus_rerr;
  logic [31:0] bus_req_addr;
  logic [9:0]  bus_req_len;
  logic [W-1:0]   bus_wdata, bus_rdata;
  logic [W/8-1:0] bus_wstrb;
  logic        arbiter_idle, arbiter_quiet, pci_idle, pci_quiet;

  hvia_host_arbiter #(.N(N), .DataW(W)) u_arbiter (
      .clk_i, .rst_ni, .quiesce_i, .idle_o(arbiter_idle), .quiet_o(arbiter_quiet), .req_valid_i,
      .req_ready_o, .req_low_priority_i, .req_more_i, .req_write_i, .req_addr_i, .req_len_i,
      .wdata_i, .wstrb_i, .wvalid_i, .wready_o, .wdone_o, .werr_o, .rdata_o, .rvalid_o, .rready_i,
      .rlast_o, .rerr_o, .bus_req_valid_o(bus_req_valid), .bus_req_ready_i(bus_req_ready),
      .bus_req_write_o(bus_req_write), .bus_req_addr_o(bus_req_addr), .bus_req_len_o(bus_req_len),
      .bus_wdata_o(bus_wdata), .bus_wstrb_o(bus_wstrb), .bus_wvalid_o(bus_wvalid),
      .bus_wready_i(bus_wready), .bus_wdone_i(bus_wdone), .bus_werr_i(bus_werr),
      .bus_rdata_i(bus_rdata), .bus_rvalid_i(bus_rvalid), .bus_rready_o(bus_rready),
      .bus_rlast_i(bus_rlast), .bus_rerr_i(bus_rerr)
  );

  hvia_pci_interface #(.W(W)) u_pci (
      .clk_i, .rst_ni, .quiesce_i, .idle_o(pci_idle), .quiet_o(pci_quiet),
      .req_valid_i(bus_req_valid), .req_ready_o(bus_req_ready), .req_write_i(bus_req_write),
      .req_addr_i(bus_req_addr), .req_len_i(bus_req_len), .wdata_i(bus_wdata), .wstrb_i(bus_wstrb),
      .wvalid_i(bus_wvalid), .wready_o(bus_wready), .wdone_o(bus_wdone), .werr_o(bus_werr),
      .rdata_o(bus_rdata), .rvalid_o(bus_rvalid), .rready_i(bus_rready), .rlast_o(bus_rlast),
      .rerr_o(bus_rerr), .tgt_wvalid_o, .tgt_wready_i, .tgt_wbar_o, .tgt_waddr_o, .tgt_wdata_o,
      .tgt_wbe_o, .tgt_rvalid_o, .tgt_raddr_o, .tgt_rbar_o, .tgt_rready_i, .tgt_rdata_i, .irq_i,
      .req_n_o, .gnt_n_i, .idsel_i, .inta_n_o, .ad_i, .ad_o, .ad_oe, .cbe_n_i, .cbe_n_o, .cbe_n_oe,
      .par_i, .par_o, .par_oe, .frame_n_i, .frame_n_o, .frame_n_oe, .irdy_n_i, .irdy_n_o,
      .irdy_n_oe, .trdy_n_i, .trdy_n_o, .trdy_n_oe, .devsel_n_i, .devsel_n_o, .devsel_n_oe,
      .stop_n_i, .stop_n_o, .stop_n_oe, .perr_n_i, .perr_n_o, .perr_n_oe, .serr_n_oe, .par64_i,
      .par64_o, .par64_oe, .req64_n_o, .req64_n_oe, .ack64_n_i, .stat_pci_master_read_o,
      .stat_pci_master_write_o, .stat_pci_master_retry_o, .stat_pci_master_abort_o,
      .stat_pci_parity_error_o, .stat_pci_target_write_o, .stat_pci_target_read_o
  );

  assign idle_o  = arbiter_idle & pci_idle;
  assign quiet_o = arbiter_quiet & pci_quiet;

endmodule
