// SPDX-License-Identifier: Apache-2.0

// Properties of `tx_engine`: offers are stable until taken; a frame starts only with a free slot
// and leaves it complete or aborted; the last frame of a message waits until the segments are used
// up; one chunk is requested at a time; a report to the ledger is stable until taken and is
// answered in time; the engine completes nothing that the ledger owns; a job does not start past
// its message's end; `quiet_o` is 1 exactly when the engine is quiescent.

module hvia_tx_engine_checker #(
    parameter int unsigned W = 32
) (
    input logic         clk_i,
    input logic         rst_ni,
    input logic         cpl_valid_o,
    input logic         cpl_ready_i,
    input logic [31:0]  cpl_pa_o,
    input logic [31:0]  cpl_status_o,
    input logic         job_take,
    input logic         job_done,
    input logic         job_ready,
    input logic         job_bad,
    input logic         walk_fail,
    input logic         built,
    input logic         framed,
    input logic         start,
    input logic         start_raw,
    input logic         unreachable_q,
    input logic         breaks,
    input logic         async_ready_i,
    input logic         rejected,
    input logic         async_valid_o,
    input logic         take_desc,
    input logic         take_raw,
    input logic         tx_slot_ready_i,
    input logic         tx_wvalid_o,
    input logic         tx_wready_i,
    input logic [W-1:0] tx_wdata_o,
    input logic [$clog2(W/8):0] tx_wbytes_o,
    input logic         tx_wlast_o,
    input logic         tx_wabort_o,
    input logic         txc_valid_o,
    input logic         txc_ready_i,
    input logic [63:0]  txc_va_o,
    input logic         txc_done_i,
    input logic         chunk_here,
    input logic         trace_valid_o,
    input logic         translated,
    input logic         payload_read,
    input logic         frame_end,
    input logic         last_q,
    input logic [3:0]   state_q,
    input logic         message,
    input logic         raw,
    input logic         waits,
    input logic [31:0]  seg_left_q,
    input logic [7:0]   segs_q,
    input logic [2:0]   places_q,
    input logic [15:0]  need_q,
    input logic [31:0]  left_q,
    input logic [31:0]  skip_q,
    input logic [31:0]  sequence_q,
    input logic         owned_q,
    input logic         response_q,
    input logic         cpl_load,
    input logic         take_job,
    input logic         take_ack,
    input logic         acking,
    input logic         ack_end,
    input logic         ack_valid_i,
    input hvia_params_pkg::vi_t ack_vi_i,
    input logic [31:0]  job_first_i,
    input logic [31:0]  job_number_i,
    input logic [31:0]  job_length_i,
    input logic [1:0]   job_operation_i,
    input logic         job_response_i,
    input logic [4:0]   job_slot_i,
    input logic         led_valid_o,
    input logic         led_ready_i,
    input logic [1:0]   led_op_o,
    input hvia_params_pkg::vi_t led_vi_o,
    input logic [4:0]   led_slot_o,
    input logic [31:0]  led_number_o,
    input logic         led_last_o,
    input logic [8:0]   led_status_o,
    input logic [63:0]  led_va_o,
    input logic [31:0]  led_length_o,
    input logic         led_go_i,
    input logic         ask_q,
    input logic         wait_q,
    input logic         open_q,
    input logic         built_q,
    input logic         hold_valid_q,
    input logic [1:0]   turn_q,
    input logic         acked_q,
    input logic         head_q,
    input logic         dma_quiet,
    input logic         pack_quiet,
    input logic         seq_init_valid_i,
    input logic         rawtx_done_o,
    input logic         quiet_o
);

  localparam int unsigned LaneW = $clog2(W / 8);
  logic [W-1:0] lanes;
  assign lanes = ~({W{1'b1}} << {tx_wbytes_o, 3'b000});

  logic [171:0] state;
  assign state = {cpl_valid_o, ask_q, wait_q, open_q, built_q, hold_valid_q, turn_q, acked_q,
      head_q, owned_q, response_q,
                  rawtx_done_o, state_q, places_q, segs_q, need_q, seg_left_q, left_q, skip_q,
                      sequence_q};
  logic [31:0] passed;
  assign passed = job_number_i - job_first_i;
  // clocks until the ledger responds
  localparam logic [6:0] LedgerLimit = 7'd64;

  logic held_q, beat_held_q, txc_held_q, asked_q, moved_q, quiet_q;
  logic [171:0] last_state_q;
  logic         led_held_q;
  logic [144+hvia_params_pkg::VICountLog2:0] led_q;
  logic [6:0]   led_wait_q;
  logic         ack_held_q;
  hvia_params_pkg::vi_t ack_q;
  function automatic logic [144+hvia_params_pkg::VICountLog2:0] led_now();
    led_now = {led_op_o, led_vi_o, led_slot_o, led_number_o, led_last_o, led_status_o, led_va_o,
        led_length_o};
  endfunction
  logic [63:0] cpl_q, va_q;
  logic [W+LaneW+1:0] beat_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      held_q      <= 1'b0;
      beat_held_q <= 1'b0;
      txc_held_q  <= 1'b0;
      led_held_q  <= 1'b0;
      led_wait_q  <= 7'd0;
      ack_held_q  <= 1'b0;
      asked_q     <= 1'b0;
      quiet_q     <= 1'b0;
      moved_q     <= 1'b0;
    end else begin
      held_q       <= cpl_valid_o && !cpl_ready_i;
      cpl_q        <= {cpl_pa_o, cpl_status_o};
      beat_held_q  <= tx_wvalid_o && !tx_wready_i && !tx_wabort_o;
      beat_q       <= {tx_wdata_o & lanes, tx_wbytes_o, tx_wlast_o};
      txc_held_q   <= txc_valid_o && !txc_ready_i;
      va_q         <= txc_va_o;
      quiet_q      <= quiet_o;
      led_held_q   <= led_valid_o && !led_ready_i;
      led_wait_q   <= led_valid_o && !led_ready_i ? led_wait_q + 7'd1 : 7'd0;
      if (led_valid_o) led_q <= led_now();
      ack_held_q   <= ack_valid_i && !take_ack;
      ack_q        <= ack_vi_i;
      if (led_held_q) begin
        assert (led_valid_o && led_q == led_now())
        else $error("tx_engine: a report to the ledger changed or vanished before it was taken");
      end
      assert (led_wait_q <= LedgerLimit)
      else $error("tx_engine: no response of the ledger for %0d clocks", LedgerLimit);
      assert (!(led_valid_o && led_ready_i && led_go_i &&
          (led_op_o == 2'd3 || (led_op_o == 2'd1 && led_last_o) ||
                                                       (led_op_o == 2'd0 && led_status_o != 9'd0))))
      else $error("tx_engine: the ledger says go with nothing left to send");
      if (ack_held_q) begin
        assert (ack_valid_i && ack_vi_i == ack_q)
        else $error("tx_engine: an acknowledgement changed or vanished before it was taken");
      end
      assert (!cpl_load || !owned_q)
      else $error("tx_engine: completes what the ledger has");
      // A frame without payload is the only one of its message.
      if (take_job) begin
        assert (job_first_i == job_number_i ||
                ((job_response_i || job_operation_i != hvia_pkg::DescriptorOperationRDMARead) &&
                 {32'd0, passed} * 64'(hvia_pkg::MaxPayload) < {32'd0, job_length_i}))
        else $error("tx_engine: a job begins with frame %0d of %0d bytes", passed, job_length_i);
        assert (job_response_i == job_slot_i[4])
        else $error("tx_engine: slot %0d is no place of such a job", job_slot_i);
      end
      // While `quiet_o` is 0 this module's own state must change, unless only the DMA, the packer
      // or an initialisation of sequence numbers is active.
      moved_q      <= !quiet_o && (waits || (!message && !raw && !acking)) && dma_quiet &&
          pack_quiet &&
                      !seq_init_valid_i;
      last_state_q <= state;
      if (txc_valid_o && txc_ready_i) asked_q <= 1'b1;
      else if (txc_done_i) asked_q <= 1'b0;
      if (held_q) begin
        assert (cpl_valid_o && cpl_q == {cpl_pa_o, cpl_status_o})
        else $error("tx_engine: a completion changed or vanished before it was taken");
      end
      if (cpl_valid_o) begin
        assert (cpl_status_o[hvia_pkg::DescriptorStatusDoneBit])
        else $error("tx_engine: a completion without Done");
      end
      if (beat_held_q && !tx_wabort_o) begin
        assert (tx_wvalid_o && beat_q == {tx_wdata_o & lanes, tx_wbytes_o, tx_wlast_o})
        else $error("tx_engine: a beat changed or vanished before it was taken");
      end
      if (txc_held_q) begin
        assert (txc_valid_o && va_q == txc_va_o)
        else $error("tx_engine: the request for a chunk changed or vanished before it was taken");
      end
      assert (!(txc_valid_o && asked_q))
      else $error("tx_engine: a second chunk is asked for before the first came");
      if (txc_done_i) begin
        assert (asked_q && chunk_here)
        else $error("tx_engine: a chunk that nobody asked for");
      end
      if (start || start_raw) begin
        assert (tx_slot_ready_i && !tx_wvalid_o && job_ready && !open_q)
        else $error("tx_engine: a frame begins without a slot, or with a job under way");
      end
      if (job_take) begin
        assert (!open_q || job_done)
        else $error("tx_engine: a job while one is under way");
      end
      // An unreachable descriptor is neither sent nor completed; it is reported after all earlier
      // work.
      assert (!(unreachable_q && message && (start || rejected || open_q || ask_q || wait_q ||
          hold_valid_q)))
      else $error("tx_engine: a descriptor that could not be reached is carried out, or too soon");
      assert (!async_valid_o || (breaks && async_ready_i))
      else $error("tx_engine: an asynchronous error without an unreachable descriptor");
      assert (!(take_desc && take_raw))
      else $error("tx_engine: two jobs taken at once");
      if (tx_wvalid_o) begin
        assert ((framed || acking) && tx_wbytes_o != 0 && 32'(tx_wbytes_o) <= W / 8 &&
            (tx_wlast_o || 32'(tx_wbytes_o) == W / 8))
        else $error("tx_engine: a beat of %0d bytes, last %b, inside a frame %b", tx_wbytes_o,
            tx_wlast_o, framed || acking);
      end
      assert (!((job_bad || walk_fail) && built))
      else $error("tx_engine: a frame was committed that failed");
      if (frame_end && last_q) begin
        assert (seg_left_q == 0 && segs_q == 0 && need_q == 0)
        else $error("tx_engine: a message ended with %0d bytes and %0d segments left", seg_left_q,
            segs_q);
      end
      if (trace_valid_o) begin
        assert ($onehot({translated, payload_read, frame_end, ack_end}))
        else $error("tx_engine: two trace events in one clock");
      end
      if (quiet_q) begin
        assert (state == last_state_q)
        else $error("tx_engine: changed after it said quiet");
      end
      if (moved_q) begin
        assert (state != last_state_q)
        else $error("tx_engine: stood still after it said that it is not quiet");
      end
    end
  end

endmodule

bind hvia_tx_engine hvia_tx_engine_checker #(.W(W)) u_checker (.*);
