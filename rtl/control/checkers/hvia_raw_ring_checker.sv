// SPDX-License-Identifier: Apache-2.0

// Properties of `raw_ring`: never more entries on the card than slots; none is read past the tail;
// the engine's entry is stable while in use; no state changes while `quiet_o` is 1.

module hvia_raw_ring_checker #(
    parameter int unsigned Depth = 4,
    parameter int unsigned CountBits = 3
) (
    input logic                 clk_i,
    input logic                 rst_ni,
    input logic [          3:0] size_i,
    input logic [          7:0] tail_i,
    input logic [          7:0] mask,
    input logic [CountBits-1:0] ready_q,
    input logic [CountBits-1:0] done_q,
    input logic                 fetching_q,
    input logic                 fetch_take,
    input logic                 fetch_done_i,
    input logic [          7:0] fetch_q,
    input logic [          7:0] head_q,
    input logic                 using_q,
    input logic                 writing_q,
    input logic                 take,
    input logic                 entry_done_i,
    input logic [         31:0] entry_pa_o,
    input logic [         12:0] entry_len_o,
    input logic                 status_done_i,
    input logic                 quiet_o
);

  logic quiet_q, using_before_q;
  logic [44:0] entry_q;
  localparam int unsigned NowWidth = 2 * CountBits + 19;
  logic [NowWidth-1:0] then_q;
  // A function is evaluated only where used.
  function automatic logic [NowWidth-1:0] now();
    now = {ready_q, done_q, fetching_q, using_q, writing_q, fetch_q, head_q};
  endfunction

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q        <= 1'b0;
      using_before_q <= 1'b0;
      entry_q        <= '0;
    end else begin
      quiet_q        <= quiet_o;
      using_before_q <= using_q && !entry_done_i;
      entry_q        <= {entry_len_o, entry_pa_o};
      assert (ready_q + done_q <= CountBits'(Depth))
      else $error("raw_ring: %0d entries read and %0d finished, places for %0d", ready_q, done_q,
          Depth);
      assert (!(fetch_take && (size_i == 4'd0 || fetch_q == (tail_i & mask) || fetching_q)))
      else $error("raw_ring: an entry is read that software did not give, or while another is");
      assert (!(using_q && ready_q == '0))
      else $error("raw_ring: the engine has an entry that the ring has not");
      assert (!(take && using_q))
      else $error("raw_ring: the engine takes a second entry");
      assert (!(entry_done_i && !using_q))
      else $error("raw_ring: the engine ends an entry that it has not");
      assert (!(fetch_done_i && !fetching_q) && !(status_done_i && !writing_q))
      else $error("raw_ring: the end of a transfer that did not start");
      if (using_before_q) begin
        assert (using_q && entry_q == {entry_len_o, entry_pa_o})
        else $error("raw_ring: the engine's entry changed under it");
      end
      if (quiet_q) begin
        assert (now() == then_q)
        else $error("raw_ring: a register changed after quiet");
      end
      // State at the start of a quiescent span.
      if (quiet_o && !quiet_q) then_q <= now();
    end
  end

endmodule

bind hvia_raw_ring hvia_raw_ring_checker #(.Depth(Depth), .CountBits(CountBits)) u_checker (.*);
