// SPDX-License-Identifier: Apache-2.0

// Properties of `cdc_fifo`: no overflow, no underflow; a word is stable until it is taken; a
// quiescent side changes no pointer at its next clock.

module hvia_cdc_fifo_checker #(
    parameter int unsigned Width = 32,
    parameter int unsigned AddrW = 4,
    parameter int unsigned Depth = 16
) (
    input logic             src_clk_i,
    input logic             src_rst_n,
    input logic             src_quiet_o,
    input logic             push,
    input logic [  AddrW:0] wbin_q,
    input logic [  AddrW:0] rgray_sync,
    input logic             dst_clk_i,
    input logic             dst_rst_n,
    input logic             dst_valid_o,
    input logic             dst_ready_i,
    input logic [Width-1:0] dst_data_o,
    input logic             dst_quiet_o,
    input logic             pop,
    input logic [  AddrW:0] rbin_q,
    input logic [  AddrW:0] wgray_sync
);

  localparam logic [AddrW:0] Lap = (AddrW + 1)'(Depth);

  // Gray code to binary: each bit is the parity of the Gray bits from it up.
  function automatic logic [AddrW:0] from_gray(input logic [AddrW:0] gray);
    for (int unsigned i = 0; i <= AddrW; i++) from_gray[i] = ^(gray >> i);
  endfunction

  logic src_quiet_q;
  logic [2*AddrW+1:0] src_state_q;
  logic [AddrW:0] fill;
  assign fill = wbin_q - from_gray(rgray_sync);
  always_ff @(posedge src_clk_i) begin
    if (!src_rst_n) begin
      src_quiet_q <= 1'b0;
      src_state_q <= '0;
    end else begin
      src_quiet_q <= src_quiet_o;
      src_state_q <= {wbin_q, rgray_sync};
      if (src_quiet_q) begin
        assert ({wbin_q, rgray_sync} == src_state_q)
        else $error("cdc_fifo: the source side changed after it said quiet");
      end
      assert (fill <= Lap)
      else $error("cdc_fifo: overflow, the source sees %0d of %0d words", fill, Depth);
      assert (!(push && (fill == Lap)))
      else $error("cdc_fifo: a word was taken while full");
    end
  end

  logic dst_quiet_q, held_q;
  logic [2*AddrW+1:0] dst_state_q;
  logic [Width-1:0] data_q;
  always_ff @(posedge dst_clk_i) begin
    if (!dst_rst_n) begin
      dst_quiet_q <= 1'b0;
      held_q      <= 1'b0;
      dst_state_q <= '0;
    end else begin
      dst_quiet_q <= dst_quiet_o;
      dst_state_q <= {rbin_q, wgray_sync};
      held_q      <= dst_valid_o && !dst_ready_i;
      if (dst_valid_o) data_q <= dst_data_o;
      if (dst_quiet_q) begin
        assert ({rbin_q, wgray_sync} == dst_state_q)
        else $error("cdc_fifo: the destination side changed after it said quiet");
      end
      if (held_q) begin
        assert (dst_valid_o && (dst_data_o == data_q))
        else $error("cdc_fifo: a word changed or vanished before it was taken");
      end
      assert (!(pop && (rbin_q == from_gray(wgray_sync))))
      else $error("cdc_fifo: underflow");
    end
  end

endmodule

bind hvia_cdc_fifo hvia_cdc_fifo_checker #(.Width(Width), .AddrW(AddrW),
    .Depth(Depth)) u_checker (.*);
