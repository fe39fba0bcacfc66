// SPDX-License-Identifier: Apache-2.0

// Properties of `att_walker`: an update completes only after its scan has removed the cached copies
// of the invalidated entry; `quiet_o` is exact.
module hvia_att_walker_checker (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        quiet_o,
    input logic        forgetful_i,
    input logic [ 3:0] state_q,
    input logic [ 3:0] step_q,
    input logic [ 2:0] beat_q,
    input logic        req_done_q,
    input logic        got_l2_q,
    input logic        scan_q,
    input logic        scan_last_q,
    input logic        scan_b_q,
    input logic        update_done_q,
    input logic        take,
    input logic        req_update_i,
    input logic [20:0] clear_q,
    input logic [31:0] mem_rdata_i,
    input logic        mem_rvalid_i,
    input logic [12:0] rsp_bytes_o,
    input logic [ 2:0] rsp_err_o,
    input logic        rsp_valid_o,
    input logic        rsp_update_o,
    input logic        rsp_level1_read_o
);

  logic quiet_q;
  logic [38:0] state, seen_q;
  assign state = {
    state_q, step_q, beat_q, req_done_q, got_l2_q, scan_q, scan_last_q, scan_b_q, update_done_q,
    clear_q, 1'b0
  };

  always_ff @(posedge clk_i) begin
    if (!rst_ni) quiet_q <= 1'b0;
    else begin
      quiet_q <= quiet_o;
      seen_q  <= state;
      if (quiet_q) begin
        assert (state == seen_q)
        else $error("att_walker: changed after it said quiet");
      end
      assert (!(take && req_update_i && scan_q))
      else $error("att_walker: an update was taken before the scan of the one before it ended");
      assert (!(update_done_q && scan_q))
      else $error("att_walker: an update was answered while its scan runs");
      if (rsp_valid_o && !rsp_update_o) begin
        assert ((rsp_err_o == hvia_pkg::AttErrorNone) || (rsp_bytes_o == 13'd0))
        else $error("att_walker: an error with an address");
        assert (rsp_bytes_o <= 13'd4096)
        else $error("att_walker: %0d bytes in a page", rsp_bytes_o);
        assert (!forgetful_i || (rsp_err_o != hvia_pkg::AttErrorNone) || rsp_level1_read_o)
        else $error("att_walker: a level-1 entry was kept");
      end
      if (mem_rvalid_i) begin
        assert (!$isunknown(mem_rdata_i))
        else $error("att_walker: unknown read data");
      end
    end
  end

endmodule

bind hvia_att_walker hvia_att_walker_checker u_checker (.*);
