// SPDX-License-Identifier: Apache-2.0

// The card's event counters: 128 wrapping counters of 32 bits, numbered as in `layout`. Each bit of
// `strobe_i` counts one event of its counter in that clock.
//
// The counts live in a RAM with one update per clock. Pending events are held in two bit planes, a
// number from 0 to 3 per counter; one update adds the whole number. The counter with the highest
// number is served first; among equals, one not yet served in this round. So a counter that is hit
// in every clock neither loses events nor starves the others. No event is lost unless a counter
// collects more than three between two services: three counters may be hit in every clock forever,
// a fourth may not. No four events of the card do that, and the checker detects a loss.
//
// A read returns one clock after the index, and lags behind events by the services still due.
//
// The RAM is not reset: one bit per counter records whether it was written since reset; until then
// the count is 0. So counting starts with the first clock after reset.
module hvia_counters (
    input  logic         clk_i,
    input  logic         rst_ni,
    input  logic [127:0] strobe_i,
    input  logic [  6:0] rd_index_i,
    output logic [ 31:0] rd_data_o,
    output logic         quiet_o
);

  // Mask of the indices whose bit `b` is set: converts one-hot to binary.
  localparam logic [127:0] Index0 = {64{2'b10}};
  localparam logic [127:0] Index1 = {32{4'b1100}};
  localparam logic [127:0] Index2 = {16{8'hf0}};
  localparam logic [127:0] Index3 = {8{16'hff00}};
  localparam logic [127:0] Index4 = {4{32'hffff0000}};
  localparam logic [127:0] Index5 = {2{64'hffffffff00000000}};
  localparam logic [127:0] Index6 = {64'hffffffffffffffff, 64'h0};

  logic [127:0] plane0_q, plane0_d, plane1_q, plane1_d;
  logic [127:0] round_q, round_d;
  logic [127:0] known_q, known_d;

  logic [127:0] waiting, full, urgent, pick;
  logic [  6:0] pick_index;
  logic [  1:0] pick_amount;
  logic         pick_valid;

  always_comb begin
    waiting     = plane0_q | plane1_q;
    pick_valid  = |waiting;
    full        = '0;
    urgent      = '0;
    pick        = '0;
    pick_index  = '0;
    pick_amount = '0;
    round_d     = round_q;
    plane0_d    = plane0_q;
    plane1_d    = plane1_q;
    if (pick_valid) begin
      if (!(|(waiting & round_q))) round_d = '1;
      full   = plane1_q & plane0_q;
      urgent = (|full) ? full : (|plane1_q) ? plane1_q : plane0_q;
      if (|(urgent & round_d)) urgent = urgent & round_d;
      pick        = urgent & (~urgent + 128'd1);
      pick_index  = {|(pick & Index6), |(pick & Index5), |(pick & Index4), |(pick & Index3),
                     |(pick & Index2), |(pick & Index1), |(pick & Index0)};
      pick_amount = {|(pick & plane1_q), |(pick & plane0_q)};
      round_d     = round_d & ~pick;
      plane0_d    = plane0_q & ~pick;
      plane1_d    = plane1_q & ~pick;
    end
    // Add the strobes of this clock to the two-bit numbers.
    plane1_d = plane1_d | (plane0_d & strobe_i);
    plane0_d = plane0_d ^ strobe_i;
  end

  // Service: read, then add and write. The write is forwarded to a read of the
  // same counter in the same clock.
  logic [31:0] mem[0:127];
  logic        add_valid_q, add_known_q;
  logic [ 6:0] add_index_q;
  logic [ 1:0] add_amount_q;
  logic [31:0] add_old_q, add_sum;

  assign add_sum = (add_known_q ? add_old_q : 32'd0) + 32'(add_amount_q);

  always_comb begin
    known_d = known_q;
    if (add_valid_q) known_d[add_index_q] = 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      plane0_q     <= '0;
      plane1_q     <= '0;
      round_q      <= '0;
      known_q      <= '0;
      add_valid_q  <= 1'b0;
      add_known_q  <= 1'b0;
      add_index_q  <= '0;
      add_amount_q <= '0;
    end else begin
      plane0_q    <= plane0_d;
      plane1_q    <= plane1_d;
      round_q     <= round_d;
      known_q     <= known_d;
      add_valid_q <= pick_valid;
      if (pick_valid) begin
        add_index_q  <= pick_index;
        add_amount_q <= pick_amount;
        add_known_q  <= known_d[pick_index];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (add_valid_q) mem[add_index_q] <= add_sum;
  end
  always_ff @(posedge clk_i) begin
    if (pick_valid) begin
      add_old_q <= (add_valid_q && (add_index_q == pick_index)) ? add_sum : mem[pick_index];
    end
  end

  // Read port.
  logic [ 6:0] rd_index_q;
  logic        rd_known_q, wrote_q;
  logic [31:0] rd_data_q;
  always_ff @(posedge clk_i) begin
    rd_data_q <= mem[rd_index_i];
  end
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      rd_index_q <= '0;
      rd_known_q <= 1'b0;
      wrote_q    <= 1'b0;
    end else begin
      rd_index_q <= rd_index_i;
      rd_known_q <= known_q[rd_index_i];
      wrote_q    <= add_valid_q;
    end
  end
  assign rd_data_o = rd_known_q ? rd_data_q : 32'd0;

  assign quiet_o = !pick_valid && !add_valid_q && !wrote_q && !(|strobe_i) &&
      (rd_index_q == rd_index_i);

endmodule
