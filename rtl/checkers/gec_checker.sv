// SPDX-License-Identifier: Apache-2.0

// Checks of every gec: no slot is handed out twice, no frame grows past its slot, the MAC stream does
// not change a beat that waits, and nothing that must cross is refused by its crossing.

module gec_checker #(
    parameter int unsigned AddrW = 9
) (
    input logic             clk_i,
    input logic             core_rst_n,
    input logic             tx_write,
    input logic             tx_commit,
    input logic             tx_cmd_ready,
    input logic             tx_free,
    input logic [AddrW-1:0] tx_waddr_q,
    input logic [1:0]       tx_used_q,
    input logic [2:0]       tx_wbytes_i,
    input logic             tx_wlast_i,
    input logic             rx_done_i,
    input logic             rx_arrive,
    input logic             unused_free_ready,
    input logic [1:0]       rx_count_q,
    input logic             mac_clk_i,
    input logic             mac_rst_n,
    input logic             mac_tx_valid_o,
    input logic             mac_tx_ready_i,
    input logic [31:0]      mac_tx_data_o,
    input logic [2:0]       mac_tx_bytes_o,
    input logic             mac_tx_last_o,
    input logic             rx_good,
    input logic [1:0]       rx_used_q
);

  always_ff @(posedge clk_i or negedge core_rst_n) begin
    if (core_rst_n) begin
      if (tx_write) begin
        assert (tx_waddr_q != '1 && (tx_wlast_i ? tx_wbytes_i >= 3'd1 && tx_wbytes_i <= 3'd4
                                                : tx_wbytes_i == 3'd4))
        else $error("gec: transmit beat %0d with %0d bytes, last %b", tx_waddr_q, tx_wbytes_i, tx_wlast_i);
      end
      if (tx_commit) begin
        assert (tx_cmd_ready && tx_used_q < 2'd2)
        else $error("gec: a frame was given to the MAC side without a slot");
      end
      if (tx_free) begin
        assert (tx_used_q != 2'd0)
        else $error("gec: a transmit slot came back that was not out");
      end
      if (rx_done_i) begin
        assert (rx_count_q != 2'd0 && unused_free_ready)
        else $error("gec: a receive slot was released that holds no frame");
      end
      if (rx_arrive) begin
        assert (rx_count_q != 2'd2)
        else $error("gec: a third frame in two slots");
      end
    end
  end

  logic held_q;
  logic [35:0] beat_q;
  always_ff @(posedge mac_clk_i or negedge mac_rst_n) begin
    if (!mac_rst_n) begin
      held_q <= 1'b0;
    end else begin
      held_q <= mac_tx_valid_o && !mac_tx_ready_i;
      beat_q <= {mac_tx_data_o, mac_tx_bytes_o, mac_tx_last_o};
      if (held_q) begin
        assert (mac_tx_valid_o && beat_q == {mac_tx_data_o, mac_tx_bytes_o, mac_tx_last_o})
        else $error("gec: a beat to the MAC changed or vanished before it was taken");
      end
      if (rx_good) begin
        assert (rx_used_q < 2'd2)
        else $error("gec: a received frame was given to the core side without a slot");
      end
    end
  end

endmodule

bind gec gec_checker #(.AddrW(AddrW)) u_checker (.*);
