// SPDX-License-Identifier: Apache-2.0

// Checks of the counters: no event is lost, and nothing moves after quiet.

module counters_checker (
    input logic         clk_i,
    input logic         rst_ni,
    input logic [127:0] strobe_i,
    input logic [127:0] plane0_q,
    input logic [127:0] plane1_q,
    input logic [127:0] round_q,
    input logic [127:0] known_q,
    input logic [127:0] pick,
    input logic         add_valid_q,
    input logic [ 31:0] rd_data_o,
    input logic         quiet_o
);

  logic quiet_q;
  logic [544:0] now, then_q;
  assign now = {plane0_q, plane1_q, round_q, known_q, add_valid_q, rd_data_o};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      quiet_q <= 1'b0;
      then_q  <= '0;
    end else begin
      quiet_q <= quiet_o;
      then_q  <= now;
      assert ((plane0_q & plane1_q & strobe_i & ~pick) == '0)
      else $error("counters: an event is lost, counters %h hold 3 and are hit again",
                  plane0_q & plane1_q & strobe_i & ~pick);
      assert ((pick & (pick - 128'd1)) == '0 && (pick & ~(plane0_q | plane1_q)) == '0)
      else $error("counters: more than one counter served, or one that does not wait");
      if (quiet_q) begin
        assert (now == then_q)
        else $error("counters: a register changed after quiet");
      end
    end
  end

endmodule

bind counters counters_checker u_checker (.*);
