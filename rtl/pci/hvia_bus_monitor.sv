// SPDX-License-Identifier: Apache-2.0

// Reports use of a PCI segment to the trace: one event when FRAME# is asserted, one when the bus is
// idle again. It samples only the pins, so it sees every master.
module hvia_bus_monitor #(
    parameter logic [7:0] StartEvent = 8'd0,
    parameter logic [7:0] EndEvent = 8'd0
) (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        frame_n_i,
    input  logic        irdy_n_i,
    input  logic [15:0] use_i,  // purpose of the transaction; sampled at its start
    output logic        trace_valid_o,
    output logic [7:0]  trace_event_o,
    output logic [7:0]  trace_vi_o,
    output logic [15:0] trace_seq_o,
    output logic        quiet_o
);

  logic        busy, busy_q;
  logic [15:0] use_q;

  assign busy = !frame_n_i || !irdy_n_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      use_q  <= 16'd0;
    end else if (busy != busy_q) begin
      busy_q <= busy;
      if (busy) use_q <= use_i;
    end
  end

  assign trace_valid_o = busy != busy_q;
  assign trace_event_o = busy ? StartEvent : EndEvent;
  assign trace_vi_o    = 8'd0;
  assign trace_seq_o   = busy ? use_i : use_q;
  assign quiet_o       = busy == busy_q;

endmodule
