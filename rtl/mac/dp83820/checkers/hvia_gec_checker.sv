// SPDX-License-Identifier: Apache-2.0

// Properties of `gec`: no slot is handed out twice; no frame exceeds its slot; beats and lengths
// agree; no crossing overflows; no two events come in one clock; a quiescent side changes none of
// its registers.

module hvia_gec_checker #(
    parameter int unsigned AddrW = 9,
    parameter int unsigned Lanes = 4
) (
    input logic                 clk_i,
    input logic                 core_rst_n,
    input logic                 cut_tx_i,
    input logic                 single_tx_slot_i,
    input logic                 single_rx_slot_i,
    input logic                 tx_write,
    input logic                 tx_commit,
    input logic                 tx_wslot_q,
    input logic                 tx_wabort_i,
    input logic                 tx_wlast_i,
    input logic [AddrW-1:0]     tx_waddr_q,
    input logic [$clog2(Lanes):0] tx_wbytes_i,
    input logic [10:0]          tx_wlen_i,
    input logic [10:0]          tx_commit_len,
    input logic [1:0]           tx_busy_q,
    input logic                 tx_early_q,
    input logic                 tx_abort_q,
    input logic                 tx_free,
    input logic                 tx_event_slot,
    input logic                 rx_done_i,
    input logic                 rx_end_o,
    input logic                 unused_rx_free_ready,
    input logic                 rx_event_valid,
    input logic                 rx_arrive,
    input logic                 rx_event_slot,
    input logic [1:0]           rx_held_q,
    input logic [1:0]           rx_end_q,
    input logic [1:0]           rx_count_q,
    input logic [15:0]          rx_number_q,
    input logic                 quiet_o,
    input logic                 mac_clk_i,
    input logic                 mac_rst_n,
    input logic                 tx_first,
    input logic                 tx_final,
    input logic                 tx_sent,
    input logic                 tx_back,
    input logic                 tx_event_push,
    input logic                 unused_tx_event_ready,
    input logic                 rx_first,
    input logic                 rx_report,
    input logic                 rx_end,
    input logic                 rx_event_push,
    input logic                 unused_rx_event_ready,
    input logic                 rx_offered_q,
    input logic                 bus_error,
    input logic                 use_valid,
    input logic                 unused_use_ready,
    input logic                 tx_put,
    input logic                 tx_fill_q,
    input logic                 tx_next_q,
    input logic [1:0]           tx_own_q,
    input logic [1:0]           tx_taken_q,
    input logic                 tx_part_q,
    input logic                 tx_withdraw_q,
    input logic                 tx_overdue_q,
    input logic                 tx_take,
    input logic [1:0]           tx_drop_q,
    input logic [10:0]          tx_avail_q,
    input logic [1:0]           rx_full_q,
    input logic                 rx_next_q,
    input logic                 rx_dirty_q,
    input logic                 rx_due_q,
    input logic [11:0]          rx_fill_q,
    input logic                 rx_wait_q,
    input logic                 rx_free_valid,
    input logic                 rx_free_slot,
    input logic                 mac_quiet_o
);

  logic        quiet_q, mac_quiet_q;
  logic [31:0] now, was_q;
  logic [40:0] mac_now, mac_was_q;
  assign now = {tx_wslot_q, tx_busy_q, tx_early_q, tx_abort_q, rx_held_q, rx_end_q, rx_count_q,
      rx_number_q, 5'd0};
  assign mac_now = {tx_fill_q, tx_next_q, tx_own_q, tx_taken_q, tx_part_q, tx_withdraw_q,
      tx_avail_q, rx_full_q,
                    rx_next_q, rx_dirty_q, rx_due_q, rx_offered_q, rx_fill_q, rx_wait_q,
                        tx_overdue_q, tx_drop_q};

  always_ff @(posedge clk_i) begin
    if (!core_rst_n) begin
      quiet_q <= 1'b0;
    end else begin
      quiet_q <= quiet_o;
      was_q   <= now;
      if (quiet_q) begin
        assert (now == was_q) else $error("gec: the core side changed after it said quiet");
      end
      if (tx_write) begin
        assert (tx_waddr_q != '1 && (tx_wlast_i ? tx_wbytes_i != 0 &&
            {28'd0, 4'(tx_wbytes_i)} <= Lanes
                                                : {28'd0, 4'(tx_wbytes_i)} == Lanes))
        else $error("gec: transmit beat %0d with %0d bytes, last %b", tx_waddr_q, tx_wbytes_i,
            tx_wlast_i);
      end
      if (tx_commit) begin
        assert (tx_early_q == tx_busy_q[tx_wslot_q])
        else $error("gec: a frame was given to the MAC side without a slot");
        assert (tx_wlen_i == 11'd0 || !cut_tx_i || tx_wlen_i == tx_commit_len)
        else $error("gec: a frame announced with %0d bytes has %0d", tx_wlen_i, tx_commit_len);
        assert (!single_tx_slot_i || !tx_busy_q[~tx_wslot_q])
        else $error("gec: two transmit slots in use, with one allowed");
      end
      if (tx_free) begin
        assert (tx_busy_q[tx_event_slot])
        else $error("gec: a transmit slot came back that was not out");
      end
      if (rx_done_i) begin
        assert (unused_rx_free_ready) else $error("gec: a receive slot that was released was lost");
        assert (rx_count_q != 2'd0 && rx_end_o)
        else $error("gec: a receive slot was released that holds no finished frame");
      end
      if (rx_arrive) begin
        assert (rx_count_q != 2'd2)
        else $error("gec: a third frame in two slots");
      end
      if (rx_event_valid) begin
        assert (!rx_end_q[rx_event_slot])
        else $error("gec: an event of a receive slot that the engine still reads");
      end
      assert (!(tx_wabort_i && tx_abort_q))
      else $error("gec: a frame was aborted twice");
    end
  end

  always_ff @(posedge mac_clk_i) begin
    if (!mac_rst_n) begin
      mac_quiet_q <= 1'b0;
    end else begin
      mac_quiet_q <= mac_quiet_o;
      mac_was_q   <= mac_now;
      if (mac_quiet_q) begin
        assert (mac_now == mac_was_q) else $error("gec: the MAC side changed after it said quiet");
      end
      assert (!(tx_event_push && !unused_tx_event_ready) &&
          !(rx_event_push && !unused_rx_event_ready))
      else $error("gec: an event of a slot was lost");
      assert (!(use_valid && !unused_use_ready))
      else $error("gec: a trace event of the MAC bus was lost");
      assert ({2'b00, tx_first} + {2'b00, tx_final} + {2'b00, tx_sent} + {2'b00, tx_back} <= 3'd1)
      else $error("gec: two events of transmit slots in one clock");
      assert ({2'b00, rx_first} + {2'b00, rx_report} + {2'b00, rx_end} +
          {2'b00, bus_error && rx_offered_q} <= 3'd1)
      else $error("gec: two events of receive slots in one clock");
      if (tx_take) begin
        assert (!tx_first && !tx_final && !tx_sent && tx_drop_q == 2'd0)
        else $error("gec: slots are taken from a transmitter that moves");
      end
      if (tx_put) begin
        assert (!tx_own_q[tx_fill_q])
            else $error("gec: a frame was put into a slot that the chip owns");
      end
      if (rx_free_valid) begin
        assert (rx_full_q[rx_free_slot])
            else $error("gec: a receive slot came back that was not out");
      end
      assert (!(single_rx_slot_i && rx_full_q == 2'b11))
      else $error("gec: two receive slots in use, with one allowed");
    end
  end

endmodule

bind hvia_gec hvia_gec_checker #(.AddrW(AddrW), .Lanes(Lanes)) u_checker (.*);
