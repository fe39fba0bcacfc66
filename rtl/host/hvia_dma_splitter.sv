// SPDX-License-Identifier: Apache-2.0

// Splits a DMA job of `dma_read` or `dma_write` into bursts: translates it page by page and cuts
// each page's part so that no burst crosses a page or exceeds `DmaBurstBytes` (`ShortBurstBytes`
// with `short_bursts_i`).
//
// The first translation covers all `job_bound_i` bytes, so a job (and its message) fails as a
// whole; a later page fails only if the region was deregistered meanwhile. The next page is
// translated while the bursts of the present one run. A physical job needs no translation. A job of
// 0 bytes is translated for its handle, tag and right, and gives no burst.
//
// A job ends when the burst with `burst_last_o` is taken (`finished_o`; at once for 0 bytes), or
// when a translation fails (`failed_o`, `error_o`). After a failure, of a burst too, the owner
// holds `stop_i` until `job_ready_o`, which drops the rest. A request shown to the table is never
// withdrawn, and the owner does not stop while it shows a burst to the bus.
module hvia_dma_splitter #(
    parameter int unsigned W = 32
) (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        short_bursts_i,  // strap ShortBursts

    input  logic        job_valid_i,
    output logic        job_ready_o,
    input  logic        job_physical_i,
    input  logic [31:0] job_handle_i,
    input  logic [63:0] job_va_i,
    input  logic [15:0] job_len_i,
    input  logic [31:0] job_bound_i,
    input  logic [15:0] job_tag_i,
    input  logic [1:0]  job_access_i,
    input  logic        stop_i,

    output logic        att_req_valid_o,
    input  logic        att_req_ready_i,
    output logic [31:0] att_req_handle_o,
    output logic [63:0] att_req_va_o,
    output logic [31:0] att_req_len_o,
    output logic [15:0] att_req_tag_o,
    output logic [1:0]  att_req_access_o,
    input  logic        att_rsp_valid_i,
    input  logic [2:0]  att_rsp_err_i,
    input  logic [31:0] att_rsp_pa_i,
    input  logic [12:0] att_rsp_bytes_i,

    output logic        burst_valid_o,
    input  logic        burst_ready_i,
    output logic [31:0] burst_addr_o,
    output logic [9:0]  burst_len_o,
    output logic        burst_page_last_o,
    output logic        burst_last_o,

    output logic        translated_o,
    output logic        failed_o,
    output logic [2:0]  error_o,
    output logic        finished_o,
    output logic        quiet_o
);

  localparam int unsigned LaneW = $clog2(W / 8);
  localparam int unsigned PageW = hvia_params_pkg::PageBytesLog2;
  localparam logic [9:0] LongBytes  = 10'(hvia_params_pkg::DmaBurstBytes);
  localparam logic [9:0] ShortBytes = 10'(hvia_params_pkg::ShortBurstBytes);

  // The job: what is still to translate.
  logic        want_q, asked_q, drop_q, first_q, physical_q;
  logic [31:0] handle_q, bound_q;
  logic [63:0] va_q;
  logic [15:0] left_q, tag_q;
  logic [1:0]  access_q;
  // The page part that bursts are cut from, and the one behind it.
  logic        cur_valid_q, cur_last_q, nxt_valid_q, nxt_last_q;
  logic [31:0] cur_pa_q, nxt_pa_q;
  logic [12:0] cur_left_q, nxt_left_q;

  logic        take, rsp, rsp_ok, ask_ok, part_valid, part_last, cut, page_done;
  logic [31:0] part_pa;
  logic [12:0] part_space, part_bytes;
  logic [9:0]  burst_space;

  assign job_ready_o = ~want_q & ~asked_q & ~cur_valid_q & ~nxt_valid_q;
  assign take        = job_valid_i & job_ready_o;

  // At most one part waits behind the present one.
  assign ask_ok          = want_q & ~nxt_valid_q;
  assign att_req_valid_o = ask_ok & ~physical_q & ~asked_q;
  assign att_req_handle_o = handle_q;
  assign att_req_va_o     = va_q;
  assign att_req_len_o    = bound_q;
  assign att_req_tag_o    = tag_q;
  assign att_req_access_o = access_q;

  assign rsp    = asked_q & att_rsp_valid_i;
  assign rsp_ok = rsp & (att_rsp_err_i == hvia_pkg::AttErrorNone);

  // A new part: from the table, or the rest of a physical page.
  assign part_valid = ~stop_i & (physical_q ? ask_ok : (rsp_ok & ~drop_q)) & (left_q != 16'd0);
  assign part_pa    = physical_q ? va_q[31:0] : att_rsp_pa_i;
  assign part_space = physical_q ? (13'd1 << PageW) - {1'b0, va_q[PageW-1:0]} : att_rsp_bytes_i;
  assign part_last  = left_q <= {3'b000, part_space};
  assign part_bytes = part_last ? left_q[12:0] : part_space;

  // Bursts end at an aligned address, so only the ends of a part have partial beats.
  assign burst_space        =
      (short_bursts_i ? ShortBytes : LongBytes) - {{(10-LaneW){1'b0}}, cur_pa_q[LaneW-1:0]};
  assign burst_page_last_o = cur_left_q <= {3'b000, burst_space};
  assign burst_len_o       = burst_page_last_o ? cur_left_q[9:0] : burst_space;
  assign burst_last_o      = burst_page_last_o & cur_last_q;
  assign burst_addr_o      = cur_pa_q;
  assign burst_valid_o     = cur_valid_q;
  assign cut               = burst_valid_o & burst_ready_i;
  assign page_done         = cut & burst_page_last_o;

  assign translated_o = (physical_q ? ask_ok : (rsp_ok & ~drop_q)) & first_q;
  assign failed_o     = rsp & ~rsp_ok & ~drop_q;
  assign error_o      = att_rsp_err_i;
  assign finished_o   = (cut & burst_last_o) | (rsp_ok & ~drop_q & want_q & (left_q == 16'd0));

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      want_q      <= 1'b0;
      asked_q     <= 1'b0;
      drop_q      <= 1'b0;
      cur_valid_q <= 1'b0;
      nxt_valid_q <= 1'b0;
    end else begin
      if (att_req_valid_o & att_req_ready_i) asked_q <= 1'b1;
      else if (rsp) asked_q <= 1'b0;

      if (take) want_q <= 1'b1;
      else if (stop_i) want_q <= att_req_valid_o & ~att_req_ready_i;
      else if (rsp & ~rsp_ok) want_q <= 1'b0;
      else if (part_valid ? part_last : rsp_ok) want_q <= 1'b0;

      // A response in flight when the job stops is dropped.
      if (rsp) drop_q <= 1'b0;
      else if (stop_i & (asked_q | (att_req_valid_o & att_req_ready_i))) drop_q <= 1'b1;

      if (stop_i) begin
        cur_valid_q <= 1'b0;
        nxt_valid_q <= 1'b0;
      end else begin
        if (~cur_valid_q | page_done) cur_valid_q <= nxt_valid_q | part_valid;
        if (~cur_valid_q | page_done) nxt_valid_q <= 1'b0;
        else if (part_valid) nxt_valid_q <= 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (take) begin
      physical_q <= job_physical_i;
      handle_q   <= job_handle_i;
      va_q       <= job_va_i;
      left_q     <= job_len_i;
      bound_q    <= job_bound_i;
      tag_q      <= job_tag_i;
      access_q   <= job_access_i;
      first_q    <= 1'b1;
    end else if (part_valid) begin
      va_q    <= va_q + {51'd0, part_bytes};
      left_q  <= left_q - {3'b000, part_bytes};
      bound_q <= bound_q - {19'd0, part_bytes};
      first_q <= 1'b0;
    end

    if ((~cur_valid_q | page_done) & (nxt_valid_q | part_valid)) begin
      cur_pa_q   <= nxt_valid_q ? nxt_pa_q : part_pa;
      cur_left_q <= nxt_valid_q ? nxt_left_q : part_bytes;
      cur_last_q <= nxt_valid_q ? nxt_last_q : part_last;
    end else if (cut) begin
      cur_pa_q   <= cur_pa_q + {22'd0, burst_len_o};
      cur_left_q <= cur_left_q - {3'b000, burst_len_o};
    end
    if (part_valid) begin
      nxt_pa_q   <= part_pa;
      nxt_left_q <= part_bytes;
      nxt_last_q <= part_last;
    end
  end

  assign quiet_o = job_ready_o & ~job_valid_i;

endmodule
