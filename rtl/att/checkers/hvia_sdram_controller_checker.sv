// SPDX-License-Identifier: Apache-2.0

// Properties of `sdram_controller`: requests are legal and stable until taken; every read gets its
// beats with `last` on the last; `quiet_o` is exact.
module hvia_sdram_controller_checker (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        quiet_o,
    input logic        req_valid_i,
    input logic        req_ready_o,
    input logic        req_write_i,
    input logic [23:0] req_addr_i,
    input logic [ 3:0] req_len_i,
    input logic        rvalid_o,
    input logic        rlast_o,
    input logic [ 2:0] state_q,
    input logic [ 3:0] cmd_q,
    input logic [ 3:0] open_q,
    input logic [ 3:0] beat_q,
    input logic [ 3:0] act_timer_q,
    input logic [ 2:0] pre_timer_q,
    input logic [ 2:0] wr_timer_q,
    input logic [47:0] deadline_q,
    input logic [11:0] a_q,
    input logic [ 1:0] ba_q
);

  logic waiting_q, write_q, quiet_q;
  logic [23:0] addr_q;
  logic [3:0] len_q;
  logic [91:0] state, seen_q;
  assign state = {
    state_q, cmd_q, open_q, beat_q, act_timer_q, pre_timer_q, wr_timer_q, deadline_q, a_q, ba_q,
        5'd0
  };

  // Beats due: dwords of requests whose last column command was issued, less the beats returned.
  logic [6:0] owed_q;
  logic [10:0] column_end;
  assign column_end = {1'b0, req_addr_i[9:0]} + {7'd0, req_len_i};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      waiting_q <= 1'b0;
      quiet_q   <= 1'b0;
      owed_q    <= 7'd0;
    end else begin
      waiting_q <= req_valid_i && !req_ready_o;
      addr_q    <= req_addr_i;
      len_q     <= req_len_i;
      write_q   <= req_write_i;
      quiet_q   <= quiet_o;
      seen_q    <= state;
      if (waiting_q) begin
        assert (req_valid_i && (req_addr_i == addr_q) && (req_len_i == len_q) &&
                (req_write_i == write_q))
        else $error("sdram_controller: a request changed or vanished before it was taken");
      end
      if (req_valid_i) begin
        assert ((req_len_i != 4'd0) && (req_len_i <= 4'd8) && (column_end <= 11'd1024))
        else $error("sdram_controller: %0d dwords at %h leave their row", req_len_i, req_addr_i);
      end
      if (req_valid_i && req_ready_o && !req_write_i) owed_q <= owed_q + 7'd1 - {6'd0, rlast_o};
      else if (rlast_o) owed_q <= owed_q - 7'd1;
      if (rlast_o) begin
        assert (rvalid_o && (owed_q != 7'd0))
        else $error("sdram_controller: the end of a read that nobody asked for");
      end
      if (quiet_q) begin
        assert (state == seen_q)
        else $error("sdram_controller: changed after it said quiet");
      end
    end
  end

endmodule

bind hvia_sdram_controller hvia_sdram_controller_checker u_checker (.*);
