// SPDX-License-Identifier: Apache-2.0

// Reads one run of host memory per job: translates it page by page, reads it in bursts, and passes
// the bus's beats on with the first valid lane and the count of bytes. Every job ends with exactly
// one `job_done_o`. `job_err_o` is the AttError of the first page that failed, `AttErrorBackend`
// for a bus error, none if the beat with `beat_last_o` was taken. A failed job gives no last beat,
// so the consumer can drop what it built.
//
// With `no_overlap_i` the next page is translated after every burst of the present one was read;
// without it, while they run.
//
// `MaxOutstanding` requests may be in flight. With 1, the next burst is requested in the clock that
// takes the last beat of the one before; with 2, while that one still runs.
module hvia_dma_read #(
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

    output logic                   beat_valid_o,
    input  logic                   beat_ready_i,
    output logic [W-1:0]           beat_data_o,
    output logic [$clog2(W/8)-1:0] beat_offset_o,
    output logic [$clog2(W/8):0]   beat_bytes_o,
    output logic                   beat_last_o,

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

    // Host bus, reads only.
    output logic                   req_valid_o,
    input  logic                   req_ready_i,
    output logic [31:0]            req_addr_o,
    output logic [9:0]             req_len_o,
    input  logic [W-1:0]           rdata_i,
    input  logic                   rvalid_i,
    output logic                   rready_o,
    input  logic                   rlast_i,
    input  logic                   rerr_i,
    output logic                   req_more_o,  // the job has a burst that was not requested yet

    output logic                   quiet_o
);

  localparam int unsigned LaneW = $clog2(W / 8);
  localparam logic [9:0] BeatBytes = 10'(W / 8);

  logic       burst_valid, burst_ready, burst_last, unused_page_last, split_idle, stop;
  logic       failed, unused_finished, ask_valid, hold;
  logic [2:0] error;
  logic       split_quiet;

  // The read whose beats arrive, and the one behind it.
  logic             head_valid_q, head_last_q, wait_valid_q, wait_last_q;
  logic [9:0]       head_left_q, wait_left_q;
  logic [LaneW-1:0] head_lane_q, wait_lane_q;

  logic       active_q, lock_q, discard_q, done_q, asked_all_q;
  logic [2:0] err_q;

  logic       take, grant, space, beat, burst_end, beat_end, job_end_ok, job_end_err;
  logic [9:0] lanes, count;

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
      .translated_o(job_translated_o), .failed_o(failed), .error_o(error),
      .finished_o(unused_finished), .quiet_o(split_quiet)
  );

  assign job_ready_o = ~active_q;
  assign take        = job_valid_i & job_ready_o;

  // Requests. Once shown to the bus, a request is stable until it is taken.
  assign space       = (MaxOutstanding > 1) ? (~wait_valid_q | burst_end) :
      (~head_valid_q | burst_end);
  assign req_valid_o = burst_valid & (lock_q | (space & (err_q == hvia_pkg::AttErrorNone)));
  assign grant       = req_valid_o & req_ready_i;
  assign burst_ready = (lock_q | (space & (err_q == hvia_pkg::AttErrorNone))) & req_ready_i;
  assign stop        = (err_q != hvia_pkg::AttErrorNone) & ~req_valid_o;

  // When no burst is left or in flight, the splitter gives no part before the table responds, so
  // the request shown to the table is stable.
  assign hold            = no_overlap_i & (burst_valid | head_valid_q);
  assign att_req_valid_o = ask_valid & ~hold;

  // Beats.
  assign lanes    = BeatBytes - {{(10-LaneW){1'b0}}, head_lane_q};
  assign beat_end = head_left_q <= lanes;
  assign count    = beat_end ? head_left_q : lanes;

  assign rready_o      = head_valid_q & (beat_ready_i | discard_q | rerr_i);
  assign beat          = rvalid_i & rready_o;
  assign burst_end     = beat & rlast_i;
  assign beat_valid_o  = head_valid_q & rvalid_i & ~discard_q & ~rerr_i;
  assign beat_data_o   = rdata_i;
  assign beat_offset_o = head_lane_q;
  assign beat_bytes_o  = count[LaneW:0];
  assign beat_last_o   = beat_end & head_last_q;

  // The last burst is cut from the last page, so no translation can fail after the last beat.
  assign job_end_ok  = beat_valid_o & beat_ready_i & beat_last_o;
  assign job_end_err = active_q & (err_q != hvia_pkg::AttErrorNone) & ~done_q & ~head_valid_q &
                       ~req_valid_o & split_idle;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      active_q     <= 1'b0;
      lock_q       <= 1'b0;
      discard_q    <= 1'b0;
      done_q       <= 1'b0;
      asked_all_q  <= 1'b0;
      err_q        <= hvia_pkg::AttErrorNone;
      head_valid_q <= 1'b0;
      wait_valid_q <= 1'b0;
    end else begin
      lock_q <= req_valid_o & ~req_ready_i;
      done_q <= job_end_ok | job_end_err;
      if (take) active_q <= 1'b1;
      else if (job_end_ok | job_end_err) active_q <= 1'b0;

      if (take) asked_all_q <= 1'b0;
      else if (grant & burst_last) asked_all_q <= 1'b1;

      if (take) begin
        err_q     <= hvia_pkg::AttErrorNone;
        discard_q <= 1'b0;
      end else begin
        if (beat & rerr_i) discard_q <= 1'b1;
        if (err_q == hvia_pkg::AttErrorNone) begin
          if (beat & rerr_i & ~discard_q) err_q <= hvia_pkg::AttErrorBackend;
          else if (failed) err_q <= error;
        end
      end

      if (~head_valid_q | burst_end) head_valid_q <= wait_valid_q | grant;
      if (~head_valid_q | burst_end) wait_valid_q <= wait_valid_q & grant;
      else if (grant) wait_valid_q <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if ((~head_valid_q | burst_end) & (wait_valid_q | grant)) begin
      head_lane_q <= wait_valid_q ? wait_lane_q : req_addr_o[LaneW-1:0];
      head_left_q <= wait_valid_q ? wait_left_q : req_len_o;
      head_last_q <= wait_valid_q ? wait_last_q : burst_last;
    end else if (beat) begin
      head_lane_q <= '0;
      head_left_q <= head_left_q - count;
    end
    if (grant) begin
      wait_lane_q <= req_addr_o[LaneW-1:0];
      wait_left_q <= req_len_o;
      wait_last_q <= burst_last;
    end
  end

  assign req_more_o = active_q & ~asked_all_q & (err_q == hvia_pkg::AttErrorNone);

  assign job_done_o = done_q;
  assign job_err_o  = err_q;
  assign quiet_o    = ~active_q & ~done_q & ~job_valid_i & split_quiet;

endmodule
