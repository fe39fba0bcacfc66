// SPDX-License-Identifier: Apache-2.0
//
// The card's DMA path, to measure its bus times: both DMA engines at their requester indices in
// the card, one plain requester for short transactions, and the arbiter on the PCI pins.
module bursts_tb #(
    parameter int unsigned W = 32
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,

    // A job of either engine: physical, inside one page.
    input  logic                   r_job_valid_i,
    output logic                   r_job_ready_o,
    input  logic [31:0]            r_job_pa_i,
    input  logic [15:0]            r_job_len_i,
    output logic                   r_job_done_o,
    output logic [2:0]             r_job_err_o,
    output logic                   r_beat_valid_o,
    output logic [W-1:0]           r_beat_data_o,
    output logic [$clog2(W/8):0]   r_beat_bytes_o,
    input  logic                   w_job_valid_i,
    output logic                   w_job_ready_o,
    input  logic [31:0]            w_job_pa_i,
    input  logic [15:0]            w_job_len_i,
    output logic                   w_job_done_o,
    output logic [2:0]             w_job_err_o,
    input  logic                   w_beat_valid_i,
    output logic                   w_beat_ready_o,
    input  logic [W-1:0]           w_beat_data_i,

    // Short transactions
    input  logic                   s_req_valid_i,
    output logic                   s_req_ready_o,
    input  logic                   s_req_write_i,
    input  logic [31:0]            s_req_addr_i,
    input  logic [9:0]             s_req_len_i,
    input  logic [W-1:0]           s_wdata_i,
    input  logic [W/8-1:0]         s_wstrb_i,
    input  logic                   s_wvalid_i,
    output logic                   s_wready_o,
    output logic                   s_wdone_o,
    output logic                   s_werr_o,
    output logic                   s_rvalid_o,
    output logic                   rlast_o,
    output logic                   rerr_o,

    output logic                   req_n_o,
    input  logic                   gnt_n_i,
    input  logic                   idsel_i,
    output logic                   inta_n_o,
    input  logic [W-1:0]           ad_i,
    output logic [W-1:0]           ad_o,
    output logic                   ad_oe,
    input  logic [W/8-1:0]         cbe_n_i,
    output logic [W/8-1:0]         cbe_n_o,
    output logic                   cbe_n_oe,
    input  logic                   par_i,
    output logic                   par_o,
    output logic                   par_oe,
    input  logic                   frame_n_i,
    output logic                   frame_n_o,
    output logic                   frame_n_oe,
    input  logic                   irdy_n_i,
    output logic                   irdy_n_o,
    output logic                   irdy_n_oe,
    input  logic                   trdy_n_i,
    output logic                   trdy_n_o,
    output logic                   trdy_n_oe,
    input  logic                   devsel_n_i,
    output logic                   devsel_n_o,
    output logic                   devsel_n_oe,
    input  logic                   perr_n_i,
    output logic                   perr_n_o,
    output logic                   perr_n_oe,
    output logic                   serr_n_oe,
    input  logic                   stop_n_i,
    output logic                   stop_n_o,
    output logic                   stop_n_oe,
    input  logic                   par64_i,
    output logic                   par64_o,
    output logic                   par64_oe,
    output logic                   req64_n_o,
    output logic                   req64_n_oe,
    input  logic                   ack64_n_i,

    output logic                   quiet_o
);

  // Indices as in the card: dma_write, ..., descriptor_fetch, ..., dma_read.
  localparam int unsigned N     = 6;
  localparam int unsigned Write = 0;
  localparam int unsigned Short = 2;
  localparam int unsigned Read  = 5;
  localparam int unsigned StrbW = W / 8;

  logic [N-1:0]       req_valid, req_ready, req_write, wvalid, wready, wdone, werr, rvalid, rready;
  logic [N*32-1:0]    req_addr;
  logic [N*10-1:0]    req_len;
  logic [N*W-1:0]     wdata;
  logic [N*StrbW-1:0] wstrb;
  logic [W-1:0]       rdata;

  logic             bus_req_valid, bus_req_ready, bus_req_write, bus_wvalid, bus_wready, bus_wdone;
  logic             bus_werr, bus_rvalid, bus_rready, bus_rlast, bus_rerr;
  logic [31:0]      bus_req_addr;
  logic [9:0]       bus_req_len;
  logic [W-1:0]     bus_wdata, bus_rdata;
  logic [StrbW-1:0] bus_wstrb;
  logic             arbiter_quiet, pci_quiet, read_quiet, write_quiet;

  logic             w_req_valid, w_req_ready, w_wvalid, w_wready, w_wdone, w_werr;
  logic [31:0]      w_req_addr, r_req_addr;
  logic [9:0]       w_req_len, r_req_len;
  logic [W-1:0]     w_wdata;
  logic [StrbW-1:0] w_wstrb;
  logic             r_req_valid, r_req_ready, r_rvalid, r_rready;

  always_comb begin
    req_valid = '0;
    req_write = '0;
    req_addr  = '0;
    req_len   = '0;
    wdata     = '0;
    wstrb     = '0;
    wvalid    = '0;
    rready    = '0;
    req_valid[Write]             = w_req_valid;
    req_write[Write]             = 1'b1;
    req_addr[Write*32 +: 32]     = w_req_addr;
    req_len[Write*10 +: 10]      = w_req_len;
    wdata[Write*W +: W]          = w_wdata;
    wstrb[Write*StrbW +: StrbW]  = w_wstrb;
    wvalid[Write]                = w_wvalid;
    req_valid[Short]             = s_req_valid_i;
    req_write[Short]             = s_req_write_i;
    req_addr[Short*32 +: 32]     = s_req_addr_i;
    req_len[Short*10 +: 10]      = s_req_len_i;
    wdata[Short*W +: W]          = s_wdata_i;
    wstrb[Short*StrbW +: StrbW]  = s_wstrb_i;
    wvalid[Short]                = s_wvalid_i;
    rready[Short]                = 1'b1;
    req_valid[Read]              = r_req_valid;
    req_addr[Read*32 +: 32]      = r_req_addr;
    req_len[Read*10 +: 10]       = r_req_len;
    rready[Read]                 = r_rready;
  end
  assign w_req_ready   = req_ready[Write];
  assign w_wready      = wready[Write];
  assign w_wdone       = wdone[Write];
  assign w_werr        = werr[Write];
  assign s_req_ready_o = req_ready[Short];
  assign s_wready_o    = wready[Short];
  assign s_wdone_o     = wdone[Short];
  assign s_werr_o      = werr[Short];
  assign s_rvalid_o    = rvalid[Short];
  assign r_req_ready   = req_ready[Read];
  assign r_rvalid      = rvalid[Read];

  hvia_dma_read #(.W(W)) u_read (
      .clk_i, .rst_ni, .no_overlap_i(1'b0), .short_bursts_i(1'b0), .job_valid_i(r_job_valid_i),
      .job_ready_o(r_job_ready_o), .job_physical_i(1'b1), .job_handle_i(32'd0),
      .job_va_i({32'd0, r_job_pa_i}), .job_len_i(r_job_len_i), .job_bound_i({16'd0, r_job_len_i}),
      .job_tag_i(16'd0), .job_access_i(2'd0), .job_translated_o(), .job_done_o(r_job_done_o),
      .job_err_o(r_job_err_o), .beat_valid_o(r_beat_valid_o), .beat_ready_i(1'b1),
      .beat_data_o(r_beat_data_o), .beat_offset_o(), .beat_bytes_o(r_beat_bytes_o), .beat_last_o(),
      .att_req_valid_o(), .att_req_ready_i(1'b0), .att_req_handle_o(), .att_req_va_o(),
      .att_req_len_o(), .att_req_tag_o(), .att_req_access_o(), .att_rsp_valid_i(1'b0),
      .att_rsp_err_i(3'd0), .att_rsp_pa_i(32'd0), .att_rsp_bytes_i(13'd0),
      .req_valid_o(r_req_valid), .req_ready_i(r_req_ready), .req_addr_o(r_req_addr),
      .req_len_o(r_req_len), .rdata_i(rdata), .rvalid_i(r_rvalid), .rready_o(r_rready),
      .rlast_i(rlast_o), .rerr_i(rerr_o), .req_more_o(), .quiet_o(read_quiet)
  );

  hvia_dma_write #(.W(W)) u_write (
      .clk_i, .rst_ni, .no_overlap_i(1'b0), .short_bursts_i(1'b0), .job_valid_i(w_job_valid_i),
      .job_ready_o(w_job_ready_o), .job_physical_i(1'b1), .job_handle_i(32'd0),
      .job_va_i({32'd0, w_job_pa_i}), .job_len_i(w_job_len_i), .job_bound_i({16'd0, w_job_len_i}),
      .job_tag_i(16'd0), .job_access_i(2'd0), .job_translated_o(), .job_done_o(w_job_done_o),
      .job_err_o(w_job_err_o), .beat_valid_i(w_beat_valid_i), .beat_ready_o(w_beat_ready_o),
      .beat_data_i(w_beat_data_i), .beat_offset_i('0), .beat_bytes_i(($clog2(StrbW)+1)'(StrbW)),
      .att_req_valid_o(), .att_req_ready_i(1'b0), .att_req_handle_o(), .att_req_va_o(),
      .att_req_len_o(), .att_req_tag_o(), .att_req_access_o(), .att_rsp_valid_i(1'b0),
      .att_rsp_err_i(3'd0), .att_rsp_pa_i(32'd0), .att_rsp_bytes_i(13'd0),
      .req_valid_o(w_req_valid), .req_ready_i(w_req_ready), .req_addr_o(w_req_addr),
      .req_len_o(w_req_len), .wdata_o(w_wdata), .wstrb_o(w_wstrb), .wvalid_o(w_wvalid),
      .wready_i(w_wready), .wdone_i(w_wdone), .werr_i(w_werr), .quiet_o(write_quiet)
  );

  hvia_host_arbiter #(.N(N), .DataW(W)) u_arbiter (
      .clk_i, .rst_ni, .quiesce_i(1'b0), .idle_o(), .quiet_o(arbiter_quiet),
      .req_valid_i(req_valid), .req_ready_o(req_ready), .req_low_priority_i('0), .req_more_i('0),
      .req_write_i(req_write), .req_addr_i(req_addr), .req_len_i(req_len), .wdata_i(wdata),
      .wstrb_i(wstrb), .wvalid_i(wvalid), .wready_o(wready), .wdone_o(wdone), .werr_o(werr),
      .rdata_o(rdata), .rvalid_o(rvalid), .rready_i(rready), .rlast_o, .rerr_o,
      .bus_req_valid_o(bus_req_valid), .bus_req_ready_i(bus_req_ready),
      .bus_req_write_o(bus_req_write), .bus_req_addr_o(bus_req_addr), .bus_req_len_o(bus_req_len),
      .bus_wdata_o(bus_wdata), .bus_wstrb_o(bus_wstrb), .bus_wvalid_o(bus_wvalid),
      .bus_wready_i(bus_wready), .bus_wdone_i(bus_wdone), .bus_werr_i(bus_werr),
      .bus_rdata_i(bus_rdata), .bus_rvalid_i(bus_rvalid), .bus_rready_o(bus_rready),
      .bus_rlast_i(bus_rlast), .bus_rerr_i(bus_rerr)
  );

  hvia_pci_interface #(.W(W)) u_pci (
      .clk_i, .rst_ni, .quiesce_i(1'b0), .idle_o(), .quiet_o(pci_quiet),
      .req_valid_i(bus_req_valid), .req_ready_o(bus_req_ready), .req_write_i(bus_req_write),
      .req_addr_i(bus_req_addr), .req_len_i(bus_req_len), .wdata_i(bus_wdata), .wstrb_i(bus_wstrb),
      .wvalid_i(bus_wvalid), .wready_o(bus_wready), .wdone_o(bus_wdone), .werr_o(bus_werr),
      .rdata_o(bus_rdata), .rvalid_o(bus_rvalid), .rready_i(bus_rready), .rlast_o(bus_rlast),
      .rerr_o(bus_rerr), .tgt_wvalid_o(), .tgt_wready_i(1'b1), .tgt_wbar_o(), .tgt_waddr_o(),
      .tgt_wdata_o(), .tgt_wbe_o(), .tgt_rvalid_o(), .tgt_raddr_o(), .tgt_rbar_o(),
      .tgt_rready_i(1'b1), .tgt_rdata_i(32'd0), .irq_i(1'b0), .req_n_o, .gnt_n_i, .idsel_i,
      .inta_n_o, .ad_i, .ad_o, .ad_oe, .cbe_n_i, .cbe_n_o, .cbe_n_oe, .par_i, .par_o, .par_oe,
      .frame_n_i, .frame_n_o, .frame_n_oe, .irdy_n_i, .irdy_n_o, .irdy_n_oe, .trdy_n_i, .trdy_n_o,
      .trdy_n_oe, .devsel_n_i, .devsel_n_o, .devsel_n_oe, .stop_n_i, .stop_n_o, .stop_n_oe,
      .perr_n_i, .perr_n_o, .perr_n_oe, .serr_n_oe, .par64_i, .par64_o, .par64_oe, .req64_n_o,
      .req64_n_oe, .ack64_n_i, .stat_pci_master_read_o(), .stat_pci_master_write_o(),
      .stat_pci_master_retry_o(), .stat_pci_master_abort_o(), .stat_pci_parity_error_o(),
      .stat_pci_target_write_o(), .stat_pci_target_read_o()
  );

  assign quiet_o = arbiter_quiet & pci_quiet & read_quiet & write_quiet;

endmodule
