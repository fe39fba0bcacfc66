// SPDX-License-Identifier: Apache-2.0

// Translation as in the card: att_manager with att_memory and sdram_controller.
module att_tb #(
    parameter int unsigned W = 32
) (
    input  logic clk_i,
    input  logic rst_ni,
    input  logic sd_clk_i,
    input  logic sd_rst_ni,
    input  logic no_overlap_i,
    input  logic slow_i,
    input  logic host_i,

    // Host memory.
    input  logic [   31:0] level1_i,
    input  logic [   31:0] level2_i,
    output logic           bus_req_valid_o,
    input  logic           bus_req_ready_i,
    output logic           bus_req_write_o,
    output logic [   31:0] bus_req_addr_o,
    output logic [    9:0] bus_req_len_o,
    output logic [  W-1:0] bus_wdata_o,
    output logic [W/8-1:0] bus_wstrb_o,
    output logic           bus_wvalid_o,
    input  logic           bus_wready_i,
    input  logic           bus_wdone_i,
    input  logic           bus_werr_i,
    input  logic [  W-1:0] bus_rdata_i,
    input  logic           bus_rvalid_i,
    output logic           bus_rready_o,
    input  logic           bus_rlast_i,
    input  logic           bus_rerr_i,

    output logic quiet_o,
    output logic sd_quiet_o,
    output logic ready_o,
    input  logic [47:0] sd_timebase_i,
    output logic [47:0] next_deadline_o,

    input  logic [     2:0] req_valid_i,
    output logic [     2:0] req_ready_o,
    input  logic [3*32-1:0] req_handle_i,
    input  logic [3*64-1:0] req_va_i,
    input  logic [3*32-1:0] req_len_i,
    input  logic [3*16-1:0] req_tag_i,
    input  logic [ 3*2-1:0] req_access_i,
    input  logic [3*hvia_params_pkg::VICountLog2-1:0] req_vi_i,
    output logic [     2:0] rsp_valid_o,
    output logic [     2:0] rsp_err_o,
    output logic [    31:0] rsp_pa_o,
    output logic [    12:0] rsp_bytes_o,

    input  logic        upd_valid_i,
    output logic        upd_ready_o,
    input  logic [ 1:0] upd_op_i,
    input  logic [31:0] upd_arg_i,
    input  logic [15:0] upd_count_i,
    input  logic        upd_wvalid_i,
    output logic        upd_wready_o,
    input  logic [31:0] upd_wdata_i,
    output logic        upd_done_o,
    output logic        upd_error_o,

    output logic stat_translate_o,
    output logic stat_level1_read_o,
    output logic stat_level2_read_o,
    output logic stat_error_o,
    output logic stat_invalidate_o,
    output logic stat_refresh_o,

    output logic        sd_cke_o,
    output logic        sd_cs_n_o,
    output logic        sd_ras_n_o,
    output logic        sd_cas_n_o,
    output logic        sd_we_n_o,
    output logic [ 1:0] sd_ba_o,
    output logic [11:0] sd_a_o,
    output logic [ 3:0] sd_dqm_o,
    output logic [31:0] sd_dq_o,
    output logic        sd_dq_oe_o,
    input  logic [31:0] sd_dq_i
);

  logic mem_req_valid, mem_req_ready, mem_req_write, mem_wvalid, mem_wready;
  logic mem_rvalid, mem_rlast, mem_hint_valid, mem_init_done, mem_refresh;
  logic [23:0] mem_req_addr, mem_hint_addr;
  logic [3:0] mem_req_len;
  logic [31:0] mem_wdata, mem_rdata;
  logic mem_werr, mem_rerr, sdram_req_valid, sdram_req_ready, sdram_wvalid, sdram_wready;
  logic sdram_rvalid, sdram_rlast, sdram_hint_valid;
  logic [31:0] sdram_rdata;
  logic att_quiet, att_sd_quiet, memory_quiet, memory_sd_quiet, controller_quiet, stat_activate;

  hvia_att_manager u_att (
      .clk_i, .rst_ni, .quiet_o(att_quiet), .ready_o, .req_valid_i, .req_ready_o, .req_handle_i,
      .req_va_i, .req_len_i, .req_tag_i, .req_access_i, .req_vi_i, .rsp_valid_o, .rsp_err_o,
      .rsp_pa_o, .rsp_bytes_o, .upd_valid_i, .upd_ready_o, .upd_op_i, .upd_arg_i, .upd_count_i,
      .upd_wvalid_i, .upd_wready_o, .upd_wdata_i, .upd_done_o, .upd_error_o, .stat_translate_o,
      .stat_level1_read_o, .stat_level2_read_o, .stat_error_o, .stat_invalidate_o, .stat_refresh_o,
      .sd_clk_i, .sd_rst_ni, .sd_quiet_o(att_sd_quiet), .no_overlap_i, .host_i,
      .mem_init_done_i(mem_init_done), .mem_refresh_i(mem_refresh), .mem_req_valid_o(mem_req_valid),
      .mem_req_ready_i(mem_req_ready), .mem_req_write_o(mem_req_write),
      .mem_req_addr_o(mem_req_addr), .mem_req_len_o(mem_req_len), .mem_wvalid_o(mem_wvalid),
      .mem_wready_i(mem_wready), .mem_wdata_o(mem_wdata), .mem_werr_i(mem_werr),
      .mem_rvalid_i(mem_rvalid), .mem_rdata_i(mem_rdata), .mem_rlast_i(mem_rlast),
      .mem_rerr_i(mem_rerr), .mem_hint_valid_o(mem_hint_valid), .mem_hint_addr_o(mem_hint_addr)
  );

  hvia_att_memory #(.W(W)) u_memory (
      .clk_i, .rst_ni, .quiet_o(memory_quiet), .level1_i, .level2_i, .req_valid_o(bus_req_valid_o),
      .req_ready_i(bus_req_ready_i), .req_write_o(bus_req_write_o), .req_addr_o(bus_req_addr_o),
      .req_len_o(bus_req_len_o), .wdata_o(bus_wdata_o), .wstrb_o(bus_wstrb_o),
      .wvalid_o(bus_wvalid_o), .wready_i(bus_wready_i), .wdone_i(bus_wdone_i), .werr_i(bus_werr_i),
      .rdata_i(bus_rdata_i), .rvalid_i(bus_rvalid_i), .rready_o(bus_rready_o),
      .rlast_i(bus_rlast_i), .rerr_i(bus_rerr_i), .sd_clk_i, .sd_rst_ni,
      .sd_quiet_o(memory_sd_quiet), .host_i, .mem_req_valid_i(mem_req_valid),
      .mem_req_ready_o(mem_req_ready), .mem_req_write_i(mem_req_write),
      .mem_req_addr_i(mem_req_addr), .mem_req_len_i(mem_req_len), .mem_wvalid_i(mem_wvalid),
      .mem_wready_o(mem_wready), .mem_wdata_i(mem_wdata), .mem_werr_o(mem_werr),
      .mem_rvalid_o(mem_rvalid), .mem_rdata_o(mem_rdata), .mem_rlast_o(mem_rlast),
      .mem_rerr_o(mem_rerr), .mem_hint_valid_i(mem_hint_valid), .sdram_req_valid_o(sdram_req_valid),
      .sdram_req_ready_i(sdram_req_ready), .sdram_wvalid_o(sdram_wvalid),
      .sdram_wready_i(sdram_wready), .sdram_rvalid_i(sdram_rvalid), .sdram_rdata_i(sdram_rdata),
      .sdram_rlast_i(sdram_rlast), .sdram_hint_valid_o(sdram_hint_valid)
  );

  hvia_sdram_controller u_sdram (
      .clk_i(sd_clk_i), .rst_ni(sd_rst_ni), .slow_i, .timebase_i(sd_timebase_i), .next_deadline_o,
      .quiet_o(controller_quiet), .init_done_o(mem_init_done), .req_valid_i(sdram_req_valid),
      .req_ready_o(sdram_req_ready), .req_write_i(mem_req_write), .req_addr_i(mem_req_addr),
      .req_len_i(mem_req_len), .wvalid_i(sdram_wvalid), .wready_o(sdram_wready),
      .wdata_i(mem_wdata), .rvalid_o(sdram_rvalid), .rdata_o(sdram_rdata), .rlast_o(sdram_rlast),
      .hint_valid_i(sdram_hint_valid), .hint_addr_i(mem_hint_addr), .sd_cke_o, .sd_cs_n_o,
      .sd_ras_n_o, .sd_cas_n_o, .sd_we_n_o, .sd_ba_o, .sd_a_o, .sd_dqm_o, .sd_dq_o, .sd_dq_oe_o,
      .sd_dq_i, .stat_refresh_o(mem_refresh), .stat_activate_o(stat_activate)
  );

  assign quiet_o    = att_quiet && memory_quiet;
  assign sd_quiet_o = att_sd_quiet && memory_sd_quiet && controller_quiet;

  logic unused;
  assign unused = stat_activate;

endmodule
