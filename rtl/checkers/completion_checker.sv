// SPDX-License-Identifier: Apache-2.0

// Checks of every completion writer: request and data stay until they were taken, a completion is
// exactly one write of Length and Status with all byte lanes, the bus answers only what was asked,
// and quiet means that nothing moves.
module completion_checker #(
    parameter int unsigned W = 32
) (
    input logic           clk_i,
    input logic           rst_ni,
    input logic           cpl_valid_i,
    input logic           cpl_ready_o,
    input logic           req_valid_o,
    input logic           req_ready_i,
    input logic [31:0]    req_addr_o,
    input logic [9:0]     req_len_o,
    input logic [W-1:0]   wdata_o,
    input logic [W/8-1:0] wstrb_o,
    input logic           wvalid_o,
    input logic           wready_i,
    input logic           wdone_i,
    input logic           quiet_o,
    input logic [1:0]     state_q,
    input logic [7:0]     vi_q,
    input logic [15:0]    seq_q,
    input logic [31:0]    pa_q,
    input logic [31:0]    handle_q,
    input logic [31:0]    length_q,
    input logic [31:0]    status_q,
    input logic [1:0]     beat_q
);

  localparam int unsigned Beats = 64 / W;

  logic           quiet_q, req_q, data_q, granted_q;
  logic [155:0]   now, was_q;
  logic [41:0]    req_was_q;
  logic [W-1:0]   data_was_q;
  logic [1:0]     sent_q;

  assign now = {state_q, vi_q, seq_q, pa_q, handle_q, length_q, status_q, beat_q};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      quiet_q   <= 1'b0;
      req_q     <= 1'b0;
      data_q    <= 1'b0;
      granted_q <= 1'b0;
      sent_q    <= 2'd0;
    end else begin
      quiet_q    <= quiet_o;
      req_q      <= req_valid_o && !req_ready_i;
      data_q     <= wvalid_o && !wready_i;
      if (quiet_o) was_q <= now;
      if (req_valid_o) req_was_q <= {req_addr_o, req_len_o};
      if (wvalid_o) data_was_q <= wdata_o;

      if (quiet_q) begin
        assert (now == was_q)
        else $error("completion: a register changed after it said quiet");
      end
      if (req_q) begin
        assert (req_valid_o && {req_addr_o, req_len_o} == req_was_q)
        else $error("completion: a bus request changed before it was taken");
      end
      if (data_q) begin
        assert (wvalid_o && wdata_o == data_was_q)
        else $error("completion: write data changed before it was taken");
      end
      if (wvalid_o) begin
        assert (&wstrb_o)
        else $error("completion: a byte lane is left out");
      end
      if (req_valid_o) begin
        assert (req_len_o == 10'd8 && req_addr_o[2:0] == 3'd0)
        else $error("completion: write of %0d bytes at %h", req_len_o, req_addr_o);
      end

      if (cpl_valid_i && cpl_ready_o) sent_q <= 2'd0;
      else if (wvalid_o && wready_i) sent_q <= sent_q + 2'd1;
      assert (!(wvalid_o && sent_q == 2'(Beats)))
      else $error("completion: more than %0d beats", Beats);

      if (req_valid_o && req_ready_i) granted_q <= 1'b1;
      else if (wdone_i) granted_q <= 1'b0;
      if (wdone_i) begin
        assert (granted_q && sent_q == 2'(Beats))
        else $error("completion: the bus is done after %0d of %0d beats", sent_q, Beats);
      end
    end
  end

endmodule

bind completion completion_checker #(.W(W)) u_checker (.*);
