// SPDX-License-Identifier: Apache-2.0

// Properties of `acknowledge`: events of the receive engine are taken in time; an offer is stable
// until taken or withdrawn; the list never overflows; a VI is connected or reset but not both at
// once; no state changes while `quiet_o` is 1.

module hvia_acknowledge_checker (
    input logic         clk_i,
    input logic         rst_ni,
    input logic         rxa_valid_i,
    input logic         rxa_ready_o,
    input logic [2:0]   rxa_op_i,
    input logic         nak_valid_i,
    input logic         nak_ready_o,
    input logic [2:0]   nak_code_i,
    input logic [2:0]   rxa_code_i,
    input logic         ack_valid_o,
    input logic         ack_ready_i,
    input hvia_params_pkg::vi_t ack_vi_o,
    input logic [31:0]  ack_number_o,
    input logic [2:0]   ack_code_o,
    input logic         init_valid_i,
    input logic         clear_valid_i,
    input logic         renew,
    input hvia_params_pkg::vi_t renew_vi,
    input logic         push,
    input logic [1:0]   state_q,
    input hvia_params_pkg::vis_t listed_q,
    input hvia_params_pkg::vis_t nak_sent_q,
    input hvia_params_pkg::vi_t head_q,
    input hvia_params_pkg::vi_t tail_q,
    input logic         some_q,
    input logic         nak_sent_o,
    input logic         quiet_o
);

  localparam logic [1:0] Idle = 2'd0, Head = 2'd1;

  logic         quiet_q, held_q, taken_back_q, nak_sent_was_q;
  logic [34+hvia_params_pkg::VICountLog2:0]  offer_q;
  logic [1:0]   state_was_q;
  hvia_params_pkg::vis_t listed_was_q, naks_was_q;
  logic [2:0]   age_q;
  logic [34+hvia_params_pkg::VICountLog2:0]  offer;
  assign offer = {ack_vi_o, ack_number_o, ack_code_o};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q      <= 1'b0;
      held_q       <= 1'b0;
      taken_back_q <= 1'b0;
      age_q        <= 3'd0;
    end else begin
      quiet_q        <= quiet_o;
      state_was_q    <= state_q;
      listed_was_q   <= listed_q;
      naks_was_q     <= nak_sent_q;
      nak_sent_was_q <= nak_sent_o;
      held_q         <= ack_valid_o && !ack_ready_i;
      taken_back_q   <= renew && renew_vi == ack_vi_o;
      offer_q        <= offer;
      age_q          <= rxa_valid_i && !rxa_ready_o ? age_q + 3'd1 : 3'd0;

      assert (age_q <= 3'd4)
      else $error("acknowledge: the receive engine waits for %0d clocks", age_q);
      assert (!(rxa_ready_o && !rxa_valid_i) && !(nak_ready_o && !nak_valid_i) &&
          !(rxa_ready_o && nak_ready_o))
      else $error("acknowledge: takes what is not offered, or two events at once");
      if (rxa_ready_o) begin
        assert (rxa_op_i <= hvia_pkg::AcknowledgeOperationAgain)
        else $error("acknowledge: event %0d of the receive engine", rxa_op_i);
        assert (rxa_op_i != hvia_pkg::AcknowledgeOperationNAK ||
            rxa_code_i > hvia_pkg::AcknowledgeCodeGap)
        else $error("acknowledge: NAK with code %0d", rxa_code_i);
      end
      if (nak_ready_o) begin
        assert (nak_code_i > hvia_pkg::AcknowledgeCodeGap)
        else $error("acknowledge: NAK of a read with code %0d", nak_code_i);
      end
      if (held_q && !taken_back_q) begin
        assert (ack_valid_o && offer == offer_q)
        else $error("acknowledge: an acknowledgement was withdrawn or changed");
      end
      if (taken_back_q) begin
        assert (!ack_valid_o || !held_q)
        else $error("acknowledge: VI %0d was connected or reset, and its acknowledgement stays",
            ack_vi_o);
      end
      assert (!(init_valid_i && clear_valid_i))
      else $error("acknowledge: a VI is connected while one is reset");
      assert (some_q == (listed_q != '0) && (head_q != tail_q || listed_q == '0 || listed_q == '1))
      else $error("acknowledge: the list and its marks differ");
      assert (!(push && state_q == Head))
      else $error("acknowledge: the list is written while it is read");
      if (quiet_q) begin
        assert (state_was_q == Idle && state_q == Idle && listed_q == listed_was_q &&
            nak_sent_q == naks_was_q &&
                nak_sent_o == nak_sent_was_q && !ack_valid_o)
        else $error("acknowledge: changed after it said quiet");
      end
    end
  end

endmodule

bind hvia_acknowledge hvia_acknowledge_checker u_checker (.*);
