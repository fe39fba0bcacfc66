// SPDX-License-Identifier: Apache-2.0

// Completion writer. Writes Length and Status of a finished descriptor, with immediate data the field
// before them as well, in one burst, so that Status is the last thing that host memory sees of it;
// after that the card never touches the descriptor again and its memory may be reused at once. Three
// sources take turns; the next completion waits with its source meanwhile.
// A completion that the bus refuses, or whose descriptor's memory was deregistered, has nowhere else
// to be written to, and who waits for it would wait for ever: it is counted and reported as an
// asynchronous error.
module completion #(
    parameter int unsigned W = 32
) (
    input  logic            clk_i,
    input  logic            rst_ni,
    // Sources, source n in slice n: 0 rx_engine, 1 descriptor_fetch, 2 tx_engine.
    input  logic [2:0]      cpl_valid_i,
    output logic [2:0]      cpl_ready_o,
    input  logic [3*8-1:0]  cpl_vi_i,
    input  logic [3*16-1:0] cpl_seq_i,
    input  logic [3*32-1:0] cpl_pa_i,
    input  logic [3*32-1:0] cpl_handle_i,
    input  logic [3*32-1:0] cpl_length_i,
    input  logic [3*32-1:0] cpl_status_i,
    input  logic [3*32-1:0] cpl_immediate_i,
    input  logic [2:0]      cpl_has_immediate_i,
    input  logic [2:0]      cpl_receive_i,
    input  logic [2:0]      cpl_write_i,
    // Host bus, writes only.
    output logic            req_valid_o,
    input  logic            req_ready_i,
    output logic [31:0]     req_addr_o,
    output logic [9:0]      req_len_o,
    output logic [W-1:0]    wdata_o,
    output logic [W/8-1:0]  wstrb_o,
    output logic            wvalid_o,
    input  logic            wready_i,
    input  logic            wdone_i,
    input  logic            werr_i,
    input  logic [31:0]     drain_handle_i,
    input  logic [7:0]      drain_vi_i,
    output logic            handle_busy_o,
    output logic            vi_busy_o,
    // Asynchronous error.
    output logic            async_valid_o,
    output logic [7:0]      async_code_o,
    output logic [7:0]      async_vi_o,
    output logic            stat_completion_written_o,
    output logic            stat_completion_receive_o,
    output logic            stat_completion_error_o,
    output logic            stat_descriptor_flushed_o,
    output logic            stat_descriptor_error_o,
    output logic            trace_valid_o,
    output logic [7:0]      trace_event_o,
    output logic [7:0]      trace_vi_o,
    output logic [15:0]     trace_seq_o,
    output logic            quiet_o
);

  // What may be written lies in the last 16 bytes of the control segment: a word that is not
  // written, ImmediateData, Length, Status.
  localparam int unsigned Base  = hvia_pkg::DescriptorSize - 16;
  localparam int unsigned Beats = 128 / W;
  // Bytes before the first written one, and the beat in which that lies.
  localparam int unsigned SkipImmediate = hvia_pkg::DescriptorImmediateDataOffset - Base;
  localparam int unsigned SkipLength    = hvia_pkg::DescriptorLengthOffset - Base;
  localparam int unsigned BeatImmediate = SkipImmediate * 8 / W;
  localparam int unsigned BeatLength    = SkipLength * 8 / W;

  localparam logic [31:0] ErrorMask = 32'h0000_01fe;

  typedef enum logic [1:0] {Idle, Request, Wait, Refused} state_e;
  state_e state_q;

  // The source after the one that was served last goes first.
  logic [2:0] grant;
  logic [1:0] last_q, chosen;
  always_comb begin
    unique case (last_q)
      2'd0:    chosen = cpl_valid_i[1] ? 2'd1 : cpl_valid_i[2] ? 2'd2 : 2'd0;
      2'd1:    chosen = cpl_valid_i[2] ? 2'd2 : cpl_valid_i[0] ? 2'd0 : 2'd1;
      default: chosen = cpl_valid_i[0] ? 2'd0 : cpl_valid_i[1] ? 2'd1 : 2'd2;
    endcase
    grant = 3'b001 << chosen;
  end

  logic accept;
  assign cpl_ready_o = grant & cpl_valid_i & {3{state_q == Idle}};
  assign accept      = cpl_ready_o != 3'b000;

  logic [31:0] status;
  logic        write, has_immediate;
  assign status        = cpl_status_i[32*chosen +: 32];
  assign write         = cpl_write_i[chosen];
  assign has_immediate = cpl_has_immediate_i[chosen];

  logic [7:0]  vi_q;
  logic [15:0] seq_q;
  logic [31:0] pa_q, handle_q, length_q, status_q, immediate_q;
  logic        has_immediate_q, receive_q;
  logic [2:0]  beat_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
    end else begin
      unique case (state_q)
        Idle:    if (accept) state_q <= write ? Request : Refused;
        Request: if (req_ready_i) state_q <= Wait;
        Wait:    if (wdone_i) state_q <= Idle;
        default: state_q <= Idle;
      endcase
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) last_q <= 2'd2;
    else if (accept) last_q <= chosen;
  end

  always_ff @(posedge clk_i) begin
    if (accept) begin
      vi_q            <= cpl_vi_i[8*chosen +: 8];
      seq_q           <= cpl_seq_i[16*chosen +: 16];
      pa_q            <= cpl_pa_i[32*chosen +: 32];
      handle_q        <= cpl_handle_i[32*chosen +: 32];
      length_q        <= cpl_length_i[32*chosen +: 32];
      status_q        <= status;
      immediate_q     <= cpl_immediate_i[32*chosen +: 32];
      has_immediate_q <= has_immediate;
      receive_q       <= cpl_receive_i[chosen];
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) beat_q <= 3'd0;
    else if (accept) beat_q <= has_immediate ? BeatImmediate[2:0] : BeatLength[2:0];
    else if (wvalid_o && wready_i) beat_q <= beat_q + 3'd1;
  end

  logic [127:0] words;
  logic [15:0]  strobes;
  logic [31:0]  skip, start;
  assign words       = {status_q, length_q, immediate_q, 32'd0};
  assign skip        = has_immediate_q ? SkipImmediate : SkipLength;
  assign start       = Base + skip;
  assign strobes     = 16'hffff << skip;
  assign req_valid_o = state_q == Request;
  assign req_addr_o  = pa_q + start;
  assign req_len_o   = 10'd16 - skip[9:0];
  assign wdata_o     = words[32'(beat_q) * W % 128 +: W];
  assign wstrb_o     = strobes[32'(beat_q) * W / 8 % 16 +: W/8];
  assign wvalid_o    = (state_q == Request || state_q == Wait) && 32'(beat_q) < Beats;

  logic done, refused;
  assign done    = state_q == Wait && wdone_i;
  assign refused = state_q == Refused || (done && werr_i);

  // A completion that is not written has no access to wait for.
  assign handle_busy_o = (state_q == Request || state_q == Wait) && handle_q == drain_handle_i;
  assign vi_busy_o     = state_q != Idle && vi_q == drain_vi_i;

  assign stat_completion_written_o = done && !werr_i;
  assign stat_completion_receive_o = done && !werr_i && receive_q;
  assign stat_completion_error_o   = refused;
  assign stat_descriptor_flushed_o = accept && status[hvia_pkg::DescriptorStatusFlushedBit];
  assign stat_descriptor_error_o   = accept && (status & ErrorMask) != 32'd0 &&
                                     !status[hvia_pkg::DescriptorStatusFlushedBit];

  assign async_valid_o = refused;
  assign async_code_o  = hvia_pkg::AsyncErrorCompletionProtection;
  assign async_vi_o    = vi_q;

  assign trace_valid_o = done;
  assign trace_event_o = receive_q ? hvia_pkg::TraceEventReceiveCompletionWritten :
                                     hvia_pkg::TraceEventCompletionWritten;
  assign trace_vi_o    = vi_q;
  assign trace_seq_o   = seq_q;

  assign quiet_o = state_q == Idle && cpl_valid_i == 3'b000;

endmodule
