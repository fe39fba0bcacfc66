// SPDX-License-Identifier: Apache-2.0

// The core's access to memory: the host bus port, shared by all requesters, and the translation of
// their addresses, with its tables in SDRAM or in host memory.
module hvia_host_port #(
    parameter int unsigned W = 32
) (
    input  hvia_types_pkg::host_blocks_t block_clk_i,
    input  logic rst_ni,
    input  logic quiesce_i,
    output logic idle_o,
    input  logic no_overlap_i,  // straps
    input  logic att_in_host_i,
    input  logic slow_sdram_i,

    // Bus
    output hvia_types_pkg::host_req_t bus_req_o,
    input  hvia_types_pkg::host_rsp_t bus_rsp_i,
    output logic [W-1:0] bus_wdata_o,
    output logic [W/8-1:0] bus_wstrb_o,
    input  logic [W-1:0] bus_rdata_i,

    // Requesters
    input  hvia_types_pkg::write_req_t write_req_i,
    output hvia_types_pkg::write_rsp_t write_rsp_o,
    input  logic [W-1:0] write_wdata_i,
    input  logic [W/8-1:0] write_wstrb_i,
    input  hvia_types_pkg::host_req_t completion_req_i,
    output hvia_types_pkg::host_rsp_t completion_rsp_o,
    input  logic [W-1:0] completion_wdata_i,
    input  logic [W/8-1:0] completion_wstrb_i,
    input  hvia_types_pkg::read_req_t fetch_req_i,
    output hvia_types_pkg::read_rsp_t fetch_rsp_o,
    input  logic fetch_low_priority_i,
    input  hvia_types_pkg::host_req_t raw_req_i,
    output hvia_types_pkg::host_rsp_t raw_rsp_o,
    input  logic [W-1:0] raw_wdata_i,
    input  logic [W/8-1:0] raw_wstrb_i,
    input  hvia_types_pkg::host_req_t command_req_i,
    output hvia_types_pkg::host_rsp_t command_rsp_o,
    input  logic [W-1:0] command_wdata_i,
    input  logic [W/8-1:0] command_wstrb_i,
    input  hvia_types_pkg::read_req_t read_req_i,
    output hvia_types_pkg::read_rsp_t read_rsp_o,
    input  logic read_more_i,
    output logic [W-1:0] rdata_o,

    // Translation
    input  hvia_types_pkg::att_req_t fetch_att_i,
    input  hvia_params_pkg::vi_t fetch_att_vi_i,
    output logic fetch_att_ready_o,
    output logic fetch_att_valid_o,
    input  hvia_types_pkg::att_req_t transmit_att_i,
    input  hvia_params_pkg::vi_t transmit_att_vi_i,
    output logic transmit_att_ready_o,
    output logic transmit_att_valid_o,
    input  hvia_types_pkg::att_req_t receive_att_i,
    input  hvia_params_pkg::vi_t receive_att_vi_i,
    output logic receive_att_ready_o,
    output logic receive_att_valid_o,
    output hvia_types_pkg::att_rsp_t att_rsp_o,
    input  logic [31:0] level1_i,
    input  logic [31:0] level2_i,
    input  hvia_types_pkg::att_update_req_t att_update_req_i,
    output hvia_types_pkg::att_update_rsp_t att_update_rsp_o,
    output logic ready_o,

    output hvia_types_pkg::counts_t counts_o,
    output hvia_types_pkg::host_blocks_t quiet_o,

    // SDRAM domain
    input  logic sd_clk_i,
    input  logic sd_rst_ni,
    input  logic [47:0] sd_timebase_i,
    output hvia_types_pkg::sdram_t sd_o,
    input  logic [31:0] sd_dq_i,
    output logic [47:0] sd_next_deadline_o,
    output logic sd_quiet_o
);

  // Order of priority: see docs/reference/card.md, section 7
  localparam int unsigned N             = 7;
  localparam int unsigned ReqTable      = 0;  // asks with strap AttInHostMemory only
  localparam int unsigned ReqWrite      = 1;
  localparam int unsigned ReqCompletion = 2;
  localparam int unsigned ReqFetch      = 3;
  localparam int unsigned ReqRaw        = 4;
  localparam int unsigned ReqCommand    = 5;
  localparam int unsigned ReqRead       = 6;

  hvia_types_pkg::host_req_t table_req;
  hvia_types_pkg::host_rsp_t table_rsp;
  logic [W-1:0]   table_wdata;
  logic [W/8-1:0] table_wstrb;
  logic [N-1:0]   ready, wready, wdone, werr, rvalid;
  logic           rlast, rerr;
  assign table_rsp = {ready[ReqTable], wready[ReqTable], wdone[ReqTable], werr[ReqTable],
          rvalid[ReqTable], rlast, rerr};
  assign write_rsp_o = {ready[ReqWrite], wready[ReqWrite], wdone[ReqWrite], werr[ReqWrite]};
  assign completion_rsp_o = {ready[ReqCompletion], wready[ReqCompletion], wdone[ReqCompletion],
          werr[ReqCompletion], rvalid[ReqCompletion], rlast, rerr};
  assign fetch_rsp_o = {ready[ReqFetch], rvalid[ReqFetch], rlast, rerr};
  assign raw_rsp_o = {ready[ReqRaw], wready[ReqRaw], wdone[ReqRaw], werr[ReqRaw], rvalid[ReqRaw],
          rlast, rerr};
  assign command_rsp_o = {ready[ReqCommand], wready[ReqCommand], wdone[ReqCommand],
          werr[ReqCommand], rvalid[ReqCommand], rlast, rerr};
  assign read_rsp_o = {ready[ReqRead], rvalid[ReqRead], rlast, rerr};

  // Bound: twice the number of those that always ask
  hvia_host_arbiter #(.N(N), .DataW(W), .Bound(2 * (N - 1))) u_host_arbiter (
      .clk_i(block_clk_i.arbiter), .rst_ni, .quiesce_i, .idle_o, .quiet_o(quiet_o.arbiter),
      .req_valid_i({read_req_i.valid, command_req_i.valid, raw_req_i.valid, fetch_req_i.valid,
          completion_req_i.valid, write_req_i.valid, table_req.valid}),
      .req_ready_o(ready), .req_low_priority_i(N'(fetch_low_priority_i) << ReqFetch),
      .req_more_i(N'(read_more_i) << ReqRead),
      .req_write_i({1'b0, command_req_i.write, raw_req_i.write, 1'b0, completion_req_i.write,
          1'b1, table_req.write}),
      .req_addr_i({read_req_i.addr, command_req_i.addr, raw_req_i.addr, fetch_req_i.addr,
          completion_req_i.addr, write_req_i.addr, table_req.addr}),
      .req_len_i({read_req_i.len, command_req_i.len, raw_req_i.len, fetch_req_i.len,
          completion_req_i.len, write_req_i.len, table_req.len}),
      .wdata_i({W'(0), command_wdata_i, raw_wdata_i, W'(0), completion_wdata_i, write_wdata_i,
          table_wdata}),
      .wstrb_i({(W/8)'(0), command_wstrb_i, raw_wstrb_i, (W/8)'(0), completion_wstrb_i,
          write_wstrb_i, table_wstrb}),
      .wvalid_i({1'b0, command_req_i.wvalid, raw_req_i.wvalid, 1'b0, completion_req_i.wvalid,
          write_req_i.wvalid, table_req.wvalid}),
      .wready_o(wready), .wdone_o(wdone), .werr_o(werr), .rdata_o, .rvalid_o(rvalid),
      .rready_i({read_req_i.rready, command_req_i.rready, raw_req_i.rready, fetch_req_i.rready,
          completion_req_i.rready, 1'b0, table_req.rready}),
      .rlast_o(rlast), .rerr_o(rerr),
      .bus_req_valid_o(bus_req_o.valid), .bus_req_ready_i(bus_rsp_i.ready),
      .bus_req_write_o(bus_req_o.write), .bus_req_addr_o(bus_req_o.addr),
      .bus_req_len_o(bus_req_o.len), .bus_wdata_o, .bus_wstrb_o, .bus_wvalid_o(bus_req_o.wvalid),
      .bus_wready_i(bus_rsp_i.wready), .bus_wdone_i(bus_rsp_i.wdone), .bus_werr_i(bus_rsp_i.werr),
      .bus_rdata_i, .bus_rvalid_i(bus_rsp_i.rvalid), .bus_rready_o(bus_req_o.rready),
      .bus_rlast_i(bus_rsp_i.rlast), .bus_rerr_i(bus_rsp_i.rerr)
  );

  logic        mem_req_valid, mem_req_ready, mem_req_write, mem_wvalid, mem_wready, mem_werr;
  logic        mem_rvalid, mem_rlast, mem_rerr, mem_hint_valid, mem_init_done, mem_refresh;
  logic [23:0] mem_req_addr, mem_hint_addr;
  logic [3:0]  mem_req_len;
  logic [31:0] mem_wdata, mem_rdata, sdram_rdata;
  logic        sdram_req_valid, sdram_req_ready, sdram_wvalid, sdram_wready, sdram_rvalid;
  logic        sdram_rlast, sdram_hint_valid, unused_activate;
  logic        walker_quiet, table_sd_quiet, sdram_quiet;

  hvia_att_manager u_att_manager (
      .clk_i(block_clk_i.att_manager), .rst_ni, .quiet_o(quiet_o.att_manager), .ready_o,
      .req_valid_i({receive_att_i.valid, transmit_att_i.valid, fetch_att_i.valid}),
      .req_ready_o({receive_att_ready_o, transmit_att_ready_o, fetch_att_ready_o}),
      .req_handle_i({receive_att_i.handle, transmit_att_i.handle, fetch_att_i.handle}),
      .req_va_i({receive_att_i.va, transmit_att_i.va, fetch_att_i.va}),
      .req_len_i({receive_att_i.len, transmit_att_i.len, fetch_att_i.len}),
      .req_tag_i({receive_att_i.tag, transmit_att_i.tag, fetch_att_i.tag}),
      .req_access_i({receive_att_i.access, transmit_att_i.access, fetch_att_i.access}),
      .req_vi_i({receive_att_vi_i, transmit_att_vi_i, fetch_att_vi_i}),
      .rsp_valid_o({receive_att_valid_o, transmit_att_valid_o, fetch_att_valid_o}),
      .rsp_err_o(att_rsp_o.err), .rsp_pa_o(att_rsp_o.pa), .rsp_bytes_o(att_rsp_o.bytes),
      .upd_valid_i(att_update_req_i.valid), .upd_ready_o(att_update_rsp_o.ready),
      .upd_op_i(att_update_req_i.op), .upd_arg_i(att_update_req_i.arg),
      .upd_count_i(att_update_req_i.count), .upd_wvalid_i(att_update_req_i.wvalid),
      .upd_wready_o(att_update_rsp_o.wready), .upd_wdata_i(att_update_req_i.wdata),
      .upd_done_o(att_update_rsp_o.done), .upd_error_o(att_update_rsp_o.error),
      .stat_translate_o(counts_o[hvia_pkg::CounterAttTranslate]),
      .stat_level1_read_o(counts_o[hvia_pkg::CounterAttLevel1Read]),
      .stat_level2_read_o(counts_o[hvia_pkg::CounterAttLevel2Read]),
      .stat_error_o(counts_o[hvia_pkg::CounterAttError]),
      .stat_invalidate_o(counts_o[hvia_pkg::CounterAttInvalidate]),
      .stat_refresh_o(counts_o[hvia_pkg::CounterSdramRefresh]),
      .sd_clk_i, .sd_rst_ni, .sd_quiet_o(walker_quiet),
      .no_overlap_i, .host_i(att_in_host_i),
      .mem_init_done_i(mem_init_done), .mem_refresh_i(mem_refresh), .mem_req_valid_o(mem_req_valid),
      .mem_req_ready_i(mem_req_ready), .mem_req_write_o(mem_req_write),
      .mem_req_addr_o(mem_req_addr), .mem_req_len_o(mem_req_len), .mem_wvalid_o(mem_wvalid),
      .mem_wready_i(mem_wready), .mem_wdata_o(mem_wdata), .mem_werr_i(mem_werr),
      .mem_rvalid_i(mem_rvalid), .mem_rdata_i(mem_rdata), .mem_rlast_i(mem_rlast),
      .mem_rerr_i(mem_rerr), .mem_hint_valid_o(mem_hint_valid), .mem_hint_addr_o(mem_hint_addr)
  );

  hvia_att_memory #(.W(W)) u_att_memory (
      .clk_i(block_clk_i.att_memory), .rst_ni, .quiet_o(quiet_o.att_memory), .level1_i, .level2_i,
      .req_valid_o(table_req.valid), .req_ready_i(table_rsp.ready), .req_write_o(table_req.write),
      .req_addr_o(table_req.addr), .req_len_o(table_req.len),
      .wdata_o(table_wdata), .wstrb_o(table_wstrb), .wvalid_o(table_req.wvalid),
      .wready_i(table_rsp.wready), .wdone_i(table_rsp.wdone), .werr_i(table_rsp.werr),
      .rdata_i(rdata_o), .rvalid_i(table_rsp.rvalid), .rready_o(table_req.rready),
      .rlast_i(table_rsp.rlast), .rerr_i(table_rsp.rerr),
      .sd_clk_i, .sd_rst_ni, .sd_quiet_o(table_sd_quiet),
      .host_i(att_in_host_i),
      .mem_req_valid_i(mem_req_valid), .mem_req_ready_o(mem_req_ready),
      .mem_req_write_i(mem_req_write), .mem_req_addr_i(mem_req_addr), .mem_req_len_i(mem_req_len),
      .mem_wvalid_i(mem_wvalid), .mem_wready_o(mem_wready), .mem_wdata_i(mem_wdata),
      .mem_werr_o(mem_werr), .mem_rvalid_o(mem_rvalid), .mem_rdata_o(mem_rdata),
      .mem_rlast_o(mem_rlast), .mem_rerr_o(mem_rerr), .mem_hint_valid_i(mem_hint_valid),
      .sdram_req_valid_o(sdram_req_valid), .sdram_req_ready_i(sdram_req_ready),
      .sdram_wvalid_o(sdram_wvalid), .sdram_wready_i(sdram_wready), .sdram_rvalid_i(sdram_rvalid),
      .sdram_rdata_i(sdram_rdata), .sdram_rlast_i(sdram_rlast),
      .sdram_hint_valid_o(sdram_hint_valid)
  );

  hvia_sdram_controller u_sdram_controller (
      .clk_i(sd_clk_i), .rst_ni(sd_rst_ni), .slow_i(slow_sdram_i), .timebase_i(sd_timebase_i),
      .next_deadline_o(sd_next_deadline_o), .quiet_o(sdram_quiet), .init_done_o(mem_init_done),
      .req_valid_i(sdram_req_valid), .req_ready_o(sdram_req_ready), .req_write_i(mem_req_write),
      .req_addr_i(mem_req_addr), .req_len_i(mem_req_len),
      .wvalid_i(sdram_wvalid), .wready_o(sdram_wready), .wdata_i(mem_wdata),
      .rvalid_o(sdram_rvalid), .rdata_o(sdram_rdata), .rlast_o(sdram_rlast),
      .hint_valid_i(sdram_hint_valid), .hint_addr_i(mem_hint_addr),
      .sd_cke_o(sd_o.cke), .sd_cs_n_o(sd_o.cs_n), .sd_ras_n_o(sd_o.ras_n), .sd_cas_n_o(sd_o.cas_n),
      .sd_we_n_o(sd_o.we_n), .sd_ba_o(sd_o.ba), .sd_a_o(sd_o.a), .sd_dqm_o(sd_o.dqm),
      .sd_dq_o(sd_o.dq), .sd_dq_oe_o(sd_o.dq_oe), .sd_dq_i,
      .stat_refresh_o(mem_refresh), .stat_activate_o(unused_activate)
  );

  // Counters of other blocks
  assign {counts_o[127:70], counts_o[63:0]} = '0;

  assign sd_quiet_o = walker_quiet && table_sd_quiet && sdram_quiet;

endmodule
