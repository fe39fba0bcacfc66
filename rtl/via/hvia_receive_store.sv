// SPDX-License-Identifier: Apache-2.0

// Receive descriptors on the chip, one slot per VI: the head of the receive queue, fetched when it
// was posted, and the 64-byte chunk of it in use. The receive engine reads a slot, empties it when
// its descriptor is done, and requests further chunks, which overwrite the last.
//
// A descriptor may stay here indefinitely while its memory is deregistered. Then the store searches
// all slots for the withdrawn handle, one per clock, and marks them stale: their status can no
// longer be written. By then no translation by that handle is in flight, so no slot gets it
// after the search.
module hvia_receive_store (
    input  logic         clk_i,
    input  logic         rst_ni,
    // From the fetch: a descriptor into an empty slot, or a further chunk for a valid slot.
    input  logic         wr_valid_i,
    input  logic         wr_head_i,
    input  hvia_params_pkg::vi_t wr_vi_i,
    input  logic [511:0] wr_chunk_i,
    input  logic [63:0]  wr_va_i,
    input  logic [31:0]  wr_pa_i,
    input  logic [31:0]  wr_handle_i,
    input  logic [15:0]  wr_seq_i,
    input  logic [31:0]  wr_status_i,
    // Read port: returns a slot one clock after its VI. A write, drop or clear in the clock of the
    // read shows one clock later.
    input  hvia_params_pkg::vi_t rs_vi_i,
    output logic         rs_valid_o,
    output logic         rs_stale_o,
    output logic [511:0] rs_chunk_o,
    output logic [63:0]  rs_va_o,
    output logic [31:0]  rs_pa_o,
    output logic [31:0]  rs_handle_o,
    output logic [15:0]  rs_seq_o,
    output logic [15:0]  rs_control_o,
    output logic [15:0]  rs_segments_o,
    output logic [31:0]  rs_length_o,
    output logic [31:0]  rs_status_o,
    // Empty a slot: the descriptor is done, or its VI was reset. A clear wins over a write.
    input  logic         drop_valid_i,
    input  hvia_params_pkg::vi_t drop_vi_i,
    input  logic         clear_valid_i,
    input  hvia_params_pkg::vi_t clear_vi_i,
    // Search for a withdrawn handle, stable at drain_handle_i: a pulse, then busy until it is done.
    input  logic         stale_start_i,
    output logic         stale_busy_o,
    // Draining.
    input  logic [31:0]  drain_handle_i,
    input  hvia_params_pkg::vi_t drain_vi_i,
    input  logic         drain_receive_i,
    output logic         vi_busy_o,
    output logic         quiet_o
);

  localparam int unsigned HeadWidth = 64 + 32 + 16 + 16 + 16 + 32 + 32;

  logic [511:0]           chunk_mem  [hvia_params_pkg::VICount];
  logic [HeadWidth-1:0]   head_mem   [hvia_params_pkg::VICount];
  // Separate, because the search reads it too.
  logic [31:0]            handle_mem [hvia_params_pkg::VICount];

  // Memories without reset: their contents count only while the slot is valid.
  hvia_params_pkg::vis_t valid_q, stale_q;

  logic write_head;
  assign write_head = wr_valid_i && wr_head_i;

  logic [HeadWidth-1:0] head;
  assign head = {wr_va_i, wr_pa_i, wr_seq_i,
                 wr_chunk_i[hvia_pkg::DescriptorControlOffset*8 +: 16],
                 wr_chunk_i[hvia_pkg::DescriptorSegmentCountOffset*8 +: 16],
                 wr_chunk_i[hvia_pkg::DescriptorLengthOffset*8 +: 32], wr_status_i};

  always_ff @(posedge clk_i) begin
    if (wr_valid_i) chunk_mem[wr_vi_i] <= wr_chunk_i;
    if (write_head) head_mem[wr_vi_i] <= head;
    if (write_head) handle_mem[wr_vi_i] <= wr_handle_i;
  end

  // The search: reads a handle in one clock and compares it in the next.
  logic        search_q, compare_q, fresh_q;
  hvia_params_pkg::vi_t search_vi_q, compare_vi_q;
  logic [31:0] compare_handle_q;
  logic        mark;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      search_q    <= 1'b0;
      search_vi_q <= '0;
      compare_q   <= 1'b0;
    end else begin
      compare_q <= search_q;
      if (stale_start_i) begin
        search_q    <= 1'b1;
        search_vi_q <= '0;
      end else if (search_q) begin
        search_q    <= search_vi_q != '1;
        search_vi_q <= search_vi_q + 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (search_q) begin
      compare_vi_q     <= search_vi_q;
      compare_handle_q <= handle_mem[search_vi_q];
      // A slot filled in this clock still shows the handle of the descriptor before.
      fresh_q          <= write_head && wr_vi_i == search_vi_q;
    end
  end

  assign mark         = compare_q && valid_q[compare_vi_q] && !fresh_q &&
      compare_handle_q == drain_handle_i;
  assign stale_busy_o = search_q || compare_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q <= '0;
      stale_q <= '0;
    end else begin
      if (mark) stale_q[compare_vi_q] <= 1'b1;
      if (drop_valid_i) valid_q[drop_vi_i] <= 1'b0;
      if (write_head) begin
        valid_q[wr_vi_i] <= 1'b1;
        stale_q[wr_vi_i] <= 1'b0;
      end
      if (clear_valid_i) valid_q[clear_vi_i] <= 1'b0;
    end
  end

  // Read port. The VI is stored with the word: the port is settled when its word belongs to the
  // requested VI and no write is pending.
  hvia_params_pkg::vi_t read_vi_q;
  logic [511:0]         chunk_q;
  logic [HeadWidth-1:0] head_q;
  logic [31:0]          handle_q;
  logic                 read_valid_q, read_stale_q, changed_q;

  always_ff @(posedge clk_i) begin
    chunk_q  <= chunk_mem[rs_vi_i];
    head_q   <= head_mem[rs_vi_i];
    handle_q <= handle_mem[rs_vi_i];
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      read_vi_q    <= '0;
      read_valid_q <= 1'b0;
      read_stale_q <= 1'b0;
      // A word read during reset belongs to no VI.
      changed_q    <= 1'b1;
    end else begin
      read_vi_q    <= rs_vi_i;
      read_valid_q <= valid_q[rs_vi_i];
      read_stale_q <= stale_q[rs_vi_i];
      changed_q    <= wr_valid_i || drop_valid_i || clear_valid_i || mark;
    end
  end

  assign rs_valid_o  = read_valid_q;
  assign rs_stale_o  = read_stale_q;
  assign rs_chunk_o  = chunk_q;
  assign rs_handle_o = handle_q;
  assign {rs_va_o, rs_pa_o, rs_seq_o, rs_control_o, rs_segments_o, rs_length_o, rs_status_o} =
      head_q;

  // A descriptor that waits for a message is work only while it is to be flushed.
  assign vi_busy_o = drain_receive_i && valid_q[drain_vi_i];

  assign quiet_o = !wr_valid_i && !drop_valid_i && !clear_valid_i && !stale_start_i && !search_q &&
                   !compare_q && !changed_q && read_vi_q == rs_vi_i;

endmodule
