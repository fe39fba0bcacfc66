// SPDX-License-Identifier: Apache-2.0

// Checks of every send_queue: its neighbours hold what they offer, no count leaves its range, a VI
// stands in the ready list at most once and the list never overflows, an offered descriptor stays
// until it was taken, and quiet means that nothing moves, memories included.
module send_queue_checker #(
    parameter int unsigned CountWidth = 11,
    parameter logic [CountWidth-1:0] Full = '0
) (
    input logic                  clk_i,
    input logic                  rst_ni,
    input logic                  db_valid_i,
    input logic                  db_ready_o,
    input logic [7:0]            db_vi_i,
    input logic [63:0]           db_va_i,
    input logic [31:0]           db_handle_i,
    input logic                  take_valid_o,
    input logic                  take_ready_i,
    input logic [7:0]            take_vi_o,
    input logic [63:0]           take_va_o,
    input logic [31:0]           take_handle_o,
    input logic                  take_more_o,
    input logic [15:0]           take_seq_o,
    input logic                  link_valid_i,
    input logic                  link_ready_o,
    input logic                  link_bad_i,
    input logic [7:0]            link_vi_i,
    input logic [63:0]           link_va_i,
    input logic [31:0]           link_handle_i,
    input logic                  clear_valid_i,
    input logic                  clear_ready_o,
    input logic [7:0]            clear_vi_i,
    input logic                  quiet_o,
    input logic [255:0]          pending_q,
    input logic [255:0]          known_q,
    input logic [255:0]          listed_q,
    input logic [2:0]            op_q,
    input logic [7:0]            op_vi_q,
    input logic [8:0]            head_q,
    input logic [8:0]            tail_q,
    input logic                  push,
    input logic                  pop,
    input logic                  write_count,
    input logic                  write_next,
    input logic [CountWidth-1:0] count,
    input logic [CountWidth-1:0] count_new
);

  logic         quiet_q, db_q, link_q, clear_q, take_q;
  logic [789:0] now, was_q;
  logic [103:0] db_was_q;
  logic [104:0] link_was_q;
  logic [7:0]   clear_was_q;
  logic [120:0] take_was_q;
  logic [120:0] take_now;
  logic [8:0]   listed;

  assign take_now = {take_vi_o, take_va_o, take_handle_o, take_more_o, take_seq_o};
  assign now      = {pending_q, known_q, listed_q, op_q, head_q, tail_q, take_valid_o};
  assign listed   = tail_q - head_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      quiet_q <= 1'b0;
      db_q    <= 1'b0;
      link_q  <= 1'b0;
      clear_q <= 1'b0;
      take_q  <= 1'b0;
    end else begin
      quiet_q     <= quiet_o;
      db_q        <= db_valid_i && !db_ready_o;
      link_q      <= link_valid_i && !link_ready_o;
      clear_q     <= clear_valid_i && !clear_ready_o;
      take_q      <= take_valid_o && !take_ready_i;
      clear_was_q <= clear_vi_i;
      if (quiet_o) was_q <= now;
      if (db_valid_i) db_was_q <= {db_vi_i, db_va_i, db_handle_i};
      if (link_valid_i) link_was_q <= {link_bad_i, link_vi_i, link_va_i, link_handle_i};
      if (take_valid_o || quiet_o) take_was_q <= take_now;

      if (quiet_q) begin
        assert (now == was_q && take_now == take_was_q)
        else $error("send_queue: a register changed after it said quiet");
      end
      assert (!(quiet_o && (push || pop || write_count || write_next)))
      else $error("send_queue: quiet while a memory is written");

      if (db_q) begin
        assert (db_valid_i && {db_vi_i, db_va_i, db_handle_i} == db_was_q)
        else $error("send_queue: a commit changed or vanished before it was taken");
      end
      if (link_q) begin
        assert (link_valid_i && {link_bad_i, link_vi_i, link_va_i, link_handle_i} == link_was_q)
        else $error("send_queue: a link changed or vanished before it was taken");
      end
      if (clear_q) begin
        assert (clear_valid_i && clear_vi_i == clear_was_q)
        else $error("send_queue: a clear changed or vanished before it was taken");
      end
      if (take_q) begin
        assert (take_valid_o && take_now == take_was_q)
        else $error("send_queue: an offered descriptor changed or vanished");
      end
      assert (!(db_ready_o && !db_valid_i) && !(link_ready_o && !link_valid_i) &&
              !(clear_ready_o && !clear_valid_i))
      else $error("send_queue: ready for what is not offered");

      assert (listed <= 9'd256)
      else $error("send_queue: %0d VIs in a ready list of 256", listed);
      assert (!(push && listed_q[op_vi_q]))
      else $error("send_queue: VI %0d enters the ready list twice", op_vi_q);
      assert (!(pop && !listed_q[op_vi_q]))
      else $error("send_queue: VI %0d leaves the ready list and did not stand in it", op_vi_q);
      // Between operations the count is that of the last read, which may lie before the first write.
      assert (op_q == 3'd0 || (count <= Full && !(write_count && count_new > Full)))
      else $error("send_queue: VI %0d counts %0d descriptors", op_vi_q, count);
    end
  end

endmodule

bind send_queue send_queue_checker #(.CountWidth(CountWidth), .Full(Full)) u_checker (.*);
