// SPDX-License-Identifier: Apache-2.0

// The VI manager with its context RAM. The testbench owns read port 0 and sees the live bits, so
// that it reads contexts as the engines do.
module vi_manager_tb #(
    parameter int unsigned W = 32,
    parameter int unsigned Patience = 400
) (
    input  logic           clk_i,
    input  logic           rst_ni,
    input  logic [   47:0] timebase_i,
    output logic [   47:0] next_deadline_o,
    input  logic           cmd_valid_i,
    input  logic [   31:0] cmd_addr_i,
    output logic           cmd_busy_o,
    output logic           req_valid_o,
    input  logic           req_ready_i,
    output logic           req_write_o,
    output logic [   31:0] req_addr_o,
    output logic [    9:0] req_len_o,
    output logic [  W-1:0] wdata_o,
    output logic [W/8-1:0] wstrb_o,
    output logic           wvalid_o,
    input  logic           wready_i,
    input  logic           wdone_i,
    input  logic           werr_i,
    input  logic [  W-1:0] rdata_i,
    input  logic           rvalid_i,
    output logic           rready_o,
    input  logic           rlast_i,
    input  logic           rerr_i,
    output logic           ctx_wr_valid_o,
    output hvia_params_pkg::vi_t ctx_wr_vi_o,
    output logic [    2:0] ctx_wr_state_o,
    input  hvia_params_pkg::vi_t rd_vi_i,
    output logic [  127:0] rd_ctx_o,
    input  hvia_params_pkg::vi_t live_vi_i,
    output logic           live_o,
    output hvia_params_pkg::vi_t seq_init_vi_o,
    output logic           tx_seq_init_valid_o,
    input  logic           tx_seq_init_ready_i,
    output logic [   31:0] tx_seq_init_value_o,
    output logic           rx_seq_init_valid_o,
    input  logic           rx_seq_init_ready_i,
    output logic [   31:0] rx_seq_init_value_o,
    output logic           led_init_valid_o,
    input  logic           led_init_ready_i,
    output logic [   31:0] seq_init_transport_o,
    output logic           cq_tie_valid_o,
    output hvia_params_pkg::vi_t cq_tie_vi_o,
    output logic [    7:0] cq_tie_send_o,
    output logic [    7:0] cq_tie_receive_o,
    output logic           cqc_valid_o,
    input  logic           cqc_ready_i,
    output logic [    1:0] cqc_op_o,
    output logic [    7:0] cqc_index_o,
    output logic [   31:0] cqc_address_o,
    output logic [    7:0] cqc_log2_o,
    input  logic           cqc_ok_i,
    input  logic [   15:0] cqc_tail_i,
    output logic           clear_valid_o,
    input  logic           clear_ready_i,
    output hvia_params_pkg::vi_t clear_vi_o,
    output logic [   31:0] drain_handle_o,
    output hvia_params_pkg::vi_t drain_vi_o,
    input  logic           drain_handle_busy_i,
    input  logic           drain_vi_busy_i,
    output logic           flush_o,
    output logic           stale_start_o,
    output logic           upd_valid_o,
    input  logic           upd_ready_i,
    output logic [    1:0] upd_op_o,
    output logic [   31:0] upd_arg_o,
    output logic [   15:0] upd_count_o,
    output logic           upd_wvalid_o,
    input  logic           upd_wready_i,
    output logic [   31:0] upd_wdata_o,
    input  logic           upd_done_i,
    input  logic           upd_error_i,
    output logic           irq_command_done_o,
    output logic           stat_command_o,
    output logic           stat_command_error_o,
    output logic           trace_valid_o,
    output logic [    7:0] trace_event_o,
    output logic [    7:0] trace_vi_o,
    output logic [   15:0] trace_seq_o,
    output logic           quiet_o,
    output logic           context_quiet_o
);

  logic [127:0] ctx_wr_ctx, mgr_ctx;
  logic [255:0] unused_ctx;
  logic         hold_valid;
  hvia_params_pkg::vi_t mgr_vi, hold_vi;
  hvia_params_pkg::vis_t live;

  hvia_vi_context u_vi_context (
      .clk_i, .rst_ni, .wr_valid_i(ctx_wr_valid_o), .wr_vi_i(ctx_wr_vi_o), .wr_ctx_i(ctx_wr_ctx),
      .rd_vi_i({mgr_vi, {2 * hvia_params_pkg::VICountLog2{1'b0}}, rd_vi_i}),
      .rd_ctx_o({mgr_ctx, unused_ctx, rd_ctx_o}), .hold_valid_i(hold_valid), .hold_vi_i(hold_vi),
      .live_o(live), .quiet_o(context_quiet_o)
  );
  assign live_o = live[live_vi_i];
  assign ctx_wr_state_o = ctx_wr_ctx[hvia_pkg::VIContextAttributesStateLsb +: 3];

  hvia_vi_manager #(.W(W), .Patience(Patience)) u_vi_manager (
      .ctx_wr_ctx_o(ctx_wr_ctx), .ctx_rd_vi_o(mgr_vi), .ctx_rd_ctx_i(mgr_ctx),
      .hold_valid_o(hold_valid), .hold_vi_o(hold_vi), .*
  );

endmodule
