// SPDX-License-Identifier: Apache-2.0

// Checks of every rx_engine: a slot is released only when it holds a frame, a frame gets one verdict,
// errors and trace events do not collide, a write is asked for only for a frame that passed all
// checks, and the payload is read inside the slot's frame.

module rx_engine_checker (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        rx_valid_i,
    input logic [10:0] rx_len_i,
    input logic [8:0]  word_q,
    input logic        rx_done_o,
    input logic        checked,
    input logic        not_for_us,
    input logic        to_raw,
    input logic        malformed,
    input logic        bad_vi,
    input logic        old,
    input logic        in_order,
    input logic        accept,
    input logic        ctx_rdma_write,
    input logic        cut,
    input logic        job_valid,
    input logic        job_ready,
    input logic        raw,
    input logic        beat_valid,
    input logic        beat_ready,
    input logic        write_done,
    input logic        raw_done,
    input logic        job_done,
    input logic        job_translated,
    input logic        trace_valid_o,
    input logic [2:0]  state_q,
    input logic        quiet_o
);

  logic quiet_q;
  logic [2:0] last_state_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      quiet_q <= 1'b0;
    end else begin
      quiet_q      <= quiet_o;
      last_state_q <= state_q;
      if (rx_done_o || state_q != 3'd0) begin
        assert (rx_valid_i)
        else $error("rx_engine: works on a slot that holds no frame");
      end
      if (checked && !not_for_us && !to_raw) begin
        assert ($onehot({malformed, !malformed && bad_vi, !malformed && !bad_vi && old, in_order}))
        else $error("rx_engine: more or less than one verdict on a frame");
      end
      assert (!(accept && !in_order) && !(cut && !in_order))
      else $error("rx_engine: a message was touched by a frame that was dropped");
      if (job_valid) begin
        assert (job_ready && (raw || (accept && ctx_rdma_write)))
        else $error("rx_engine: a write without a right to it");
      end
      if (beat_valid && beat_ready) begin
        assert ({word_q, 2'b00} < rx_len_i)
        else $error("rx_engine: word %0d of a frame of %0d bytes", word_q, rx_len_i);
      end
      if (job_done) begin
        assert (write_done || raw_done)
        else $error("rx_engine: the DMA ended a job that nobody gave");
      end
      if (trace_valid_o) begin
        assert (!(accept && (job_translated || job_done)) && !(job_translated && job_done))
        else $error("rx_engine: two trace events in one clock");
      end
      if (quiet_q) begin
        assert (!quiet_o || state_q == last_state_q)
        else $error("rx_engine: changed after it said quiet");
      end
    end
  end

endmodule

bind rx_engine rx_engine_checker u_checker (.*);
