// SPDX-License-Identifier: Apache-2.0

// The crossings under test between one source clock and one destination clock: lane 0 is the
// handshake, lane 1 the smallest FIFO, lane 2 a usual one. The C++ side drives and checks all
// lanes.
module cdc_tb (
    input  logic        src_clk_i,
    input  logic        src_rst_ni,
    input  logic [ 2:0] src_valid_i,
    output logic [ 2:0] src_ready_o,
    input  logic [23:0] src_data0_i,
    input  logic [23:0] src_data1_i,
    input  logic [23:0] src_data2_i,
    output logic [ 2:0] src_quiet_o,
    input  logic        dst_clk_i,
    input  logic        dst_rst_ni,
    output logic [ 2:0] dst_valid_o,
    input  logic [ 2:0] dst_ready_i,
    output logic [23:0] dst_data0_o,
    output logic [23:0] dst_data1_o,
    output logic [23:0] dst_data2_o,
    output logic [ 2:0] dst_quiet_o
);

  hvia_cdc_handshake #(.Width(24)) u_handshake (
      .src_clk_i, .src_rst_ni, .src_valid_i(src_valid_i[0]), .src_ready_o(src_ready_o[0]),
      .src_data_i(src_data0_i), .src_quiet_o(src_quiet_o[0]), .dst_clk_i, .dst_rst_ni,
      .dst_valid_o(dst_valid_o[0]), .dst_ready_i(dst_ready_i[0]), .dst_data_o(dst_data0_o),
      .dst_quiet_o(dst_quiet_o[0])
  );

  hvia_cdc_fifo #(.Width(24), .Depth(2)) u_fifo_min (
      .src_clk_i, .src_rst_ni, .src_valid_i(src_valid_i[1]), .src_ready_o(src_ready_o[1]),
      .src_data_i(src_data1_i), .src_quiet_o(src_quiet_o[1]), .dst_clk_i, .dst_rst_ni,
      .dst_valid_o(dst_valid_o[1]), .dst_ready_i(dst_ready_i[1]), .dst_data_o(dst_data1_o),
      .dst_quiet_o(dst_quiet_o[1])
  );

  hvia_cdc_fifo #(.Width(24), .Depth(16)) u_fifo (
      .src_clk_i, .src_rst_ni, .src_valid_i(src_valid_i[2]), .src_ready_o(src_ready_o[2]),
      .src_data_i(src_data2_i), .src_quiet_o(src_quiet_o[2]), .dst_clk_i, .dst_rst_ni,
      .dst_valid_o(dst_valid_o[2]), .dst_ready_i(dst_ready_i[2]), .dst_data_o(dst_data2_o),
      .dst_quiet_o(dst_quiet_o[2])
  );

endmodule
