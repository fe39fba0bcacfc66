// SPDX-License-Identifier: Apache-2.0

// FIFO of VIs that have work. A VI is in it at most once, so it cannot overflow, and a VI that
// enters anew after service goes behind all others.
module hvia_vi_list (
    input  logic       clk_i,
    input  logic       rst_ni,
    // Enter a VI; no effect if it is in the list. The one that leaves in this clock may re-enter.
    input  logic       push_i,
    input  hvia_params_pkg::vi_t push_vi_i,
    // First VI; remove it.
    output logic       any_o,
    output hvia_params_pkg::vi_t vi_o,
    input  logic       pop_i,
    output logic       quiet_o
);

  localparam int unsigned VIW = hvia_params_pkg::VICountLog2;

  hvia_params_pkg::vi_t vi_mem [hvia_params_pkg::VICount];
  hvia_params_pkg::vis_t listed_q;
  logic [VIW:0] head_q, tail_q;
  logic         enter;

  assign enter = push_i && (!listed_q[push_vi_i] || (pop_i && push_vi_i == vi_o));
  assign any_o = head_q != tail_q;
  assign vi_o  = vi_mem[head_q[VIW-1:0]];

  always_ff @(posedge clk_i) begin
    if (enter) vi_mem[tail_q[VIW-1:0]] <= push_vi_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      listed_q <= '0;
      head_q   <= '0;
      tail_q   <= '0;
    end else begin
      if (pop_i) begin
        listed_q[vi_o] <= 1'b0;
        head_q         <= head_q + 1'b1;
      end
      // After the pop, because the same VI may leave and re-enter.
      if (enter) begin
        listed_q[push_vi_i] <= 1'b1;
        tail_q              <= tail_q + 1'b1;
      end
    end
  end

  assign quiet_o = !enter && !pop_i;

endmodule
