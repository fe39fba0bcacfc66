// SPDX-License-Identifier: Apache-2.0

// Writes one run of bytes into host memory per job: translates it page by page, writes it in
// bursts, and rotates the input beats to the lanes of each burst's address. A beat carries bytes
// `beat_offset_i` to `beat_offset_i + beat_bytes_i - 1`. The beats carry at least `job_len_i`
// bytes; the job takes exactly that many and ignores the rest of its last beat. Every job ends with
// exactly one `job_done_o`, in the clock in which the bus answers its last write; the owner then
// offers no more beats. The first translation checks all `job_bound_i` bytes before anything is
// written. A job of 0 bytes is a check without a write.
//
// With `no_overlap_i` a page is translated only when all bursts of the previous page are
// acknowledged. Without it, the translation overlaps those bursts.
//
// `job_err_o`: none, the AttError of the first page that failed, or `AttErrorBackend` for a bus
// error. `MaxOutstanding` as in `dma_read`.
module hvia_dma_write #(
    parameter int unsigned W = 32,
    parameter int unsigned MaxOutstanding = 1
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    input  logic                   no_overlap_i,  // strap NoAttOverlap
    input  logic                   short_bursts_i,  // strap ShortBursts

    input  logic                   job_valid_i,
    output logic                   job_ready_o,
    input  logic                   job_physical_i,
    input  logic [31:0]            job_handle_i,
    input  logic [63:0]            job_va_i,
    input  logic [15:0]            job_len_i,
    input  logic [31:0]            job_bound_i,
    input  logic [15:0]            job_tag_i,
    input  logic [1:0]             job_access_i,
    output logic                   job_translated_o,
    output logic                   job_done_o,
    output logic [2:0]             job_err_o,

    input  logic                   beat_valid_i,
    output logic                   beat_ready_o,
    input  logic [W-1:0]           beat_data_i,
    input  logic [$clog2(W/8)-1:0] beat_offset_i,
    input  logic [$clog2(W/8):0]   beat_bytes_i,

    output logic                   att_req_valid_o,
    input  logic                   att_req_ready_i,
    output logic [31:0]            att_req_handle_o,
    output logic [63:0]            att_req_va_o,
    output logic [31:0]            att_req_len_o,
    output logic [15:0]            att_req_tag_o,
    output logic [1:0]             att_req_access_o,
    input  logic                   att_rsp_valid_i,
    input  logic [2:0]             att_rsp_err_i,
    input  logic [31:0]            att_rsp_pa_i,
    input  logic [12:0]            att_rsp_bytes_i,

    // Host bus, writes only.
    output logic                   req_valid_o,
    input  logic                   req_ready_i,
    output logic [31:0]            req_addr_o,
    output logic [9:0]             req_len_o,
    output logic [W-1:0]           wdata_o,
    output logic [W/8-1:0]         wstrb_o,
    output logic                   wvalid_o,
    input  logic                   wready_i,
    input  logic                   wdone_i,
    input  logic                   werr_i,

    output logic                   quiet_o
);

  localparam int unsigned LaneW = $clog2(W / 8);

  logic       burst_valid, burst_ready, burst_last, unused_page_last, split_idle, stop;
  logic       failed, finished, ask_valid, hold;
  logic [2:0] error;
  logic       split_quiet, pack_quiet;

  // The write whose beats are being made, and the one behind it.
  logic             head_valid_q, wait_valid_q;
  logic [9:0]       head_left_q, wait_left_q;
  logic [LaneW-1:0] head_lane_q, wait_lane_q;

  logic             active_q, lock_q, all_q;
  logic [1:0]       open_q;  // requests taken and not answered
  logic [2:0]       err_q;
  logic [LaneW:0]   used_q;  // bytes of the present beat used by an earlier burst

  logic             take, grant, space, pack_ready, pack_valid, pack_last, pack_take, ended;
  logic [LaneW:0]   avail, count, unused_bytes;
  logic             out_last;

  hvia_dma_splitter #(.W(W)) u_splitter (
      .clk_i, .rst_ni, .short_bursts_i,
      .job_valid_i(take), .job_ready_o(split_idle), .job_physical_i, .job_handle_i, .job_va_i,
      .job_len_i, .job_bound_i, .job_tag_i, .job_access_i,
      .stop_i(stop),
      .att_req_valid_o(ask_valid), .att_req_ready_i(att_req_ready_i & ~hold), .att_req_handle_o,
      .att_req_va_o, .att_req_len_o, .att_req_tag_o, .att_req_access_o, .att_rsp_valid_i,
      .att_rsp_err_i, .att_rsp_pa_i, .att_rsp_bytes_i,
      .burst_valid_o(burst_valid), .burst_ready_i(burst_ready), .burst_addr_o(req_addr_o),
      .burst_len_o(req_len_o), .burst_page_last_o(unused_page_last), .burst_last_o(burst_last),
      .translated_o(job_translated_o), .failed_o(failed), .error_o(error), .finished_o(finished),
      .quiet_o(split_quiet)
  );

  assign job_ready_o = ~active_q;
  assign take        = job_valid_i & job_ready_o;

  // Requests. Once shown to the bus, a request is stable until it is taken. With two outstanding,
  // the second needs a register for its length.
  assign space = (MaxOutstanding > 1) ? ((open_q != 2'd2) | wdone_i) & ~wait_valid_q
                                     : (open_q == 2'd0) | wdone_i;
  assign req_valid_o = burst_valid & (lock_q | (space & (err_q == hvia_pkg::AttErrorNone)));
  assign grant       = req_valid_o & req_ready_i;
  assign burst_ready = (lock_q | (space & (err_q == hvia_pkg::AttErrorNone))) & req_ready_i;
  assign stop        = (err_q != hvia_pkg::AttErrorNone) & ~req_valid_o;

  // `hold` falls when no burst is pending or in flight. New bursts need the table's response, so
  // `hold` stays 0 until then, and the request to the table is stable.
  assign hold            = no_overlap_i & (burst_valid | (open_q != 2'd0));
  assign att_req_valid_o = ask_valid & ~hold;

  // A beat that extends over the end of a burst is used twice: bursts end at aligned addresses, but
  // the beats have another alignment.
  assign avail        = beat_bytes_i - used_q;
  assign pack_last    = head_left_q <= {{(9-LaneW){1'b0}}, avail};
  assign count        = pack_last ? head_left_q[LaneW:0] : avail;
  assign pack_valid   = head_valid_q & beat_valid_i;
  assign pack_take    = pack_valid & pack_ready;
  assign beat_ready_o = head_valid_q & pack_ready & (count == avail);

  hvia_byte_packer #(.W(W)) u_packer (
      .clk_i, .rst_ni, .clear_i(1'b0), .start_lane_i(head_lane_q),
      .in_valid_i(pack_valid), .in_ready_o(pack_ready), .in_data_i(beat_data_i),
      .in_offset_i(beat_offset_i + used_q[LaneW-1:0]), .in_bytes_i(count), .in_last_i(pack_last),
      .out_valid_o(wvalid_o), .out_ready_i(wready_i), .out_data_o(wdata_o), .out_strb_o(wstrb_o),
      .out_bytes_o(unused_bytes), .out_last_o(out_last),
      .quiet_o(pack_quiet)
  );

  logic unused;
  assign unused = out_last ^ unused_page_last ^ (^unused_bytes) ^ burst_last;

  // After an error nothing new is requested, and pending requests are answered first.
  assign ended = active_q &
                 ((err_q == hvia_pkg::AttErrorNone) ? all_q &
                     ((open_q == 2'd0) | ((open_q == 2'd1) & wdone_i & ~werr_i))
                                                    : (open_q == 2'd0) & ~req_valid_o & split_idle);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      active_q     <= 1'b0;
      lock_q       <= 1'b0;
      all_q        <= 1'b0;
      open_q       <= 2'd0;
      err_q        <= hvia_pkg::AttErrorNone;
      head_valid_q <= 1'b0;
      wait_valid_q <= 1'b0;
      used_q       <= '0;
    end else begin
      lock_q <= req_valid_o & ~req_ready_i;
      open_q <= open_q + {1'b0, grant} - {1'b0, wdone_i};
      if (take) active_q <= 1'b1;
      else if (ended) active_q <= 1'b0;
      if (take) all_q <= 1'b0;
      else if (finished) all_q <= 1'b1;

      if (take) begin
        err_q <= hvia_pkg::AttErrorNone;
      end else if (err_q == hvia_pkg::AttErrorNone) begin
        if (wdone_i & werr_i) err_q <= hvia_pkg::AttErrorBackend;
        else if (failed) err_q <= error;
      end

      if (~head_valid_q | (pack_take & pack_last)) begin
        head_valid_q <= wait_valid_q | grant;
        wait_valid_q <= wait_valid_q & grant;
      end else if (grant) begin
        wait_valid_q <= 1'b1;
      end

      if (take) used_q <= '0;
      else if (pack_take) used_q <= (count == avail) ? '0 : used_q + count;
    end
  end

  always_ff @(posedge clk_i) begin
    if ((~head_valid_q | (pack_take & pack_last)) & (wait_valid_q | grant)) begin
      head_lane_q <= wait_valid_q ? wait_lane_q : req_addr_o[LaneW-1:0];
      head_left_q <= wait_valid_q ? wait_left_q : req_len_o;
    end else if (pack_take) begin
      head_left_q <= head_left_q - {{(9-LaneW){1'b0}}, count};
    end
    if (grant) begin
      wait_lane_q <= req_addr_o[LaneW-1:0];
      wait_left_q <= req_len_o;
    end
  end

  assign job_done_o = ended;
  assign job_err_o  = err_q;
  assign quiet_o    = ~active_q & ~job_valid_i & split_quiet & pack_quiet;

endmodule
