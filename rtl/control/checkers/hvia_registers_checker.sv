// SPDX-License-Identifier: Apache-2.0

// Properties of `registers`: the target's deadline for reads; one command at a time; doorbells
// reach the doorbell block unchanged or not at all; an asynchronous error is queued, or marks its
// VI if the queue is full; no state changes while `quiet_o` is 1.

module hvia_registers_checker (
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
    input logic [hvia_pkg::RegisterInterruptStatusNotifyBit:0] irq_status_q,
    input logic [hvia_pkg::RegisterInterruptStatusNotifyBit:0] irq_enable_q,
    input logic        core_rst_ni,
    input logic        async_valid_i,
    input logic [ 7:0] async_code_i,
    input logic [ 7:0] async_vi_i,
    input logic        async_take,
    input logic        async_overflow_q,
    input logic [13:0] async_count_q,
    input logic [$clog2(hvia_pkg::AsyncErrorSlots):0] async_head_q,
    input logic [$clog2(hvia_pkg::AsyncErrorSlots):0] async_tail_q,
    input logic [32*hvia_pkg::AsyncErrorDroppedWords-1:0] async_dropped_q,
    input logic [ 7:0] rawtx_tail_q,
    input logic [ 7:0] rawrx_tail_q,
    input logic        arm_valid_o,
    input logic [ 3:0] tgt_wbe_i,
    input logic        info_read_o,
    input logic [ 1:0] rd_state_q,
    input logic        card_quiet,
    input logic        quiet_o
);

  localparam int unsigned ReadLimit = 4;  // clocks

  logic [2:0] wait_q;
  logic quiet_q, busy_q;
  localparam int unsigned AsyncBits = $clog2(hvia_pkg::AsyncErrorSlots) + 1;

  logic [93+2*AsyncBits:0] then_q;
  logic [32*hvia_pkg::AsyncErrorDroppedWords-1:0] dropped_then_q;
  logic held;  // quiescent in the last clock; a reset clears it
  assign held = quiet_q && !busy_q && !soft_reset_busy_i;
  // A function is evaluated only where used.
  function automatic logic [93+2*AsyncBits:0] now();
    now = {
      mac_q, irq_status_q, irq_enable_q, async_count_q, async_overflow_q, async_head_q,
          async_tail_q,
      rawtx_tail_q, rawrx_tail_q, rd_state_q, card_quiet
    };
  endfunction

  // Errors that wait, counted here: an error adds one unless the queue is full and no read frees a
  // slot; only a read removes one.
  logic [AsyncBits-1:0] waiting_q;
  logic                 lost, lost_q, link_q;
  logic [7:0]           lost_vi_q;
  assign lost = async_valid_i && !async_take &&
      32'(waiting_q) == hvia_pkg::AsyncErrorSlots;

  always_ff @(posedge clk_i) begin
    if (!core_rst_ni) begin
      waiting_q <= '0;
      lost_q    <= 1'b0;
    end else begin
      waiting_q <= waiting_q + AsyncBits'(async_valid_i && !lost) - AsyncBits'(async_take);
      lost_q    <= lost;
      lost_vi_q <= async_vi_i;
      link_q    <= (async_code_i == hvia_pkg::AsyncErrorLinkDown) ||
          (async_code_i == hvia_pkg::AsyncErrorLinkUp);
      assert (async_tail_q - async_head_q == waiting_q)
      else $error("registers: %0d asynchronous errors wait, %0d were not taken yet",
                  async_tail_q - async_head_q, waiting_q);
      assert (!(async_take && waiting_q == '0))
      else $error("registers: a read takes an asynchronous error and there is none");
      if (lost_q) begin
        assert (async_overflow_q && (link_q || async_dropped_q[lost_vi_q]))
        else $error("registers: an asynchronous error of VI %0d was dropped without a mark",
            lost_vi_q);
      end
      assert (!async_overflow_q || 32'(waiting_q) == hvia_pkg::AsyncErrorSlots)
      else $error("registers: overflow is said with %0d asynchronous errors", waiting_q);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      wait_q  <= 3'd0;
      quiet_q <= 1'b0;
      busy_q  <= 1'b1;
    end else begin
      wait_q  <= (tgt_rvalid_i && !tgt_rready_o) ? wait_q + 3'd1 : 3'd0;
      quiet_q <= quiet_o;
      busy_q  <= soft_reset_busy_i;
      assert (wait_q < 3'(ReadLimit))
      else $error("registers: a read waits longer than %0d clocks", ReadLimit);
      assert (!(tgt_rready_o && !tgt_rvalid_i))
      else $error("registers: a response to no read");
      assert (!(cmd_valid_o && cmd_busy_i))
      else $error("registers: a command starts while one is under way");
      assert (db_wvalid_o == (tgt_wvalid_i && tgt_wbar_i && !soft_reset_busy_i))
      else $error("registers: a doorbell write is lost or made up");
      assert (!(db_wvalid_o && tgt_wready_o != db_wready_i))
      else $error("registers: the doorbell block and the target disagree");
      assert (!(arm_valid_o && (!tgt_wvalid_i || tgt_wbar_i || tgt_wbe_i != 4'hf ||
          soft_reset_busy_i)))
      else $error("registers: a queue is armed without a complete write");
      assert (!(info_read_o && !tgt_rvalid_i))
      else $error("registers: a name is taken without a read");
      assert (!(soft_reset_busy_i && enable_o))
      else $error("registers: the card is enabled during a reset");
      if (held) begin
        assert (async_dropped_q == dropped_then_q && now() == then_q)
        else $error("registers: a register changed after quiet");
      end
      // State at the start of a quiescent span.
      if (quiet_o && !held) begin
        dropped_then_q <= async_dropped_q;
        then_q         <= now();
      end
    end
  end

endmodule

bind hvia_registers hvia_registers_checker u_checker (.*);
