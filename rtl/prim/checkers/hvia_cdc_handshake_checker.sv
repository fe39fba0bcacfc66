// SPDX-License-Identifier: Apache-2.0

// Properties of `cdc_handshake`: a word is stable until it is taken; a quiescent side changes no
// toggle at its next clock.

module hvia_cdc_handshake_checker #(
    parameter int unsigned Width = 32
) (
    input logic             src_clk_i,
    input logic             src_rst_n,
    input logic             src_valid_i,
    input logic             src_ready_o,
    input logic             src_quiet_o,
    input logic             req_q,
    input logic             ack_sync,
    input logic             dst_clk_i,
    input logic             dst_rst_n,
    input logic             dst_valid_o,
    input logic             dst_ready_i,
    input logic [Width-1:0] dst_data_o,
    input logic             dst_quiet_o,
    input logic             ack_q,
    input logic             req_sync
);

  logic src_quiet_q;
  logic [1:0] src_state_q;
  always_ff @(posedge src_clk_i) begin
    if (!src_rst_n) begin
      src_quiet_q <= 1'b0;
      src_state_q <= 2'b00;
    end else begin
      src_quiet_q <= src_quiet_o;
      src_state_q <= {req_q, ack_sync};
      if (src_quiet_q) begin
        assert ({req_q, ack_sync} == src_state_q)
        else $error("cdc_handshake: the source side changed after it said quiet");
      end
      assert (!(src_valid_i && src_ready_o && src_quiet_o))
      else $error("cdc_handshake: the source side is quiet while it takes a word");
    end
  end

  logic dst_quiet_q, held_q;
  logic [1:0] dst_state_q;
  logic [Width-1:0] data_q;
  always_ff @(posedge dst_clk_i) begin
    if (!dst_rst_n) begin
      dst_quiet_q <= 1'b0;
      held_q      <= 1'b0;
      dst_state_q <= 2'b00;
    end else begin
      dst_quiet_q <= dst_quiet_o;
      dst_state_q <= {req_sync, ack_q};
      held_q      <= dst_valid_o && !dst_ready_i;
      if (dst_valid_o) data_q <= dst_data_o;
      if (dst_quiet_q) begin
        assert ({req_sync, ack_q} == dst_state_q)
        else $error("cdc_handshake: the destination side changed after it said quiet");
      end
      if (held_q) begin
        assert (dst_valid_o && (dst_data_o == data_q))
        else $error("cdc_handshake: a word changed or vanished before it was taken");
      end
    end
  end

endmodule

bind hvia_cdc_handshake hvia_cdc_handshake_checker #(.Width(Width)) u_checker (.*);
