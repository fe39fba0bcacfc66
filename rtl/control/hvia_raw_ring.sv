// SPDX-License-Identifier: Apache-2.0

// One ring of raw-frame entries: the entry to read next, the one with the engine, the one whose
// status is to be written. `raw_port` has one ring per direction.
//
// Up to `Depth` entries are on the card at a time: read ahead, with the engine (one), or finished
// and waiting for their status write. So a burst of frames finds buffers, and the engine never
// waits for a status write. Entries return to software in order; `head_o` is the first that has
// not.
//
// An unusable entry (failed read, length out of range, buffer not inside one page) returns with
// Error and never reaches the engine.
//
// `restart_i` (software wrote Base or Size) drops everything except what is in flight: a requested
// read or status write, and the engine's frame. These cannot be cancelled; they finish without
// effect on the ring, and `busy_o` is 1 until then.
module hvia_raw_ring #(
    parameter bit          Transmit = 1'b0,
    parameter int unsigned DepthLog2 = 2
) (
    input logic clk_i,
    input logic rst_ni,

    input  logic [31:4] base_i,
    input  logic [ 3:0] size_i,
    input  logic [ 7:0] tail_i,
    input  logic        restart_i,
    output logic [ 7:0] head_o,
    output logic        busy_o,

    // Read of an entry.
    output logic        fetch_valid_o,
    input  logic        fetch_ready_i,
    output logic [31:0] fetch_addr_o,
    input  logic        fetch_done_i,
    input  logic        fetch_err_i,
    input  logic [31:0] fetch_pa_i,
    input  logic [31:0] fetch_len_i,

    // Engine: takes an entry, and later finishes it. Address and length are stable until then.
    output logic        entry_valid_o,
    input  logic        entry_ready_i,
    output logic [31:0] entry_pa_o,
    output logic [12:0] entry_len_o,
    output logic [ 7:0] entry_index_o,
    input  logic        entry_done_i,
    input  logic        entry_err_i,
    input  logic [15:0] entry_bytes_i,

    // Write of a status.
    output logic        status_valid_o,
    input  logic        status_ready_i,
    output logic [31:0] status_addr_o,
    output logic [31:0] status_data_o,
    input  logic        status_done_i,
    input  logic        status_err_i,

    output logic written_o,  // the status of entry `head_o` is in memory
    output logic stat_good_o,
    output logic stat_error_o,
    output logic quiet_o
);

  localparam int unsigned Depth = 1 << DepthLog2;
  localparam int unsigned CountBits = DepthLog2 + 1;
  localparam logic [31:0] MinTransmit = 32'(hvia_pkg::EthernetHeaderSize);
  localparam logic [31:0] MaxTransmit = 32'(hvia_pkg::MaxFrame);
  localparam logic [31:0] PageBytes = hvia_pkg::AttPageBytes;

  // Entries on the card, in ring order: `done_q` finished ones, then, from `slot_q` on, `ready_q`
  // that were read. The engine may have the first of these.
  logic [DepthLog2-1:0] slot_q, put_slot, write_slot;
  logic [CountBits-1:0] ready_q, ready_d, done_q, done_d;
  logic [7:0] fetch_q, fetch_d, head_q, head_d, mask;

  // In flight; stale: from before a restart.
  logic fetching_q, fetching_d, fetch_stale_q, fetch_stale_d;
  logic using_q, using_d, use_stale_q, use_stale_d;
  logic writing_q, writing_d, write_stale_q, write_stale_d;

  logic [45:0] entry_mem[0:Depth-1];   // bad, length, address
  logic [17:0] status_mem[0:Depth-1];  // length, Error, Done

  assign mask       = 8'((9'd1 << size_i) - 9'd1);
  assign put_slot   = slot_q + ready_q[DepthLog2-1:0];
  assign write_slot = slot_q - done_q[DepthLog2-1:0];

  function automatic logic [31:0] entry_address(input logic [31:4] base, input logic [7:0] index);
    // Entries wrap inside the page of the base: a wrong base cannot lead outside it.
    entry_address = {base[31:12], base[11:4] + index, 4'd0};
  endfunction

  // Reads.
  assign fetch_valid_o = (size_i != 4'd0) && (fetch_q != (tail_i & mask)) && !fetching_q &&
      !restart_i && ((ready_q + done_q) < CountBits'(Depth));
  assign fetch_addr_o  = entry_address(base_i, fetch_q);

  logic fetch_take, fetch_put, bad, page_crossed;
  assign fetch_take   = fetch_valid_o && fetch_ready_i;
  assign fetch_put    = fetch_done_i && !fetch_stale_q && !restart_i;
  assign page_crossed = (fetch_len_i > PageBytes) ||
      ({20'd0, fetch_pa_i[11:0]} + fetch_len_i > PageBytes);
  assign bad = fetch_err_i || page_crossed ||
      (Transmit ? (fetch_len_i < MinTransmit || fetch_len_i > MaxTransmit) : fetch_len_i == 32'd0);

  always_ff @(posedge clk_i) begin
    if (fetch_put) entry_mem[put_slot] <= {bad, fetch_len_i[12:0], fetch_pa_i};
  end

  // Engine.
  logic entry_bad, take, finish, reject;
  assign {entry_bad, entry_len_o, entry_pa_o} = entry_mem[slot_q];
  assign entry_valid_o = (ready_q != '0) && !using_q && !entry_bad;
  assign entry_index_o = (head_q + 8'(done_q)) & mask;
  assign take          = entry_valid_o && entry_ready_i;
  assign reject        = (ready_q != '0) && !using_q && entry_bad;
  assign finish        = reject || (using_q && entry_done_i);

  logic failed;
  logic [15:0] bytes;
  assign failed = reject || entry_err_i;
  assign bytes  = (Transmit || reject) ? 16'd0 : entry_bytes_i;
  always_ff @(posedge clk_i) begin
    if (finish) status_mem[slot_q] <= {bytes, failed, 1'b1};
  end
  assign stat_good_o  = finish && !failed;
  assign stat_error_o = finish && failed;

  // Status.
  logic [15:0] status_bytes;
  logic status_failed, status_finished, status_take;
  assign {status_bytes, status_failed, status_finished} = status_mem[write_slot];
  assign status_valid_o = (done_q != '0) && !writing_q && !restart_i;
  assign status_addr_o  = entry_address(base_i, head_q) + 32'(hvia_pkg::RawEntryStatusOffset);
  always_comb begin
    status_data_o = 32'd0;
    status_data_o[hvia_pkg::RawEntryStatusLengthLsb+:16] = status_bytes;
    status_data_o[hvia_pkg::RawEntryStatusErrorBit] = status_failed;
    status_data_o[hvia_pkg::RawEntryStatusDoneBit] = status_finished;
  end
  assign status_take = status_valid_o && status_ready_i;

  logic returned;
  assign returned  = status_done_i && !write_stale_q && !restart_i;
  assign written_o = returned && !status_err_i;

  // Pointers and counts.
  logic drop;
  assign drop = finish && (use_stale_q || restart_i);
  always_comb begin
    fetching_d    = (fetching_q || fetch_take) && !fetch_done_i;
    fetch_stale_d = fetch_stale_q && !fetch_done_i;
    using_d       = (using_q || take) && !(using_q && entry_done_i);
    use_stale_d   = use_stale_q && !(using_q && entry_done_i);
    writing_d     = (writing_q || status_take) && !status_done_i;
    write_stale_d = write_stale_q && !status_done_i;
    fetch_d       = fetch_take ? ((fetch_q + 8'd1) & mask) : fetch_q;
    head_d        = returned ? ((head_q + 8'd1) & mask) : head_q;
    ready_d       = ready_q + CountBits'(fetch_put) - CountBits'(finish);
    done_d        = done_q + CountBits'(finish && !drop) - CountBits'(returned);
    if (restart_i) begin
      fetch_d       = 8'd0;
      head_d        = 8'd0;
      fetch_stale_d = fetching_d;
      use_stale_d   = using_d;
      write_stale_d = writing_d;
      ready_d       = CountBits'(using_d);
      done_d        = '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      slot_q        <= '0;
      ready_q       <= '0;
      done_q        <= '0;
      fetch_q       <= 8'd0;
      head_q        <= 8'd0;
      fetching_q    <= 1'b0;
      fetch_stale_q <= 1'b0;
      using_q       <= 1'b0;
      use_stale_q   <= 1'b0;
      writing_q     <= 1'b0;
      write_stale_q <= 1'b0;
    end else begin
      if (finish) slot_q <= slot_q + 1'b1;
      ready_q       <= ready_d;
      done_q        <= done_d;
      fetch_q       <= fetch_d;
      head_q        <= head_d;
      fetching_q    <= fetching_d;
      fetch_stale_q <= fetch_stale_d;
      using_q       <= using_d;
      use_stale_q   <= use_stale_d;
      writing_q     <= writing_d;
      write_stale_q <= write_stale_d;
    end
  end

  assign head_o = head_q;
  assign busy_o = fetching_q || using_q || writing_q || (ready_q != '0) || (done_q != '0);

  assign quiet_o = !restart_i && !fetch_take && !fetch_done_i && !take && !finish && !status_take &&
      !status_done_i;

endmodule
