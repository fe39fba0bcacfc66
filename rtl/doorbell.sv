// SPDX-License-Identifier: Apache-2.0

// Doorbell pages. Assembles the burst of three dwords (descriptor address low, high, memory
// handle) and commits it on the third. A process can write to its own pages only, so the page
// number is the VI and needs no further check than that the VI is in use. A page has one doorbell for
// each queue of its VI. Anything but the exact sequence is dropped and counted: a torn doorbell must
// never start a fetch.
module doorbell (
    input  logic         clk_i,
    input  logic         rst_ni,
    input  logic         enable_i,
    input  logic [255:0] live_i,
    // Target port, doorbell BAR only.
    input  logic         db_wvalid_i,
    output logic         db_wready_o,
    input  logic [19:0]  db_waddr_i,
    input  logic [31:0]  db_wdata_i,
    input  logic [3:0]   db_wbe_i,
    input  logic         db_wend_i,
    // Commit to the work queue.
    output logic         db_valid_o,
    input  logic         db_ready_i,
    output logic         db_receive_o,
    output logic [7:0]   db_vi_o,
    output logic [63:0]  db_va_o,
    output logic [31:0]  db_handle_o,
    // Asynchronous error: a descriptor address that no descriptor can have.
    output logic         async_valid_o,
    output logic [7:0]   async_code_o,
    output logic [7:0]   async_vi_o,
    output logic         stat_doorbell_send_o,
    output logic         stat_doorbell_receive_o,
    output logic         stat_doorbell_malformed_o,
    output logic         trace_valid_o,
    output logic [7:0]   trace_event_o,
    output logic [7:0]   trace_vi_o,
    output logic [15:0]  trace_seq_o,
    output logic         quiet_o
);

  // Dwords of the burst that have been taken.
  logic [1:0]  phase_q;
  logic        receive_q;
  logic [7:0]  vi_q;
  logic [31:0] low_q, high_q;

  logic        commit_q, commit_receive_q;
  logic [7:0]  commit_vi_q;
  logic [63:0] commit_va_q;
  logic [31:0] commit_handle_q;

  logic [7:0]  page;
  logic [11:0] offset, base;
  logic        receive, whole, in_order, accept, third, good, aligned;

  assign page     = db_waddr_i[19:12];
  assign offset   = db_waddr_i[11:0];
  // The first dword says which queue it is.
  assign receive  = phase_q == 2'd0 ? offset == hvia_pkg::DoorbellReceive : receive_q;
  assign base     = receive ? hvia_pkg::DoorbellReceive : hvia_pkg::DoorbellSend;
  assign whole    = db_wbe_i == 4'hf;
  assign in_order = whole && (phase_q == 2'd0 || page == vi_q) &&
                    offset == base + {8'd0, phase_q, 2'b00};

  assign db_wready_o = !(phase_q == 2'd2 && commit_q && !db_ready_i);
  assign accept      = db_wvalid_i && db_wready_o;
  assign third       = accept && in_order && phase_q == 2'd2;
  assign aligned     = low_q[5:0] == 6'd0;
  assign good        = third && aligned && enable_i && live_i[vi_q];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      phase_q <= 2'd0;
    end else if (accept) begin
      if (in_order) phase_q <= (phase_q == 2'd2) ? 2'd0 : phase_q + 2'd1;
      else phase_q <= 2'd0;
    end else if (db_wend_i) begin
      phase_q <= 2'd0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (accept && in_order) begin
      if (phase_q == 2'd0) begin
        receive_q <= receive;
        vi_q      <= page;
        low_q     <= db_wdata_i;
      end
      if (phase_q == 2'd1) high_q <= db_wdata_i;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      commit_q         <= 1'b0;
      commit_receive_q <= 1'b0;
      commit_vi_q      <= 8'd0;
      commit_va_q      <= 64'd0;
      commit_handle_q  <= 32'd0;
    end else begin
      if (db_ready_i) commit_q <= 1'b0;
      if (good) begin
        commit_q         <= 1'b1;
        commit_receive_q <= receive_q;
        commit_vi_q      <= vi_q;
        commit_va_q      <= {high_q, low_q};
        commit_handle_q  <= db_wdata_i;
      end
    end
  end

  assign db_valid_o   = commit_q;
  assign db_receive_o = commit_receive_q;
  assign db_vi_o      = commit_vi_q;
  assign db_va_o      = commit_va_q;
  assign db_handle_o  = commit_handle_q;

  assign async_valid_o = third && !aligned && enable_i && live_i[vi_q];
  assign async_code_o  = hvia_pkg::AsyncErrorPostDescriptor;
  assign async_vi_o    = vi_q;

  assign stat_doorbell_send_o    = good && !receive_q;
  assign stat_doorbell_receive_o = good && receive_q;
  // One count per dropped dword out of order, per dropped doorbell and per burst that stopped short.
  assign stat_doorbell_malformed_o = (accept && !in_order) || (third && !good) ||
                                     (db_wend_i && !accept && phase_q != 2'd0);

  // The stages of a message begin with a send doorbell; a receive descriptor shows when it is stored.
  assign trace_valid_o = good && !receive_q;
  assign trace_event_o = hvia_pkg::TraceEventDoorbellCommitted;
  assign trace_vi_o    = vi_q;
  assign trace_seq_o   = 16'd0;

  assign quiet_o = !commit_q && !db_wvalid_i && !db_wend_i;

endmodule
