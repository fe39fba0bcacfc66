// SPDX-License-Identifier: Apache-2.0

// Properties of `raw_port`: requests are stable until taken; at most one read and one write are in
// flight; no state changes while `quiet_o` is 1.

module hvia_raw_port_checker (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        req_valid_o,
    input logic        req_ready_i,
    input logic        req_write_o,
    input logic [31:0] req_addr_o,
    input logic        reading_q,
    input logic        writing_q,
    input logic        issue_fetch,
    input logic        issue_status,
    input logic        wdone_i,
    input logic        rvalid_i,
    input logic        sent_q,
    input logic        wvalid_q,
    input logic [ 1:0] beat_q,
    input logic        quiet_o
);

  logic held_q, write_q, quiet_q;
  logic [31:0] addr_q;
  logic [6:0] now, then_q;
  assign now = {req_valid_o, reading_q, writing_q, sent_q, wvalid_q, beat_q};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      held_q  <= 1'b0;
      quiet_q <= 1'b0;
      then_q  <= '0;
    end else begin
      held_q  <= req_valid_o && !req_ready_i;
      write_q <= req_write_o;
      addr_q  <= req_addr_o;
      quiet_q <= quiet_o;
      then_q  <= now;
      if (held_q) begin
        assert (req_valid_o && req_write_o == write_q && req_addr_o == addr_q)
        else $error("raw_port: a request changed before it was taken");
      end
      assert (!(issue_fetch && reading_q) && !(issue_status && writing_q))
      else $error("raw_port: a second transfer of one kind");
      assert (!(wdone_i && !writing_q) && !(rvalid_i && !reading_q))
      else $error("raw_port: the bus answers without a request");
      if (quiet_q) begin
        assert (now == then_q)
        else $error("raw_port: a register changed after quiet");
      end
    end
  end

endmodule

bind hvia_raw_port hvia_raw_port_checker u_checker (.*);
