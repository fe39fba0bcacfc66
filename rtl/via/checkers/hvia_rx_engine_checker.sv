// SPDX-License-Identifier: Apache-2.0

// Properties of `rx_engine`: a slot is released only with a complete frame; no word is used before
// it arrives, and the bus never waits for one; a frame gets one verdict and one count; a descriptor
// is used and completed only while it is on the chip; offers are stable until taken; errors and
// trace events do not collide; a write is requested only for a frame that passed all checks; no
// state changes while `quiet_o` is 1.

module hvia_rx_engine_checker #(
    parameter int unsigned W = 32,
    parameter int unsigned WordW = 9
) (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        rx_valid_i,
    input logic [10:0] rx_len_i,
    input logic [10:0] rx_avail_i,
    input logic        rx_end_i,
    input logic        rx_bad_i,
    input logic [WordW-1:0] word_q,
    input logic        rx_done_o,
    input logic        checked,
    input logic        gone,
    input logic        not_for_us,
    input logic        is_via,
    input logic        malformed,
    input logic        bad_vi,
    input logic        after_nak,
    input logic        acknowledgement,
    input logic        reliable,
    input logic        contradicts,
    input logic        gap,
    input logic        astray,
    input logic        stray,
    input logic        stray_q,
    input logic        in_order,
    input logic        accept,
    input logic        begins,
    input logic        continues,
    input logic        ctx_rdma_write,
    input logic        rdma,
    input logic        cut_open,
    input logic        lost_first,
    input logic        start,
    input logic        take,
    input logic        go_on,
    input logic        held_q,
    input logic        plain_q,
    input logic        job_valid,
    input logic        job_ready,
    input logic        job_rdma,
    input logic        job_send,
    input logic        raw,
    input logic        beat_valid,
    input logic        beat_ready,
    input logic        word_ok_q,
    input logic        word_in_q,
    input logic        dma_open,  // the bus took a write and not all of its beats
    input logic        write_done,
    input logic        raw_done,
    input logic        job_done,
    input logic        translated,
    input logic        written,
    input logic        leave,
    input logic        mine_q,
    input logic        forget,
    input logic        resting,
    input logic        async_valid_o,
    input hvia_params_pkg::vi_t vi_q,
    input logic        rs_valid_i,
    input logic [31:0] rs_length_i,
    input logic        cpl_valid_o,
    input logic        cpl_ready_i,
    input logic [31:0] cpl_status_o,
    input logic [31:0] cpl_length_o,
    input logic [31:0] cpl_pa_o,
    input logic        cpl_write_o,
    input logic        rxc_valid_o,
    input logic        rxc_ready_i,
    input logic [63:0] rxc_va_o,
    input logic        rxc_done_i,
    input logic        release_valid_o,
    input logic        release_ready_i,
    input logic        drop_valid_o,
    input logic        stat_receive_frame_o,
    input logic        stat_receive_not_for_us_o,
    input logic        stat_receive_malformed_o,
    input logic        stat_receive_bad_vi_o,
    input logic        stat_receive_old_sequence_o,
    input logic        stat_receive_gap_o,
    input logic        stat_receive_protection_o,
    input logic        stat_receive_bus_error_o,
    input logic        stat_receive_unsupported_o,
    input logic        stat_receive_dropped_o,
    input logic        stat_receive_queue_empty_o,
    input logic        stat_receive_length_o,
    input logic        stat_receive_descriptor_error_o,
    input logic        stat_receive_read_limit_o,
    input logic        stat_receive_out_of_order_o,
    input logic        stat_receive_acknowledge_o,
    input logic        stat_receive_naked_o,
    input logic        reliable_q,
    input logic        response_q,
    input logic        reported_q,
    input logic        early,
    input logic        broken,
    input logic        lost,
    input logic        report_due,
    input logic        job_ok,
    input logic        rxa_valid_o,
    input logic        rxa_ready_i,
    input logic [2:0]  rxa_op_o,
    input hvia_params_pkg::vi_t rxa_vi_o,
    input logic [31:0] rxa_number_o,
    input logic [2:0]  rxa_code_o,
    input logic        rxl_valid_o,
    input logic        rxl_ready_i,
    input logic [2:0]  rxl_op_o,
    input logic [31:0] rxl_number_o,
    input logic [8:0]  rxl_status_o,
    input logic        rxc_store_o,
    input logic        clear_valid_i,
    input logic [4:0]  state_q,
    input logic        quiet_o
);

  localparam int unsigned LaneW = $clog2(W / 8);
  localparam logic [4:0] Idle = 5'd0, Head = 5'd1, Check = 5'd2, Chunk = 5'd6, Complete = 5'd9;

  logic        quiet_q, cpl_held_q, rxc_held_q, release_held_q, chunk_q, cpl_write_q;
  logic [4:0]  last_state_q;
  logic        rxa_held_q, rxl_held_q;
  logic [37+hvia_params_pkg::VICountLog2:0] rxa_q;
  logic [43:0] rxl_q;
  logic [5:0]  reports;
  logic [63:0] rxc_va_q;
  logic [31:0] cpl_status_q, cpl_length_q, cpl_pa_q;
  hvia_params_pkg::vi_t last_vi_q;
  logic [11:0] word_begin;
  logic [15:0] counts;
  assign word_begin = {1'b0, word_q, {LaneW{1'b0}}};
  assign counts = {stat_receive_frame_o, stat_receive_not_for_us_o, stat_receive_malformed_o,
      stat_receive_bad_vi_o,
                   stat_receive_old_sequence_o, stat_receive_protection_o, stat_receive_bus_error_o,
                   stat_receive_unsupported_o, stat_receive_dropped_o, stat_receive_queue_empty_o,
                   stat_receive_length_o, stat_receive_descriptor_error_o,
                       stat_receive_read_limit_o,
                   stat_receive_out_of_order_o, stat_receive_acknowledge_o, stat_receive_naked_o};
  assign reports = {reliable_q, response_q, reported_q, lost, broken, report_due};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q        <= 1'b0;
      cpl_held_q     <= 1'b0;
      rxc_held_q     <= 1'b0;
      release_held_q <= 1'b0;
      rxa_held_q     <= 1'b0;
      rxl_held_q     <= 1'b0;
      chunk_q        <= 1'b0;
      last_state_q   <= Idle;
    end else begin
      quiet_q        <= quiet_o;
      last_state_q   <= state_q;
      last_vi_q      <= vi_q;
      cpl_held_q     <= cpl_valid_o && !cpl_ready_i;
      cpl_status_q   <= cpl_status_o;
      cpl_length_q   <= cpl_length_o;
      cpl_pa_q       <= cpl_pa_o;
      cpl_write_q    <= cpl_write_o;
      rxc_held_q     <= rxc_valid_o && !rxc_ready_i;
      rxc_va_q       <= rxc_va_o;
      rxa_held_q     <= rxa_valid_o && !rxa_ready_i && !clear_valid_i;
      rxa_q          <= {rxa_op_o, rxa_vi_o, rxa_number_o, rxa_code_o};
      rxl_held_q     <= rxl_valid_o && !rxl_ready_i;
      rxl_q          <= {rxl_op_o, rxl_number_o, rxl_status_o};
      release_held_q <= release_valid_o && !release_ready_i;
      if (rxc_valid_o && rxc_ready_i) chunk_q <= 1'b1;
      else if (rxc_done_i) chunk_q <= 1'b0;

      if (rx_valid_i) begin
        assert (!(rx_bad_i && !rx_end_i) && !(rx_end_i && !rx_bad_i && rx_avail_i != rx_len_i))
        else $error("rx_engine: slot with end %b, bad %b, %0d of %0d bytes", rx_end_i, rx_bad_i,
            rx_avail_i, rx_len_i);
      end
      if (rx_done_o) begin
        assert (rx_valid_i && rx_end_i)
        else $error("rx_engine: releases a slot without a complete frame");
      end
      if ((state_q == Head || state_q == Check || beat_valid)) begin
        assert (rx_valid_i)
        else $error("rx_engine: works on a slot that holds no frame");
      end
      if (checked && !gone && !not_for_us && is_via) begin
        assert ($onehot({malformed, !malformed && (bad_vi || after_nak),
                         !malformed && !bad_vi && !after_nak &&
                             (acknowledgement || astray || (reliable && gap)), in_order}))
        else $error("rx_engine: more or less than one verdict on a frame");
      end
      assert (!(stray && (in_order || reliable)) && !(leave && stray_q && mine_q))
      else $error("rx_engine: a frame is accepted and stray");
      assert (!((accept || cut_open || lost_first) && !in_order) && !(begins && continues) &&
          !(cut_open && lost_first))
      else $error("rx_engine: a message was touched by a frame that was dropped");
      assert ($onehot0(counts) && !(counts != 0 && !leave) &&
          !(stat_receive_gap_o && !(leave && mine_q)))
      else $error("rx_engine: a frame was counted as %b", counts);
      if (leave) begin
        assert (counts != 0 || rx_bad_i)
        else $error("rx_engine: a good frame was not counted");
        assert (!(held_q && plain_q))
        else $error("rx_engine: a message with a descriptor and without");
      end
      if (job_valid) begin
        assert (job_ready && $onehot({raw, job_rdma, job_send}) &&
            !(job_rdma && !(ctx_rdma_write && rdma)) &&
                !(job_send && rdma))
        else $error("rx_engine: a write without a right to it");
      end
      if (job_send) begin
        assert (response_q || (held_q && (rs_valid_i || forget)))
        else $error("rx_engine: a segment of a descriptor that is not on the chip");
      end
      assert (!(start && go_on) && !(take && !(start && rs_valid_i)))
      else $error("rx_engine: a descriptor was taken that is not on the chip");
      // Otherwise the bus would stall until the MAC delivers the word.
      if (dma_open) begin
        assert (word_ok_q)
        else $error("rx_engine: the bus was asked to write word %0d, which is not in", word_q);
      end
      // At least part of a used word has arrived.
      if (beat_valid && beat_ready && word_in_q) begin
        assert (word_begin < {1'b0, rx_avail_i})
        else $error("rx_engine: word %0d of a frame of which %0d bytes are in", word_q, rx_avail_i);
      end
      if (beat_valid && beat_ready && !word_in_q) begin
        assert (rx_end_i)
        else $error("rx_engine: word %0d was used and is not in", word_q);
      end
      if (job_done) begin
        assert (write_done || raw_done)
        else $error("rx_engine: the DMA ended a job that nobody gave");
      end
      assert (32'(accept) + 32'(translated) + 32'(written) <= 1)
      else $error("rx_engine: two trace events in one clock");
      assert (!(async_valid_o && resting))
      else $error("rx_engine: an asynchronous error right behind another");

      if (cpl_valid_o && last_state_q != Complete) begin
        assert (rs_valid_i || forget)
        else $error("rx_engine: VI %0d completes a descriptor that is not on the chip", vi_q);
        assert (cpl_length_o <= rs_length_i || forget ||
                cpl_status_o[hvia_pkg::DescriptorStatusOperationLsb
                    +:hvia_pkg::StatusOperationBits] ==
                hvia_pkg::StatusOperationRemoteRDMAWrite)
        else $error("rx_engine: %0d bytes in a descriptor of %0d", cpl_length_o, rs_length_i);
      end
      if (cpl_held_q) begin
        assert (cpl_valid_o && cpl_status_o == cpl_status_q && cpl_length_o == cpl_length_q &&
            cpl_pa_o == cpl_pa_q &&
                cpl_write_o == cpl_write_q)
        else $error("rx_engine: completion withdrawn or changed");
      end
      if (rxc_held_q) begin
        assert (rxc_valid_o && rxc_va_o == rxc_va_q)
        else $error("rx_engine: request for a chunk withdrawn or changed");
      end
      if (rxa_held_q) begin
        assert (rxa_valid_o && rxa_q == {rxa_op_o, rxa_vi_o, rxa_number_o, rxa_code_o})
        else $error("rx_engine: the report of a frame was withdrawn or changed");
      end
      if (rxl_held_q) begin
        assert (rxl_valid_o && rxl_q == {rxl_op_o, rxl_number_o, rxl_status_o})
        else $error("rx_engine: a report to the ledger was withdrawn or changed");
      end
      // An unreliable VI sends no acknowledgement.
      if (leave) begin
        assert (!(report_due && (!reliable_q || lost || rxa_valid_o)) &&
            !(broken && reported_q && job_ok))
        else $error("rx_engine: frame ends reliable, response, reported, lost, broken, due %b",
            reports);
      end
      assert (!(early && (!reliable_q || rxa_valid_o)) && !(contradicts && !reliable))
      else $error("rx_engine: an early report of a frame that is not reliable");
      if (rxc_valid_o) begin
        assert (rxc_store_o == !response_q)
        else $error("rx_engine: a chunk for the wrong place");
      end
      if (release_held_q) begin
        assert (release_valid_o)
        else $error("rx_engine: release withdrawn");
      end
      assert (!(rxc_done_i && !chunk_q) && !(chunk_q && state_q != Chunk))
      else $error("rx_engine: a chunk that nobody waits for");
      assert (!(drop_valid_o && release_valid_o))
      else $error("rx_engine: a descriptor is released before its place is empty");
      if (quiet_q) begin
        assert (state_q == last_state_q && vi_q == last_vi_q && !cpl_valid_o && !rxc_valid_o &&
            !release_valid_o && !async_valid_o &&
                !rxa_valid_o && !rxl_valid_o)
        else $error("rx_engine: changed after it said quiet");
      end
    end
  end

endmodule

bind hvia_rx_engine hvia_rx_engine_checker #(.W(W), .WordW(WordW)) u_checker (.*,
    .dma_open(u_dma.head_valid_q));
