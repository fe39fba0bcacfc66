// SPDX-License-Identifier: Apache-2.0

// Collects asynchronous errors. Several engines may report one in the same clock; each has one
// slot, and one error per clock goes on to the registers, the lowest source first. A source must
// not report before its last error has left its slot. Sources whose errors may come closer wait for
// ready.
module hvia_async_errors #(
    parameter int unsigned Sources = 7
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic [Sources-1:0]   valid_i,
    input  logic [Sources*8-1:0] code_i,
    input  logic [Sources*8-1:0] vi_i,
    output logic [Sources-1:0]   ready_o,
    output logic                 async_valid_o,
    output logic [7:0]           async_code_o,
    output logic [7:0]           async_vi_o,
    output logic                 quiet_o
);

  logic [Sources-1:0] waiting_q, first;

  // Lowest set bit.
  assign first   = waiting_q & (~waiting_q + 1'b1);
  assign ready_o = ~waiting_q | first;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) waiting_q <= '0;
    else if ((valid_i | waiting_q) != '0) waiting_q <= (waiting_q & ~first) | valid_i;
  end

  logic [Sources*8-1:0] code_q, vi_q;

  for (genvar s = 0; s < Sources; s++) begin : g_source
    always_ff @(posedge clk_i) begin
      if (valid_i[s]) begin
        code_q[s*8 +: 8] <= code_i[s*8 +: 8];
        vi_q[s*8 +: 8]   <= vi_i[s*8 +: 8];
      end
    end
  end

  assign async_valid_o = waiting_q != '0;

  always_comb begin
    async_code_o = '0;
    async_vi_o   = '0;
    for (int s = 0; s < Sources; s++) begin
      async_code_o |= code_q[s*8 +: 8] & {8{first[s]}};
      async_vi_o   |= vi_q[s*8 +: 8] & {8{first[s]}};
    end
  end

  assign quiet_o = waiting_q == '0 && valid_i == '0;

endmodule
