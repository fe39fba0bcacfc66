// SPDX-License-Identifier: Apache-2.0

// Carries one-clock pulses to another clock. Pulses closer than three clocks of the slower side
// would merge. Both sides must be in reset together: a reset of one side alone changes the toggle
// and produces a pulse.
module hvia_cdc_pulse (
    input  logic src_clk_i,
    input  logic src_rst_ni,
    input  logic src_pulse_i,
    output logic src_quiet_o,
    input  logic dst_clk_i,
    input  logic dst_rst_ni,
    output logic dst_pulse_o,
    output logic dst_quiet_o
);

  logic toggle_q, toggle_sync, seen_q, settled;

  always_ff @(posedge src_clk_i) begin
    if (!src_rst_ni) toggle_q <= 1'b0;
    else if (src_pulse_i) toggle_q <= !toggle_q;
  end

  hvia_cdc_sync #(.Width(1)) u_sync (
      .clk_i(dst_clk_i), .rst_ni(dst_rst_ni), .d_i(toggle_q), .q_o(toggle_sync),
      .settled_o(settled)
  );

  always_ff @(posedge dst_clk_i) begin
    if (!dst_rst_ni) seen_q <= 1'b0;
    else seen_q <= toggle_sync;
  end

  assign dst_pulse_o = toggle_sync != seen_q;
  assign src_quiet_o = !src_pulse_i;
  assign dst_quiet_o = settled && !dst_pulse_o;

endmodule
