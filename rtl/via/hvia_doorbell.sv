// SPDX-License-Identifier: Apache-2.0

// Doorbell pages. Collects the three dwords of a doorbell (descriptor address low, high, memory
// handle) and commits it with the third. A process can write only to its own pages, so the page
// number is the VI, and the only further check is that the VI is in use. A page has one doorbell
// per queue of its VI.
//
// A host bridge may split a store of three dwords anywhere and interleave others. So the partial
// doorbell of each queue is kept in RAM until the third dword. Registers hold a copy for the queue
// last written, so a burst of three dwords never waits for the RAM. Dword 0 restarts a doorbell. A
// dword out of order, or with a byte missing, drops the partial doorbell: a torn doorbell must
// never start a fetch.
module hvia_doorbell (
    input  logic         clk_i,
    input  logic         rst_ni,
    input  logic         enable_i,
    input  hvia_params_pkg::vis_t live_i,
    // A VI is created or destroyed: drop its partial doorbells.
    input  logic         forget_valid_i,
    input  hvia_params_pkg::vi_t forget_vi_i,
    // Target port, doorbell BAR only.
    input  logic         db_wvalid_i,
    output logic         db_wready_o,
    input  logic [19:0]  db_waddr_i,
    input  logic [31:0]  db_wdata_i,
    input  logic [3:0]   db_wbe_i,
    // Commit to the work queue.
    output logic         db_valid_o,
    input  logic         db_ready_i,
    output logic         db_receive_o,
    output hvia_params_pkg::vi_t db_vi_o,
    output logic [63:0]  db_va_o,
    output logic [31:0]  db_handle_o,
    // Asynchronous error: an address illegal for a descriptor.
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

  // Dwords received per queue, 0 to 2, and their contents. The counts are in one RAM per direction,
  // so one clock clears a VI. They have no reset: a walk clears them after it.
  logic [1:0]  send_phase[hvia_params_pkg::VICount];
  logic [1:0]  receive_phase[hvia_params_pkg::VICount];
  logic [31:0] low_mem[2*hvia_params_pkg::VICount];
  logic [31:0] high_mem[2*hvia_params_pkg::VICount];
  logic [1:0]  rd_send_phase_q, rd_receive_phase_q;
  logic [31:0] rd_low_q, rd_high_q;

  // The queue last written.
  logic [1:0]  phase_q;
  logic        receive_q;
  hvia_params_pkg::vi_t vi_q;
  logic [31:0] low_q, high_q;

  logic        commit_q, commit_receive_q;
  hvia_params_pkg::vi_t commit_vi_q;
  logic [63:0] commit_va_q;
  logic [31:0] commit_handle_q;

  hvia_params_pkg::vi_t page;
  logic [11:0] offset, base;
  logic [1:0]  index, next_phase;
  logic        receive, known, complete, cached, in_order, load, accept, third, good, aligned;
  logic        walking_q, load_q, began_q, began_receive_q, owed_q, started_over, dropped;
  hvia_params_pkg::vi_t walk_q;

  assign page     = db_waddr_i[12 +: hvia_params_pkg::VICountLog2];
  assign offset   = db_waddr_i[11:0];
  assign index    = offset[3:2];
  assign base     = {offset[11:4], 2'b00, offset[1:0]};
  assign receive  = base == hvia_pkg::DoorbellReceive;
  assign known    = (receive || base == hvia_pkg::DoorbellSend) && index != 2'd3 && !walking_q &&
                   32'(db_waddr_i[19:12]) < hvia_params_pkg::VICount;
  assign complete = db_wbe_i == 4'hf;
  assign cached   = vi_q == page && receive_q == receive;

  // A dword for another queue than the last one waits two clocks: one for the RAM, one for the
  // registers.
  assign load     = db_wvalid_i && known && complete && index != 2'd0 && !cached;
  assign in_order = known && complete && (index == 2'd0 || phase_q == index);

  assign db_wready_o = !forget_valid_i && !load &&
                       !(in_order && index == 2'd2 && commit_q && !db_ready_i);
  assign accept      = db_wvalid_i && db_wready_o;
  assign third       = accept && in_order && index == 2'd2;
  assign aligned     = low_q[5:0] == 6'd0;
  assign good        = third && aligned && enable_i && live_i[vi_q];
  assign next_phase  = (in_order && !third) ? index + 2'd1 : 2'd0;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      walking_q <= 1'b1;
      walk_q    <= '0;
    end else if (walking_q) begin
      walking_q <= walk_q != '1;
      walk_q    <= walk_q + 1'b1;
    end
  end

  logic       send_write, receive_write;
  hvia_params_pkg::vi_t phase_page;
  logic [1:0] phase_write;
  assign send_write    = walking_q || forget_valid_i || (accept && known && !receive);
  assign receive_write = walking_q || forget_valid_i || (accept && known && receive);
  assign phase_page    = walking_q ? walk_q : forget_valid_i ? forget_vi_i : page;
  assign phase_write   = (walking_q || forget_valid_i) ? 2'd0 : next_phase;

  always_ff @(posedge clk_i) begin
    if (send_write) send_phase[phase_page] <= phase_write;
    if (receive_write) receive_phase[phase_page] <= phase_write;
    if (accept && in_order && index == 2'd0) low_mem[{receive, page}] <= db_wdata_i;
    if (accept && in_order && index == 2'd1) high_mem[{receive, page}] <= db_wdata_i;
    if (db_wvalid_i) begin
      rd_send_phase_q    <= send_phase[page];
      rd_receive_phase_q <= receive_phase[page];
      rd_low_q           <= low_mem[{receive, page}];
      rd_high_q          <= high_mem[{receive, page}];
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      load_q    <= 1'b0;
      phase_q   <= 2'd0;
      receive_q <= 1'b0;
      vi_q      <= '0;
    end else begin
      load_q <= load && !load_q && !forget_valid_i;
      if (forget_valid_i) begin
        if (forget_vi_i == vi_q) phase_q <= 2'd0;
      end else if (load_q) begin
        vi_q      <= page;
        receive_q <= receive;
        phase_q   <= receive ? rd_receive_phase_q : rd_send_phase_q;
      end else if (accept && known && (in_order || cached)) begin
        vi_q      <= page;
        receive_q <= receive;
        phase_q   <= next_phase;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (load_q) begin
      low_q  <= rd_low_q;
      high_q <= rd_high_q;
    end else if (accept && in_order) begin
      if (index == 2'd0) low_q <= db_wdata_i;
      if (index == 2'd1) high_q <= db_wdata_i;
    end
  end

  // A restart by dword 0 is counted one clock later. If that clock has a bad dword too, one count
  // is owed until a clock without one.
  assign started_over = began_q &&
                        (began_receive_q ? rd_receive_phase_q : rd_send_phase_q) != 2'd0;
  assign dropped      = (accept && !in_order) || (third && !good);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      began_q         <= 1'b0;
      began_receive_q <= 1'b0;
      owed_q          <= 1'b0;
    end else begin
      began_q         <= accept && in_order && index == 2'd0;
      if (accept) began_receive_q <= receive;
      owed_q          <= dropped && (owed_q || started_over);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      commit_q         <= 1'b0;
      commit_receive_q <= 1'b0;
      commit_vi_q      <= '0;
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
  assign async_vi_o    = 8'(vi_q);

  assign stat_doorbell_send_o    = good && !receive_q;
  assign stat_doorbell_receive_o = good && receive_q;
  // One count per dropped dword out of order, per dropped doorbell, and per doorbell restarted
  // before its third dword.
  assign stat_doorbell_malformed_o = dropped || started_over || owed_q;

  // The trace of a message starts with a send doorbell; a receive descriptor appears when it is
  // stored.
  assign trace_valid_o = good && !receive_q;
  assign trace_event_o = hvia_pkg::TraceEventDoorbellCommitted;
  assign trace_vi_o    = 8'(vi_q);
  assign trace_seq_o   = 16'd0;

  assign quiet_o = !commit_q && !db_wvalid_i && !forget_valid_i && !walking_q && !began_q &&
      !owed_q;

endmodule
