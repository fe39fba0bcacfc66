// SPDX-License-Identifier: Apache-2.0

// Properties of `vi_manager` that its neighbours rely on in every clock.

module hvia_vi_manager_checker (
    input logic           clk_i,
    input logic           rst_ni,
    input logic           cmd_valid_i,
    input logic           cmd_busy_o,
    input logic           req_valid_o,
    input logic           req_ready_i,
    input logic           req_write_o,
    input logic [   31:0] req_addr_o,
    input logic [    9:0] req_len_o,
    input logic           rlast_i,
    input logic           rvalid_i,
    input logic           rready_o,
    input logic           upd_valid_o,
    input logic           upd_ready_i,
    input logic [   31:0] upd_arg_o,
    input logic           upd_wvalid_o,
    input logic           upd_wready_i,
    input logic [   31:0] upd_wdata_o,
    input logic           ctx_wr_valid_o,
    input logic           cq_tie_valid_o,
    input logic           cqc_valid_o,
    input logic           cqc_ready_i,
    input logic [    7:0] cqc_index_o,
    input logic           hold_valid_o,
    input logic [   47:0] next_deadline_o,
    input logic [   47:0] timebase_i,
    input logic           irq_command_done_o,
    input logic           quiet_o,
    // State that must not change while quiescent.
    input logic [    4:0] state_q,
    input logic [    3:0] word_q,
    input logic [   10:0] fill_q,
    input logic [   10:0] chunk_q,
    input logic [   31:0] detail_q,
    input logic [    7:0] status_q,
    input logic [   31:0] index_q,
    input logic [   31:0] list_count_q,
    input logic           hold_q,
    input logic           second_q,
    input logic           flush_o,
    input logic           stale_start_o,
    input logic           tx_seq_done_q,
    input logic           rx_seq_done_q,
    input logic           led_done_q,
    input logic           req_sent_q,
    input logic [    1:0] beat_q,
    input logic [  255:0] payload_q
);

  localparam int unsigned StateWidth = 5 + 4 + 11 + 11 + 32 + 8 + 32 + 32 + 5 + 3;
  logic [StateWidth-1:0] then_q;
  logic [255:0] payload_then_q;
  // A function is evaluated only where used.
  function automatic logic [StateWidth-1:0] now();
    now = {
      state_q, word_q, fill_q, chunk_q, detail_q, status_q, index_q, list_count_q, hold_q, second_q,
      tx_seq_done_q, rx_seq_done_q, led_done_q, req_sent_q, beat_q
    };
  endfunction

  logic quiet_q, request_held_q, write_q, update_held_q, word_held_q, reading_q, queue_held_q;
  logic [31:0] addr_q, arg_q, data_q;
  logic [9:0] len_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q        <= 1'b0;
      request_held_q <= 1'b0;
      update_held_q  <= 1'b0;
      word_held_q    <= 1'b0;
      reading_q      <= 1'b0;
      queue_held_q   <= 1'b0;
    end else begin
      quiet_q        <= quiet_o;
      request_held_q <= req_valid_o && !req_ready_i;
      write_q        <= req_write_o;
      addr_q         <= req_addr_o;
      len_q          <= req_len_o;
      update_held_q  <= upd_valid_o && !upd_ready_i;
      arg_q          <= upd_arg_o;
      word_held_q    <= upd_wvalid_o && !upd_wready_i;
      data_q         <= upd_wdata_o;
      if (req_valid_o && req_ready_i && !req_write_o) reading_q <= 1'b1;
      else if (rvalid_i && rready_o && rlast_i) reading_q <= 1'b0;

      if (quiet_q) begin
        assert (payload_q == payload_then_q && now() == then_q)
        else $error("vi_manager: a register changed after quiet");
      end
      if (request_held_q) begin
        assert (req_valid_o && req_write_o == write_q && req_addr_o == addr_q && req_len_o == len_q)
        else $error("vi_manager: a host bus request changed before it was taken");
      end
      if (update_held_q) begin
        assert (upd_valid_o && upd_arg_o == arg_q)
        else $error("vi_manager: an update changed before it was taken");
      end
      if (word_held_q) begin
        assert (!upd_wvalid_o || upd_wdata_o == data_q)
        else $error("vi_manager: an update word changed before it was taken");
      end
      assert (!(req_valid_o && !req_write_o && reading_q))
      else $error("vi_manager: a second read was requested");
      assert (!(rready_o && !reading_q))
      else $error("vi_manager: ready for a read that was not requested");
      assert (!(cmd_valid_i && cmd_busy_o))
      else $error("vi_manager: a command was started while one is under way");
      assert (!(ctx_wr_valid_o && !cmd_busy_o))
      else $error("vi_manager: a context was written without a command");
      assert (!(cq_tie_valid_o && !ctx_wr_valid_o))
      else $error("vi_manager: ties without a context");
      assert (!(cqc_valid_o &&
          (!cmd_busy_o || 32'(cqc_index_o) >= 2**hvia_params_pkg::CompletionQueuesLog2)))
      else $error("vi_manager: a command for completion queue %0d", cqc_index_o);
      queue_held_q <= cqc_valid_o && !cqc_ready_i;
      assert (!queue_held_q || cqc_valid_o)
      else $error("vi_manager: a command for a completion queue was withdrawn");
      assert (!((flush_o || stale_start_o) && !cmd_busy_o))
      else $error("vi_manager: queues were flushed or marked without a command");
      assert (!irq_command_done_o || cmd_busy_o)
      else $error("vi_manager: an interrupt without a command");
      assert (!(quiet_o && next_deadline_o != '1 && timebase_i >= next_deadline_o && !hold_valid_o))
      else $error("vi_manager: quiet although the deadline has come");
      // State at the start of a quiescent span.
      if (quiet_o && !quiet_q) begin
        payload_then_q <= payload_q;
        then_q         <= now();
      end
    end
  end

endmodule

bind hvia_vi_manager hvia_vi_manager_checker u_checker (.*);
