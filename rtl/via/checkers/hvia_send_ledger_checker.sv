// SPDX-License-Identifier: Apache-2.0

// Properties of `send_ledger`: each engine gets its response within its bound; an offer is stable
// until taken (a job may be withdrawn); in each VI's record, head, started and tail of both rings
// stay in order, and frames in flight stay within the window; no descriptor arrives without a free
// slot; no state changes while `quiet_o` is 1.
module hvia_send_ledger_checker (
    input logic         clk_i,
    input logic         rst_ni,
    input logic         led_valid_i,
    input logic         led_ready_o,
    input logic [1:0]   led_op_i,
    input logic         led_last_i,
    input logic         led_go_o,
    input logic         rxl_valid_i,
    input logic         rxl_ready_o,
    input logic         job_valid_o,
    input logic         job_ready_i,
    input hvia_params_pkg::vi_t job_vi_o,
    input logic [4:0]   job_slot_o,
    input logic [31:0]  job_number_o,
    input logic         cpl_valid_o,
    input logic         cpl_ready_i,
    input hvia_params_pkg::vi_t cpl_vi_o,
    input logic [15:0]  cpl_seq_o,
    input logic [31:0]  cpl_status_o,
    input logic         nak_valid_o,
    input logic         nak_ready_i,
    input hvia_params_pkg::vi_t nak_vi_o,
    input logic [31:0]  nak_number_o,
    input logic [2:0]   nak_code_o,
    input logic         async_valid_o,
    input logic         async_ready_i,
    input logic         quiet_o,
    input logic [2:0]   state_q,
    input logic [2:0]   op_q,
    input hvia_params_pkg::vi_t vi_q,
    input logic         done,
    input logic         write_record,
    input logic         go,
    input logic         running,
    input logic         init_q,
    input logic         clear_q,
    input logic         engine_q,
    input logic         job_valid_q,
    input logic         cpl_valid_q,
    input logic         async_q,
    input logic         nak_valid_q,
    input logic         unhold_q,
    input logic         search_q,
    input logic         rewound_q,
    input logic         resumed_q,
    input hvia_params_pkg::vis_t known_q,
    input hvia_params_pkg::vis_t live_q,
    input hvia_params_pkg::vis_t used_q,
    input hvia_params_pkg::vis_t armed_q,
    input hvia_params_pkg::vis_t hold_q,
    input logic [31:0]  span,
    input logic [31:0]  ahead,
    input logic         req_full,
    input logic         rings_ordered,
    input logic         windows_ordered
);

  localparam int unsigned TransmitBound = 64;
  localparam int unsigned ReceiveBound  = 128;

  logic          quiet_q, job_held_q, cpl_held_q, ref_held_q;
  logic [6:0]    led_clocks_q;
  logic [7:0]    rxl_clocks_q;
  logic [36+hvia_params_pkg::VICountLog2:0]   job_was_q;
  logic [47+hvia_params_pkg::VICountLog2:0]   cpl_was_q;
  logic [34+hvia_params_pkg::VICountLog2:0]   ref_was_q;
  logic [16+hvia_params_pkg::VICountLog2+5*hvia_params_pkg::VICount:0] was_q;

  // A function is evaluated only where used.
  function automatic logic [16+hvia_params_pkg::VICountLog2+5*hvia_params_pkg::VICount:0] now();
    now = {state_q, op_q, vi_q, init_q, clear_q, engine_q, job_valid_q, cpl_valid_q, async_q,
        nak_valid_q, unhold_q,
           search_q, rewound_q, resumed_q, known_q, live_q, used_q, armed_q, hold_q};
  endfunction

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q      <= 1'b0;
      job_held_q   <= 1'b0;
      cpl_held_q   <= 1'b0;
      ref_held_q   <= 1'b0;
      led_clocks_q <= 7'd0;
      rxl_clocks_q <= 8'd0;
    end else begin
      quiet_q    <= quiet_o;
      job_held_q <= job_valid_o && !job_ready_i;
      cpl_held_q <= cpl_valid_o && !cpl_ready_i;
      ref_held_q <= nak_valid_o && !nak_ready_i;
      job_was_q  <= {job_vi_o, job_slot_o, job_number_o};
      cpl_was_q  <= {cpl_vi_o, cpl_seq_o, cpl_status_o};
      ref_was_q  <= {nak_vi_o, nak_number_o, nak_code_o};

      if (quiet_q) begin
        assert (now() == was_q)
        else $error("send_ledger: a register changed after it said quiet");
      end
      led_clocks_q <= (led_valid_i && !led_ready_o) ? led_clocks_q + 7'd1 : 7'd0;
      rxl_clocks_q <= (rxl_valid_i && !rxl_ready_o) ? rxl_clocks_q + 8'd1 : 8'd0;
      assert (32'(led_clocks_q) <= TransmitBound)
      else $error("send_ledger: no response to the transmit engine after %0d clocks", led_clocks_q);
      assert (32'(rxl_clocks_q) <= ReceiveBound)
      else $error("send_ledger: no response to the receive engine after %0d clocks", rxl_clocks_q);
      assert (!(led_ready_o && !led_valid_i) && !(rxl_ready_o && !rxl_valid_i))
      else $error("send_ledger: a response without a request");
      assert (!(led_ready_o && led_go_o && led_op_i == 2'd1 && led_last_i))
      else $error("send_ledger: go on behind the last frame");
      assert (!(job_held_q && job_valid_o) || job_was_q == {job_vi_o, job_slot_o, job_number_o})
      else $error("send_ledger: a job changed before it was taken");
      assert (!cpl_held_q || (cpl_valid_o && cpl_was_q == {cpl_vi_o, cpl_seq_o, cpl_status_o}))
      else $error("send_ledger: a completion changed before it was taken");
      assert (!ref_held_q || (nak_valid_o && ref_was_q == {nak_vi_o, nak_number_o, nak_code_o}))
      else $error("send_ledger: a NAK changed before it was taken");
      assert (!async_valid_o || async_ready_i)
      else $error("send_ledger: an error that its taker has no place for");
      assert (!(led_ready_o && led_op_i == 2'd0 && req_full))
      else $error("send_ledger: a descriptor of VI %0d has no place", vi_q);
      assert (!(go && !running))
      else $error("send_ledger: VI %0d sends and is not connected, or broken", vi_q);
      if (done && write_record) begin
        assert (rings_ordered)
        else $error("send_ledger: a ring of VI %0d has lost its order", vi_q);
        assert (windows_ordered && ahead <= span && span <= 32'd255)
        else $error("send_ledger: the numbers of VI %0d have lost their order: %0d, %0d frames",
            vi_q, ahead, span);
      end
      // State at the start of a quiescent span.
      if (quiet_o && !quiet_q) was_q <= now();
    end
  end

endmodule

bind hvia_send_ledger hvia_send_ledger_checker u_checker (
    .*,
    .req_full(32'(req_count) > Messages),
    .rings_ordered((n.req_started - n.req_head) <= (n.req_tail - n.req_head) && req_count <=
        Messages[MessageBits:0] &&
                   (n.rsp_started - n.rsp_head) <= (n.rsp_tail - n.rsp_head) &&
                   (n.rsp_tail - n.rsp_head) <= Responses[ResponseBits:0]),
    .windows_ordered(n.moving <= n.window && (n.moving != 8'd0 || n.window == 8'd0) &&
        (n.top - n.una) <= {24'd0, n.window})
);
