// SPDX-License-Identifier: Apache-2.0

// Completion writer. Writes Length and Status of a finished descriptor in one burst, so that Status
// is the last thing that host memory sees of it; after that the card never touches the descriptor
// again and its memory may be reused at once. The next completion waits in a register meanwhile.
// A completion that the bus refuses has nowhere else to be written to, and who waits for it would
// wait for ever: it is counted and reported as an asynchronous error.
module completion #(
    parameter int unsigned W = 32
) (
    input  logic           clk_i,
    input  logic           rst_ni,
    input  logic           cpl_valid_i,
    output logic           cpl_ready_o,
    input  logic [7:0]     cpl_vi_i,
    input  logic [15:0]    cpl_seq_i,
    input  logic [31:0]    cpl_pa_i,
    input  logic [31:0]    cpl_handle_i,
    input  logic [31:0]    cpl_length_i,
    input  logic [31:0]    cpl_status_i,
    input  logic           cpl_write_i,
    // Host bus, writes only.
    output logic           req_valid_o,
    input  logic           req_ready_i,
    output logic [31:0]    req_addr_o,
    output logic [9:0]     req_len_o,
    output logic [W-1:0]   wdata_o,
    output logic [W/8-1:0] wstrb_o,
    output logic           wvalid_o,
    input  logic           wready_i,
    input  logic           wdone_i,
    input  logic           werr_i,
    input  logic [31:0]    drain_handle_i,
    input  logic [7:0]     drain_vi_i,
    output logic           handle_busy_o,
    output logic           vi_busy_o,
    // Asynchronous error.
    output logic           async_valid_o,
    output logic [7:0]     async_code_o,
    output logic [7:0]     async_vi_o,
    output logic           stat_completion_written_o,
    output logic           stat_completion_error_o,
    output logic           stat_descriptor_flushed_o,
    output logic           stat_descriptor_error_o,
    output logic           trace_valid_o,
    output logic [7:0]     trace_event_o,
    output logic [7:0]     trace_vi_o,
    output logic [15:0]    trace_seq_o,
    output logic           quiet_o
);

  localparam int unsigned Start = hvia_pkg::DescriptorLengthOffset;
  localparam int unsigned Bytes = hvia_pkg::DescriptorSize - hvia_pkg::DescriptorLengthOffset;
  localparam int unsigned Beats = Bytes * 8 / W;

  localparam logic [31:0] ErrorMask = 32'h0000_01fe;

  typedef enum logic [1:0] {Idle, Request, Wait} state_e;
  state_e state_q;

  logic [7:0]  vi_q;
  logic [15:0] seq_q;
  logic [31:0] pa_q, handle_q, length_q, status_q;
  logic [1:0]  beat_q;

  logic accept;
  assign cpl_ready_o = state_q == Idle;
  assign accept      = cpl_valid_i && cpl_ready_o;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
    end else begin
      unique case (state_q)
        Idle:    if (accept && cpl_write_i) state_q <= Request;
        Request: if (req_ready_i) state_q <= Wait;
        Wait:    if (wdone_i) state_q <= Idle;
        default: state_q <= Idle;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (accept) begin
      vi_q     <= cpl_vi_i;
      seq_q    <= cpl_seq_i;
      pa_q     <= cpl_pa_i;
      handle_q <= cpl_handle_i;
      length_q <= cpl_length_i;
      status_q <= cpl_status_i;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) beat_q <= 2'd0;
    else if (accept) beat_q <= 2'd0;
    else if (wvalid_o && wready_i) beat_q <= beat_q + 2'd1;
  end

  logic [63:0] words;
  assign words       = {status_q, length_q};
  assign req_valid_o = state_q == Request;
  assign req_addr_o  = pa_q + Start;
  assign req_len_o   = Bytes[9:0];
  assign wdata_o     = words[32'(beat_q) * W % 64 +: W];
  assign wstrb_o     = '1;
  assign wvalid_o    = state_q != Idle && 32'(beat_q) < Beats;

  logic done;
  assign done = state_q == Wait && wdone_i;

  assign handle_busy_o = state_q != Idle && handle_q == drain_handle_i;
  assign vi_busy_o     = state_q != Idle && vi_q == drain_vi_i;

  assign stat_completion_written_o = done && !werr_i;
  assign stat_completion_error_o   = done && werr_i;
  assign stat_descriptor_flushed_o = accept && cpl_status_i[hvia_pkg::DescriptorStatusFlushedBit];
  assign stat_descriptor_error_o   = accept && (cpl_status_i & ErrorMask) != 32'd0 &&
                                     !cpl_status_i[hvia_pkg::DescriptorStatusFlushedBit];

  assign async_valid_o = done && werr_i;
  assign async_code_o  = hvia_pkg::AsyncErrorCompletionProtection;
  assign async_vi_o    = vi_q;

  assign trace_valid_o = done;
  assign trace_event_o = hvia_pkg::TraceEventCompletionWritten;
  assign trace_vi_o    = vi_q;
  assign trace_seq_o   = seq_q;

  assign quiet_o = state_q == Idle && !cpl_valid_i;

endmodule
