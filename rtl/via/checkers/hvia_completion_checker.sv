// SPDX-License-Identifier: Apache-2.0

// Properties of `completion`: sources hold their offers and are served in turn; request and data
// are stable until taken; a completion is one write of (immediate data,) Length and Status, then at
// most one read of Consumed and one entry; the bus answers only requests; no state changes while
// `quiet_o` is 1.
module hvia_completion_checker #(
    parameter int unsigned W = 32
) (
    input logic            clk_i,
    input logic            rst_ni,
    input logic [3:0]      cpl_valid_i,
    input logic [3:0]      cpl_ready_o,
    input logic [4*hvia_params_pkg::VICountLog2-1:0] cpl_vi_i,
    input logic [4*16-1:0] cpl_seq_i,
    input logic [4*32-1:0] cpl_pa_i,
    input logic [4*32-1:0] cpl_handle_i,
    input logic [4*32-1:0] cpl_length_i,
    input logic [4*32-1:0] cpl_status_i,
    input logic [4*32-1:0] cpl_immediate_i,
    input logic [3:0]      cpl_has_immediate_i,
    input logic [3:0]      cpl_receive_i,
    input logic [3:0]      cpl_write_i,
    input logic            req_valid_o,
    input logic            req_ready_i,
    input logic            req_write_o,
    input logic [31:0]     req_addr_o,
    input logic [9:0]      req_len_o,
    input logic [W-1:0]    wdata_o,
    input logic [W/8-1:0]  wstrb_o,
    input logic            wvalid_o,
    input logic            wready_i,
    input logic            wdone_i,
    input logic            rvalid_i,
    input logic            rready_o,
    input logic            rlast_i,
    input logic            cqc_valid_i,
    input logic            cqc_ready_o,
    input logic [1:0]      cqc_op_i,
    input logic [7:0]      cqc_index_i,
    input logic [31:0]     cqc_address_i,
    input logic [7:0]      cqc_log2_i,
    input logic            done_valid_o,
    input logic            async_valid_o,
    input logic            async_ready_i,
    input logic            stat_completion_written_o,
    input logic            stat_completion_error_o,
    input logic            stat_completion_queue_entry_o,
    input logic            stat_completion_queue_overrun_o,
    input logic            quiet_o,
    input logic [3:0]      state_q,
    input logic [1:0]      last_q,
    input hvia_params_pkg::vi_t vi_q,
    input logic [15:0]     seq_q,
    input logic [31:0]     pa_q,
    input logic [31:0]     handle_q,
    input logic [31:0]     length_q,
    input logic [31:0]     status_q,
    input logic [31:0]     immediate_q,
    input logic            has_immediate_q,
    input logic            receive_q,
    input logic [2:0]      beat_q,
    input logic            tied,
    input logic            created,
    input logic            tied_q,
    input hvia_params_pkg::vis_t has_tie_q,
    input logic            full,
    input logic [3:0]      log2,
    input logic [31:0]     header_at,
    input logic [2*hvia_params_pkg::CompletionQueuesLog2+1:0] tie_q,
    input logic [2**hvia_params_pkg::CompletionQueuesLog2-1:0] created_q,
    input logic [67-hvia_params_pkg::PageBytesLog2:0] ring_q,
    input logic [15:0]     consumed_q,
    input logic            lookup_q,
    input logic            fresh_q
);

  localparam int unsigned VIW = hvia_params_pkg::VICountLog2;
  localparam int unsigned Lanes     = W / 8;
  localparam int unsigned TieWidth  = 2 * hvia_params_pkg::CompletionQueuesLog2 + 2;
  localparam int unsigned RingWidth = 68 - hvia_params_pkg::PageBytesLog2;
  localparam int unsigned Width     = 188 + hvia_params_pkg::VICount + VIW + TieWidth + RingWidth +
      18 +
                                      2**hvia_params_pkg::CompletionQueuesLog2;

  logic             quiet_q, req_q, data_q, granted_q, asked_q, command_q;
  logic [Width-1:0] was_q;
  logic [42:0]      req_was_q;
  logic [49:0]      command_was_q;
  // Progress of the present completion.
  logic             written_q, read_q, entered_q;
  logic [31:0]      ring_end;
  logic [W+W/8-1:0] data_was_q;
  logic [3:0]       bytes, sent_q;
  logic [3:0]       wait_q;
  logic [178+VIW:0]     cpl_was_q[4];
  logic [3:0]       passed_q;  // completions served before the one of source 0

  // Functions are evaluated only where used.
  function automatic logic [Width-1:0] now();
    now = {state_q, last_q, vi_q, seq_q, pa_q, handle_q, length_q, status_q, immediate_q,
           has_immediate_q, receive_q, beat_q, tie_q, tied_q, has_tie_q, created_q, ring_q,
               consumed_q, lookup_q, fresh_q};
  endfunction
  function automatic logic [178+VIW:0] cpl(input int unsigned n);
    cpl = {cpl_vi_i[VIW*n +: VIW], cpl_seq_i[16*n +: 16], cpl_pa_i[32*n +: 32],
           cpl_handle_i[32*n +: 32], cpl_length_i[32*n +: 32], cpl_status_i[32*n +: 32],
           cpl_immediate_i[32*n +: 32], cpl_has_immediate_i[n], cpl_receive_i[n], cpl_write_i[n]};
  endfunction

  always_comb begin
    bytes = 4'd0;
    for (int i = 0; i < Lanes; i++) bytes += {3'd0, wstrb_o[i]};
  end

  // `want`: bytes of the present write.
  logic [9:0] want;
  assign want     = written_q ? 10'(hvia_pkg::CompletionEntrySize) : has_immediate_q ? 10'd12 :
      10'd8;
  assign ring_end = header_at + hvia_pkg::CompletionQueueHeaderSize +
                    (hvia_pkg::CompletionEntrySize << log2);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q   <= 1'b0;
      req_q     <= 1'b0;
      data_q    <= 1'b0;
      granted_q <= 1'b0;
      asked_q   <= 1'b0;
      command_q <= 1'b0;
      written_q <= 1'b0;
      read_q    <= 1'b0;
      entered_q <= 1'b0;
      sent_q    <= 4'd0;
      wait_q    <= 4'b0000;
      passed_q  <= 4'd0;
    end else begin
      quiet_q   <= quiet_o;
      req_q     <= req_valid_o && !req_ready_i;
      data_q    <= wvalid_o && !wready_i;
      wait_q    <= cpl_valid_i & ~cpl_ready_o;
      if (req_valid_o) req_was_q <= {req_write_o, req_addr_o, req_len_o};
      if (wvalid_o) data_was_q <= {wstrb_o, wdata_o};

      if (quiet_q) begin
        assert (now() == was_q)
        else $error("completion: a register changed after it said quiet");
      end
      for (int unsigned n = 0; n < 4; n++) begin
        if (cpl_valid_i[n]) cpl_was_q[n] <= cpl(n);
        if (wait_q[n]) begin
          assert (cpl_valid_i[n] && cpl(n) == cpl_was_q[n])
          else $error("completion: source %0d changed what it offers before it was taken", n);
        end
      end
      assert ((cpl_ready_o & ~cpl_valid_i) == 4'b0000 &&
              (cpl_ready_o & (cpl_ready_o - 4'd1)) == 4'b0000)
      else $error("completion: takes %b of %b", cpl_ready_o, cpl_valid_i);
      // Source 0 stands for all: arbitration treats sources alike.
      if (cpl_ready_o[0] || !cpl_valid_i[0]) passed_q <= 4'd0;
      else if (cpl_ready_o != 4'b0000) passed_q <= passed_q + 4'd1;
      assert (passed_q <= 4'd3)
      else $error("completion: source 0 is passed over %0d times", passed_q);

      if (req_q) begin
        assert (req_valid_o && {req_write_o, req_addr_o, req_len_o} == req_was_q)
        else $error("completion: a bus request changed before it was taken");
      end
      if (data_q) begin
        assert (wvalid_o && {wstrb_o, wdata_o} == data_was_q)
        else $error("completion: write data changed before it was taken");
      end
      if (req_valid_o && !written_q) begin
        assert (req_write_o && req_len_o == want &&
                32'(req_addr_o[4:0]) + 32'(req_len_o) == hvia_pkg::DescriptorSize)
        else $error("completion: write of %0d bytes at %h", req_len_o, req_addr_o);
      end
      if (req_valid_o && written_q) begin
        assert (tied && created && !entered_q)
        else $error("completion: an entry of no completion queue, or a second one");
      end
      if (req_valid_o && written_q && req_write_o) begin
        assert (!full && req_len_o == want && req_addr_o[2:0] == 3'd0 &&
                req_addr_o >= header_at + hvia_pkg::CompletionQueueHeaderSize &&
                    req_addr_o < ring_end)
        else $error("completion: entry of %0d bytes at %h, the ring ends at %h", req_len_o,
            req_addr_o,
                    ring_end);
      end
      if (req_valid_o && written_q && !req_write_o) begin
        assert (full && !read_q && req_len_o == 10'd4 && req_addr_o == header_at)
        else $error("completion: Consumed is read at %h without need", req_addr_o);
      end

      if (cpl_ready_o != 4'b0000 || wdone_i) sent_q <= 4'd0;
      else if (wvalid_o && wready_i) sent_q <= sent_q + bytes;
      assert (!(wvalid_o && {6'd0, sent_q} >= want))
      else $error("completion: a beat behind the last");

      if (req_valid_o && req_ready_i && req_write_o) granted_q <= 1'b1;
      else if (wdone_i) granted_q <= 1'b0;
      if (wdone_i) begin
        assert (granted_q && {6'd0, sent_q} == want)
        else $error("completion: the bus is done after %0d bytes", sent_q);
      end
      if (req_valid_o && req_ready_i && !req_write_o) asked_q <= 1'b1;
      else if (rvalid_i && rready_o && rlast_i) asked_q <= 1'b0;
      assert (rready_o == asked_q)
      else $error("completion: ready for a read %0d, asked %0d", rready_o, asked_q);

      // Order of a completion: Status, Consumed, entry.
      if (cpl_ready_o != 4'b0000) begin
        written_q <= 1'b0;
        read_q    <= 1'b0;
        entered_q <= 1'b0;
      end else begin
        if (stat_completion_written_o) written_q <= 1'b1;
        if (rvalid_i && rready_o && rlast_i) read_q <= 1'b1;
        if (stat_completion_queue_entry_o) entered_q <= 1'b1;
      end
      assert (!(stat_completion_queue_entry_o || stat_completion_queue_overrun_o) || written_q)
      else $error("completion: an entry before its Status");
      assert (done_valid_o == (stat_completion_written_o || stat_completion_queue_entry_o))
      else $error("completion: done_valid_o %0d contradicts the writes", done_valid_o);

      command_q <= cqc_valid_i && !cqc_ready_o;
      if (cqc_valid_i) command_was_q <= {cqc_op_i, cqc_index_i, cqc_address_i, cqc_log2_i};
      if (command_q) begin
        assert (cqc_valid_i && {cqc_op_i, cqc_index_i, cqc_address_i, cqc_log2_i} == command_was_q)
        else $error("completion: a command changed before it was done");
      end
      assert (!(cqc_ready_o && !cqc_valid_i))
      else $error("completion: a command that nobody gave is done");

      assert (async_valid_o == (stat_completion_error_o || stat_completion_queue_overrun_o) &&
              !(async_valid_o && (done_valid_o || !async_ready_i)))
      else $error("completion: written and lost, or lost without a report");
      // State at the start of a quiescent span.
      if (quiet_o && !quiet_q) was_q <= now();
    end
  end

endmodule

bind hvia_completion hvia_completion_checker #(.W(W)) u_checker (.*);
