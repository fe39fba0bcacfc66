// SPDX-License-Identifier: Apache-2.0

// Properties of `dma_write`: requests stay inside a page and a burst and are not withdrawn; each
// job ends once with no write pending; no state changes while `quiet_o` is 1.

module hvia_dma_write_checker (
    input logic         clk_i,
    input logic         rst_ni,
    input logic         take,
    input logic         job_physical_i,
    input logic [15:0]  job_len_i,
    input logic [31:0]  job_bound_i,
    input logic         job_done_o,
    input logic         req_valid_o,
    input logic         req_ready_i,
    input logic [31:0]  req_addr_o,
    input logic [9:0]   req_len_o,
    input logic         wdone_i,
    input logic [1:0]   open_q,
    input logic         head_valid_q,
    input logic         no_overlap_i,
    input logic         short_bursts_i,
    input logic         burst_valid,
    input logic         att_req_valid_o,
    input logic         quiet_o
);

  logic held_q, job_q;
  logic [31:0] addr_q;
  logic [31:0] page_end;
  assign page_end = {20'd0, req_addr_o[11:0]} + {22'd0, req_len_o};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      held_q <= 1'b0;
      job_q  <= 1'b0;
    end else begin
      held_q <= req_valid_o && !req_ready_i;
      addr_q <= req_addr_o;
      if (take) job_q <= 1'b1;
      else if (job_done_o) job_q <= 1'b0;
      if (take) begin
        assert (job_len_i <= 16'd4096 && 32'(job_len_i) <= job_bound_i &&
            !(job_physical_i && job_len_i == 0))
        else $error("dma_write: job of %0d bytes with bound %0d", job_len_i, job_bound_i);
      end
      if (req_valid_o) begin
        assert (req_len_o != 0 && req_len_o <= (short_bursts_i ?
            10'(hvia_params_pkg::ShortBurstBytes) : 10'(hvia_params_pkg::DmaBurstBytes)) &&
                page_end <= 32'd4096)
        else $error("dma_write: request of %0d bytes at %08x", req_len_o, req_addr_o);
      end
      if (no_overlap_i && att_req_valid_o) begin
        assert (!burst_valid && !(open_q != 0))
        else $error("dma_write: the table is asked beside a transfer");
      end
      if (held_q) begin
        assert (req_valid_o && req_addr_o == addr_q)
        else $error("dma_write: request withdrawn");
      end
      if (wdone_i) begin
        assert (open_q != 0)
        else $error("dma_write: the bus answers a request that was not made");
      end
      if (job_done_o) begin
        assert (job_q && (open_q == 0 || (open_q == 1 && wdone_i)))
        else $error("dma_write: job ended with %0d requests open", open_q);
      end
      if (quiet_o) begin
        assert (!job_q && !head_valid_q && !req_valid_o && open_q == 0)
        else $error("dma_write: quiet with a job under way");
      end
    end
  end

endmodule

bind hvia_dma_write hvia_dma_write_checker u_checker (.*);
