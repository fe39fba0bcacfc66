// SPDX-License-Identifier: Apache-2.0

// Properties of `work_queue`: neighbours hold their offers; counts stay in range; a VI is in a
// ready list at most once, so no list overflows; a held send queue is parked: not taken, and in no
// list; a receive queue is ready only while none of its descriptors is on the chip and, with fetch
// on arrival, a message waits; an offered descriptor is stable until taken; no state or memory
// changes while `quiet_o` is 1.
module hvia_work_queue_checker #(
    parameter int unsigned CountWidth = 11,
    parameter logic [CountWidth-1:0] Full = '0
) (
    input logic                  clk_i,
    input logic                  rst_ni,
    input logic                  db_valid_i,
    input logic                  db_ready_o,
    input logic                  db_receive_i,
    input hvia_params_pkg::vi_t db_vi_i,
    input logic [63:0]           db_va_i,
    input logic [31:0]           db_handle_i,
    input logic                  take_valid_o,
    input logic                  take_ready_i,
    input logic                  take_receive_o,
    input hvia_params_pkg::vi_t take_vi_o,
    input logic [63:0]           take_va_o,
    input logic [31:0]           take_handle_o,
    input logic                  take_more_o,
    input logic [15:0]           take_seq_o,
    input logic                  send_space_i,
    input logic                  link_valid_i,
    input logic                  link_ready_o,
    input logic                  link_bad_i,
    input logic                  link_receive_i,
    input hvia_params_pkg::vi_t link_vi_i,
    input logic [63:0]           link_va_i,
    input logic [31:0]           link_handle_i,
    input logic [1:0]            release_valid_i,
    input logic [1:0]            release_ready_o,
    input logic [2*hvia_params_pkg::VICountLog2-1:0] release_vi_i,
    input logic                  clear_valid_i,
    input logic                  clear_ready_o,
    input hvia_params_pkg::vi_t clear_vi_i,
    input logic                  quiet_o,
    input logic [2*hvia_params_pkg::VICount-1:0]          pending_q,
    input logic [2*hvia_params_pkg::VICount-1:0]          known_q,
    input logic [2*hvia_params_pkg::VICount-1:0]          listed_q,
    input hvia_params_pkg::vis_t held_q,
    input hvia_params_pkg::vis_t owed_q,
    input hvia_params_pkg::vis_t parked_q,
    input logic                  unhold_valid_i,
    input logic                  unhold_ready_o,
    input hvia_params_pkg::vi_t unhold_vi_i,
    input hvia_params_pkg::vis_t send_hold_i,
    input logic [3:0]            op_q,
    input logic [hvia_params_pkg::VICountLog2:0] op_queue_q,
    input logic                  op_receive,
    input logic                  took_receive_q,
    input logic                  release_which_q,
    input logic                  offered_q,
    input logic                  offered_receive_q,
    input logic [1:0]            offer_valid_q,
    input logic [2*(113+hvia_params_pkg::VICountLog2)-1:0]          offer_q,
    input logic [2*(hvia_params_pkg::VICountLog2+1)-1:0] head_q,
    input logic [2*(hvia_params_pkg::VICountLog2+1)-1:0] tail_q,
    input logic                  taken,
    input logic                  push,
    input logic                  pop,
    input logic                  write_count,
    input logic                  write_next,
    input logic                  on_arrival_i,
    input hvia_params_pkg::vis_t live_i,
    input logic                  wanted_i,
    input hvia_params_pkg::vi_t coming_vi_i,
    input logic                  drain_receive_i,
    input hvia_params_pkg::vi_t drain_vi_i,
    input logic                  owed,
    input logic [CountWidth-1:0] count,
    input logic [CountWidth-1:0] count_all,
    input logic [CountWidth-1:0] count_new
);

  localparam int unsigned VIW = hvia_params_pkg::VICountLog2;

  logic          quiet_q, db_q, link_q, clear_q, take_q;
  logic [1:0]    release_q;
  logic [2*hvia_params_pkg::VICount-1:0]  pending_was_q, known_was_q, listed_was_q;
  hvia_params_pkg::vis_t held_was_q, owed_was_q, parked_was_q;
  logic          unhold_q;
  hvia_params_pkg::vi_t unhold_was_q;
  logic [2*(113+VIW)-1:0]  offer_was_q;
  logic [14+5*VIW:0]   was_q;
  logic [96+VIW:0]  db_was_q;
  logic [97+VIW:0]  link_was_q;
  hvia_params_pkg::vi_t clear_was_q;
  logic [2*VIW-1:0] release_was_q;
  logic [113+VIW:0]  take_was_q;
  logic [VIW:0] listed_send, listed_receive;
  logic          space_q, took_send_q, wanted_q, flushed_q;
  hvia_params_pkg::vi_t wanted_vi_q, flushed_vi_q;

  // Functions are evaluated only where used.
  function automatic logic [113+VIW:0] take_now();
    take_now = {take_receive_o, take_vi_o, take_va_o, take_handle_o, take_more_o, take_seq_o};
  endfunction
  function automatic logic [96+VIW:0] db_now();
    db_now = {db_receive_i, db_vi_i, db_va_i, db_handle_i};
  endfunction
  function automatic logic [97+VIW:0] link_now();
    link_now = {link_bad_i, link_receive_i, link_vi_i, link_va_i, link_handle_i};
  endfunction
  function automatic logic [14+5*VIW:0] now();
    now = {op_q, op_queue_q, took_receive_q, release_which_q, offered_q, offered_receive_q,
           offer_valid_q, head_q, tail_q};
  endfunction
  assign listed_send    = tail_q[0 +: VIW+1] - head_q[0 +: VIW+1];
  assign listed_receive = tail_q[VIW+1 +: VIW+1] - head_q[VIW+1 +: VIW+1];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q     <= 1'b0;
      db_q        <= 1'b0;
      link_q      <= 1'b0;
      release_q   <= 2'b00;
      clear_q     <= 1'b0;
      unhold_q    <= 1'b0;
      take_q      <= 1'b0;
      space_q     <= 1'b0;
      wanted_q   <= 1'b0;
      flushed_q   <= 1'b0;
      took_send_q <= 1'b0;
    end else begin
      quiet_q       <= quiet_o;
      db_q          <= db_valid_i && !db_ready_o;
      link_q        <= link_valid_i && !link_ready_o;
      release_q     <= release_valid_i & ~release_ready_o;
      clear_q       <= clear_valid_i && !clear_ready_o;
      take_q        <= take_valid_o && !take_ready_i;
      space_q       <= send_space_i;
      took_send_q   <= take_valid_o && take_ready_i && !take_receive_o;
      wanted_q     <= wanted_i;
      wanted_vi_q  <= coming_vi_i;
      flushed_q     <= drain_receive_i;
      flushed_vi_q  <= drain_vi_i;
      clear_was_q   <= clear_vi_i;
      unhold_q      <= unhold_valid_i && !unhold_ready_o;
      unhold_was_q  <= unhold_vi_i;
      release_was_q <= release_vi_i;
      if (db_valid_i) db_was_q <= db_now();
      if (link_valid_i) link_was_q <= link_now();
      if (take_valid_o) take_was_q <= take_now();

      if (quiet_q) begin
        assert (pending_q == pending_was_q && known_q == known_was_q && listed_q == listed_was_q &&
                held_q == held_was_q && owed_q == owed_was_q && parked_q == parked_was_q &&
                    offer_q == offer_was_q &&
                now() == was_q)
        else $error("work_queue: a register changed after it said quiet");
      end
      assert (!(quiet_o && (push || pop || write_count || write_next)))
      else $error("work_queue: quiet while a memory is written");

      if (db_q) begin
        assert (db_valid_i && db_now() == db_was_q)
        else $error("work_queue: a commit changed or vanished before it was taken");
      end
      if (link_q) begin
        assert (link_valid_i && link_now() == link_was_q)
        else $error("work_queue: a link changed or vanished before it was taken");
      end
      assert ((release_q & ~release_valid_i) == 2'b00 &&
              (!release_q[0] || release_vi_i[0 +: VIW] == release_was_q[0 +: VIW]) &&
              (!release_q[1] || release_vi_i[VIW +: VIW] == release_was_q[VIW +: VIW]))
      else $error("work_queue: a release changed or vanished before it was taken");
      if (clear_q) begin
        assert (clear_valid_i && clear_vi_i == clear_was_q)
        else $error("work_queue: a clear changed or vanished before it was taken");
      end
      if (unhold_q) begin
        assert (unhold_valid_i && unhold_vi_i == unhold_was_q)
        else $error("work_queue: the end of a hold changed or vanished before it was taken");
      end
      assert (!(unhold_ready_o && !unhold_valid_i))
      else $error("work_queue: takes the end of a hold that is not offered");
      assert (!(taken && !op_receive && send_hold_i[op_queue_q[VIW-1:0]]))
      else $error("work_queue: the send queue of VI %0d is held and taken", op_queue_q[VIW-1:0]);
      assert ((listed_q[hvia_params_pkg::VICount-1:0] & parked_q) == '0)
      else $error("work_queue: a parked send queue stands in the ready list");
      if (take_q) begin
        assert (take_valid_o && take_now() == take_was_q)
        else $error("work_queue: an offered descriptor changed or vanished");
      end
      assert (!(db_ready_o && !db_valid_i) && !(link_ready_o && !link_valid_i) &&
              (release_ready_o & ~release_valid_i) == 2'b00 && !(clear_ready_o && !clear_valid_i))
      else $error("work_queue: ready for what is not offered");
      assert (!(take_valid_o && !take_receive_o && !send_space_i))
      else $error("work_queue: a send descriptor is offered without space");
      assert (!space_q || send_space_i || took_send_q)
      else $error("work_queue: the space for a send descriptor went without one");

      assert (32'(listed_send) <= hvia_params_pkg::VICount && 32'(listed_receive) <=
          hvia_params_pkg::VICount)
      else $error("work_queue: %0d and %0d VIs in ready lists of %0d", listed_send, listed_receive,
          hvia_params_pkg::VICount);
      assert (!(push && listed_q[op_queue_q]))
      else $error("work_queue: queue %0d enters the ready list twice", op_queue_q);
      assert (!(pop && !listed_q[op_queue_q]))
      else $error("work_queue: queue %0d leaves the ready list and did not stand in it",
          op_queue_q);
      assert (!(taken && op_receive && held_q[op_queue_q[VIW-1:0]]))
      else $error("work_queue: VI %0d has two receive descriptors on the chip",
          op_queue_q[VIW-1:0]);
      // Operations 1 (Commit) and 7 (Wake) enter a queue only if its next descriptor may be
      // fetched.
      assert (!(push && op_receive && (op_q == 4'd1 || op_q == 4'd7) &&
                (held_q[op_queue_q[VIW-1:0]] || owed || (op_q == 4'd7 && count == '0))))
      else $error("work_queue: VI %0d enters with a receive descriptor on chip, or its link owed",
          op_queue_q[VIW-1:0]);
      // Compared with the values of the clock before, when the operation was chosen.
      assert (!(push && op_receive && on_arrival_i && live_i[op_queue_q[VIW-1:0]]) ||
              (wanted_q && wanted_vi_q == op_queue_q[VIW-1:0]) ||
                  (flushed_q && flushed_vi_q == op_queue_q[VIW-1:0]))
      else $error("work_queue: VI %0d enters, and nobody waits for its receive descriptor",
          op_queue_q[VIW-1:0]);
      // Checked during operations only: otherwise `count` may come from a read before the first
      // write.
      assert (op_q == 4'd0 || (count <= Full && count_all <= Full &&
                               !(write_count && count_new > Full)))
      else $error("work_queue: queue %0d counts %0d descriptors", op_queue_q, count);
      // State at the start of a quiescent span.
      if (quiet_o && !quiet_q) begin
        pending_was_q <= pending_q;
        known_was_q   <= known_q;
        listed_was_q  <= listed_q;
        held_was_q    <= held_q;
        owed_was_q    <= owed_q;
        parked_was_q  <= parked_q;
        offer_was_q   <= offer_q;
        was_q         <= now();
      end
    end
  end

endmodule

bind hvia_work_queue hvia_work_queue_checker #(.CountWidth(CountWidth), .Full(Full)) u_checker (.*);
