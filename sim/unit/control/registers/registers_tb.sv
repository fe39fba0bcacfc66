// SPDX-License-Identifier: Apache-2.0

// Registers, counters and reset sequence, connected as in the card. The testbench acts as the
// target, the host bus, and all sources of events.
module registers_tb (
    input  logic         clk_i,
    input  logic         rst_ni,
    input  logic         sd_clk_i,
    input  logic         mac_clk_i,
    input  logic         bus_idle_i,
    output logic         quiesce_o,
    output logic         bus_rst_no,
    output logic         core_rst_no,
    output logic         sd_rst_no,
    output logic         mac_rst_no,
    input  logic [ 31:0] strap_i,
    output logic [ 31:0] strap_o,
    output logic         busy_o,
    input  logic         tgt_wvalid_i,
    output logic         tgt_wready_o,
    input  logic         tgt_wbar_i,
    input  logic [ 19:0] tgt_waddr_i,
    input  logic [ 31:0] tgt_wdata_i,
    input  logic [  3:0] tgt_wbe_i,
    input  logic         tgt_rvalid_i,
    input  logic         tgt_rbar_i,
    input  logic [ 19:0] tgt_raddr_i,
    output logic         tgt_rready_o,
    output logic [ 31:0] tgt_rdata_o,
    output logic         db_wvalid_o,
    input  logic         db_wready_i,
    output logic [ 19:0] db_waddr_o,
    output logic [ 31:0] db_wdata_o,
    output logic [  3:0] db_wbe_o,
    output logic         enable_o,
    output logic [ 47:0] mac_o,
    input  logic         ready_i,
    input  logic         card_quiet_i,
    output logic         cmd_valid_o,
    output logic [ 31:0] cmd_addr_o,
    input  logic         cmd_busy_i,
    output logic         stat_command_ignored_o,
    output logic [ 31:0] att_level1_o,
    output logic [ 31:0] att_level2_o,
    output logic [ 31:0] rawtx_base_o,
    output logic [  3:0] rawtx_size_o,
    output logic [  7:0] rawtx_tail_o,
    output logic         rawtx_restart_o,
    input  logic [  7:0] rawtx_head_i,
    input  logic         rawtx_busy_i,
    output logic [ 31:0] rawrx_base_o,
    output logic [  3:0] rawrx_size_o,
    output logic [  7:0] rawrx_tail_o,
    output logic         rawrx_restart_o,
    input  logic [  7:0] rawrx_head_i,
    input  logic         rawrx_busy_i,
    input  logic         irq_command_done_i,
    input  logic         irq_raw_receive_i,
    input  logic         irq_raw_transmit_i,
    input  logic         irq_bus_error_i,
    input  logic         async_valid_i,
    input  logic [  7:0] async_code_i,
    input  logic [  7:0] async_vi_i,
    input  logic         link_down_i,
    output logic         inta_o,
    input  logic         irq_notify_i,
    output logic         arm_valid_o,
    output logic [  1:0] arm_kind_o,
    output logic [  7:0] arm_index_o,
    output logic         info_read_o,
    input  logic [ 31:0] info_data_i,
    input  logic [127:0] strobe_i,
    output logic         registers_quiet_o,
    output logic         counters_quiet_o,
    output logic         reset_quiet_o
);

  logic        soft_reset;
  logic [ 6:0] counter_index;
  logic [31:0] counter_data;

  hvia_reset_control u_reset_control (
      .soft_reset_i(soft_reset), .quiet_o(reset_quiet_o), .*
  );

  hvia_registers u_registers (
      .rst_ni(bus_rst_no), .core_rst_ni(core_rst_no), .counter_index_o(counter_index),
      .counter_data_i(counter_data), .strap_i(strap_o), .soft_reset_o(soft_reset),
      .soft_reset_busy_i(busy_o), .quiet_o(registers_quiet_o), .*
  );

  hvia_counters u_counters (
      .rst_ni(core_rst_no), .rd_index_i(counter_index), .rd_data_o(counter_data),
      .quiet_o(counters_quiet_o), .*
  );

endmodule
