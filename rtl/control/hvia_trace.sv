// SPDX-License-Identifier: Apache-2.0

// Trace port, one lane per engine, all with the same timebase. The lanes are registered, so an
// external logger never lengthens an internal path.
module hvia_trace #(
    parameter int unsigned Lanes = 9
) (
    input  logic                clk_i,
    input  logic                rst_ni,
    input  logic [47:0]         timebase_i,
    input  logic [Lanes-1:0]    valid_i,
    input  logic [Lanes*8-1:0]  event_i,
    input  logic [Lanes*8-1:0]  vi_i,
    input  logic [Lanes*16-1:0] seq_i,
    output logic [Lanes-1:0]    trace_valid_o,
    output logic [Lanes*8-1:0]  trace_event_o,
    output logic [Lanes*8-1:0]  trace_vi_o,
    output logic [Lanes*16-1:0] trace_seq_o,
    output logic [47:0]         trace_time_o,
    output logic                quiet_o
);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) trace_valid_o <= '0;
    else trace_valid_o <= valid_i;
  end

  always_ff @(posedge clk_i) begin
    if (valid_i != '0) begin
      trace_event_o <= event_i;
      trace_vi_o    <= vi_i;
      trace_seq_o   <= seq_i;
      trace_time_o  <= timebase_i;
    end
  end

  assign quiet_o = trace_valid_o == '0 && valid_i == '0;

endmodule
