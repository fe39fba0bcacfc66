// SPDX-License-Identifier: Apache-2.0

// Properties of `dma_read`: requests stay inside a page and a burst and are not withdrawn; each job
// ends once, and has a last beat exactly if it succeeds; no state changes while `quiet_o` is 1.

module hvia_dma_read_checker (
    input logic         clk_i,
    input logic         rst_ni,
    input logic         take,
    input logic [15:0]  job_len_i,
    input logic [31:0]  job_bound_i,
    input logic         job_done_o,
    input logic [2:0]   job_err_o,
    input logic         beat_valid_o,
    input logic         beat_ready_i,
    input logic         beat_last_o,
    input logic         req_valid_o,
    input logic         req_ready_i,
    input logic [31:0]  req_addr_o,
    input logic [9:0]   req_len_o,
    input logic         beat,
    input logic         beat_end,
    input logic         rlast_i,
    input logic         rerr_i,
    input logic         discard_q,
    input logic         head_valid_q,
    input logic         no_overlap_i,
    input logic         short_bursts_i,
    input logic         burst_valid,
    input logic         att_req_valid_o,
    input logic         req_more_o,
    input logic         quiet_o
);

  logic held_q, beat_held_q, open_q, last_q;
  logic [31:0] addr_q;
  logic [31:0] page_end;
  assign page_end = {20'd0, req_addr_o[11:0]} + {22'd0, req_len_o};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      held_q      <= 1'b0;
      beat_held_q <= 1'b0;
      open_q      <= 1'b0;
      last_q      <= 1'b0;
    end else begin
      held_q      <= req_valid_o && !req_ready_i;
      beat_held_q <= beat_valid_o && !beat_ready_i;
      addr_q      <= req_addr_o;
      if (take) open_q <= 1'b1;
      else if (job_done_o) open_q <= 1'b0;
      if (take) last_q <= 1'b0;
      else if (beat_valid_o && beat_ready_i && beat_last_o) last_q <= 1'b1;
      if (take) begin
        assert (job_len_i != 0 && job_len_i <= 16'd4096 && 32'(job_len_i) <= job_bound_i)
        else $error("dma_read: job of %0d bytes with bound %0d", job_len_i, job_bound_i);
      end
      if (req_valid_o) begin
        assert (req_len_o != 0 && req_len_o <= (short_bursts_i ?
            10'(hvia_params_pkg::ShortBurstBytes) : 10'(hvia_params_pkg::DmaBurstBytes)) &&
                page_end <= 32'd4096)
        else $error("dma_read: request of %0d bytes at %08x", req_len_o, req_addr_o);
      end
      assert (!(req_valid_o && job_err_o == hvia_pkg::AttErrorNone) || req_more_o)
      else $error("dma_read: requests a burst that it did not announce");
      assert (!(beat_valid_o && beat_last_o) || !req_more_o)
      else $error("dma_read: announces a request with the last beat");
      if (no_overlap_i && att_req_valid_o) begin
        assert (!burst_valid && !head_valid_q)
        else $error("dma_read: the table is asked beside a transfer");
      end
      if (held_q) begin
        assert (req_valid_o && req_addr_o == addr_q)
        else $error("dma_read: request withdrawn");
      end
      if (beat_held_q) begin
        assert (beat_valid_o)
        else $error("dma_read: beat withdrawn");
      end
      if (beat && !rerr_i && !discard_q) begin
        assert (beat_end == rlast_i)
        else $error("dma_read: the bus counts other beats than the engine");
      end
      if (job_done_o) begin
        assert (open_q && last_q == (job_err_o == hvia_pkg::AttErrorNone))
        else $error("dma_read: job ended, open %b, last beat %b, error %0d", open_q, last_q,
            job_err_o);
      end
      if (quiet_o) begin
        assert (!open_q && !head_valid_q && !req_valid_o)
        else $error("dma_read: quiet with a job under way");
      end
    end
  end

endmodule

bind hvia_dma_read hvia_dma_read_checker u_checker (.*);
