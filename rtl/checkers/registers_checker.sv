// SPDX-License-Identifier: Apache-2.0

// Checks of the registers: the target's deadline for reads, one command at a time, doorbells reach
// the doorbell block unchanged or not at all, nothing moves after quiet.

module registers_checker (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        tgt_wvalid_i,
    input logic        tgt_wready_o,
    input logic        tgt_wbar_i,
    input logic        tgt_rvalid_i,
    input logic        tgt_rready_o,
    input logic        db_wvalid_o,
    input logic        db_wready_i,
    input logic        cmd_valid_o,
    input logic        cmd_busy_i,
    input logic        soft_reset_busy_i,
    input logic        enable_o,
    input logic [47:0] mac_q,
    input logic [ 4:0] irq_status_q,
    input logic [ 4:0] irq_enable_q,
    input logic [15:0] async_count_q,
    input logic [ 7:0] rawtx_tail_q,
    input logic [ 7:0] rawrx_tail_q,
    input logic [ 1:0] rd_state_q,
    input logic        quiet_o
);

  localparam int unsigned Answer = 4;  // clocks

  logic [2:0] wait_q;
  logic quiet_q, busy_q;
  logic [91:0] now, then_q;
  assign now = {
    mac_q, irq_status_q, irq_enable_q, async_count_q, rawtx_tail_q, rawrx_tail_q, rd_state_q
  };

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      wait_q  <= 3'd0;
      quiet_q <= 1'b0;
      busy_q  <= 1'b1;
      then_q  <= '0;
    end else begin
      wait_q  <= (tgt_rvalid_i && !tgt_rready_o) ? wait_q + 3'd1 : 3'd0;
      quiet_q <= quiet_o;
      busy_q  <= soft_reset_busy_i;
      then_q  <= now;
      assert (wait_q < 3'(Answer))
      else $error("registers: a read waits longer than %0d clocks", Answer);
      assert (!(tgt_rready_o && !tgt_rvalid_i))
      else $error("registers: an answer to no read");
      assert (!(cmd_valid_o && cmd_busy_i))
      else $error("registers: a command starts while one is under way");
      assert (db_wvalid_o == (tgt_wvalid_i && tgt_wbar_i && !soft_reset_busy_i))
      else $error("registers: a doorbell write is lost or made up");
      assert (!(db_wvalid_o && tgt_wready_o != db_wready_i))
      else $error("registers: the doorbell block and the target disagree");
      assert (!(soft_reset_busy_i && enable_o))
      else $error("registers: the card is enabled during a reset");
      // A reset in between clears everything.
      if (quiet_q && !busy_q && !soft_reset_busy_i) begin
        assert (now == then_q)
        else $error("registers: a register changed after quiet");
      end
    end
  end

endmodule

bind registers registers_checker u_checker (.*);
