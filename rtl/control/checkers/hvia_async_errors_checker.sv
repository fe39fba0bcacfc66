// SPDX-License-Identifier: Apache-2.0

// Properties of `async_errors`: no source reports while its last report waits, because that one
// would be lost; every report is passed on; no state changes while `quiet_o` is 1.
module hvia_async_errors_checker #(
    parameter int unsigned Sources = 7
) (
    input logic               clk_i,
    input logic               rst_ni,
    input logic [Sources-1:0] valid_i,
    input logic [Sources-1:0] waiting_q,
    input logic [Sources-1:0] first,
    input logic               async_valid_o,
    input logic               quiet_o
);

  logic               quiet_q;
  logic [Sources-1:0] was_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q <= 1'b0;
      was_q   <= '0;
    end else begin
      quiet_q <= quiet_o;
      was_q   <= (waiting_q & ~first) | valid_i;
      assert ((valid_i & waiting_q & ~first) == '0)
      else $error("async_errors: source %b reports while its last report waits", valid_i &
          waiting_q);
      assert (waiting_q == was_q)
      else $error("async_errors: reports %b wait, want %b", waiting_q, was_q);
      assert ((first & (first - 1'b1)) == '0 && async_valid_o == (waiting_q != '0) &&
              (first & ~waiting_q) == '0 && async_valid_o == (first != '0))
      else $error("async_errors: %b of %b goes on", first, waiting_q);
      assert (!(quiet_q && waiting_q != '0))
      else $error("async_errors: a report waits after quiet");
    end
  end

endmodule

bind hvia_async_errors hvia_async_errors_checker #(.Sources(Sources)) u_checker (.*);
