// SPDX-License-Identifier: Apache-2.0

// Properties of `counters`: no event is lost; no state changes while `quiet_o` is 1.

module hvia_counters_checker (
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
  logic [127:0] plane0_then_q, plane1_then_q, round_then_q, known_then_q;
  logic [32:0] then_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q <= 1'b0;
    end else begin
      quiet_q <= quiet_o;
      assert ((plane0_q & plane1_q & strobe_i & ~pick) == '0)
      else $error("counters: an event is lost, counters %h hold 3 and are hit again",
                  plane0_q & plane1_q & strobe_i & ~pick);
      assert ((pick & (pick - 128'd1)) == '0 && (pick & ~(plane0_q | plane1_q)) == '0)
      else $error("counters: more than one counter served, or one that does not wait");
      if (quiet_q) begin
        assert (plane0_q == plane0_then_q && plane1_q == plane1_then_q && round_q == round_then_q &&
                known_q == known_then_q && {add_valid_q, rd_data_o} == then_q)
        else $error("counters: a register changed after quiet");
      end
      // State at the start of a quiescent span.
      if (quiet_o && !quiet_q) begin
        plane0_then_q <= plane0_q;
        plane1_then_q <= plane1_q;
        round_then_q  <= round_q;
        known_then_q  <= known_q;
        then_q        <= {add_valid_q, rd_data_o};
      end
    end
  end

endmodule

bind hvia_counters hvia_counters_checker u_checker (.*);
