// SPDX-License-Identifier: Apache-2.0

// Properties of `byte_packer`: the producer holds a waiting beat, and its bytes lie inside the
// beat; an output beat is stable until it is taken; its valid lanes are contiguous.

module hvia_byte_packer_checker #(
    parameter int unsigned W = 32
) (
    input logic                   clk_i,
    input logic                   rst_ni,
    input logic                   clear_i,
    input logic                   in_valid_i,
    input logic                   in_ready_o,
    input logic [$clog2(W/8)-1:0] in_offset_i,
    input logic [$clog2(W/8):0]   in_bytes_i,
    input logic                   in_last_i,
    input logic                   out_valid_o,
    input logic                   out_ready_i,
    input logic [W-1:0]           out_data_o,
    input logic [W/8-1:0]         out_strb_o,
    input logic [$clog2(W/8):0]   out_bytes_o,
    input logic                   out_last_o,
    input logic                   quiet_o,
    input logic [W-1:0]           hold_q
);

  localparam int unsigned LaneW = $clog2(W / 8);

  logic held_q, in_held_q, quiet_q;
  logic [W-1:0] lanes, data_q, last_hold_q;
  logic [W/8-1:0] strb_q;
  logic last_q, in_last_q;
  logic [LaneW-1:0] in_offset_q;
  logic [LaneW:0] in_bytes_q;

  always_comb begin
    for (int unsigned i = 0; i < W / 8; i++) lanes[8*i+:8] = {8{out_strb_o[i]}};
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      held_q    <= 1'b0;
      in_held_q <= 1'b0;
      quiet_q   <= 1'b0;
    end else begin
      held_q      <= out_valid_o && !out_ready_i && !clear_i;
      in_held_q   <= in_valid_i && !in_ready_o && !clear_i;
      quiet_q     <= quiet_o;
      data_q      <= out_data_o & lanes;
      strb_q      <= out_strb_o;
      last_q      <= out_last_o;
      in_offset_q <= in_offset_i;
      in_bytes_q  <= in_bytes_i;
      in_last_q   <= in_last_i;
      last_hold_q <= hold_q;
      if (held_q && !clear_i) begin
        assert (out_valid_o && (out_data_o & lanes) == data_q && out_strb_o == strb_q &&
                out_last_o == last_q)
        else $error("byte_packer: a beat changed or vanished before it was taken");
      end
      if (in_held_q && !clear_i) begin
        assert (in_valid_i && in_offset_i == in_offset_q && in_bytes_i == in_bytes_q &&
                in_last_i == in_last_q)
        else $error("byte_packer: the producer changed a beat that waits");
      end
      if (in_valid_i) begin
        assert (32'(in_offset_i) + 32'(in_bytes_i) <= W / 8)
        else $error("byte_packer: offset %0d and %0d bytes leave the beat", in_offset_i,
            in_bytes_i);
      end
      if (out_valid_o) begin
        assert ($countones(out_strb_o) == 32'(out_bytes_o))
        else $error("byte_packer: %0d bytes, lanes %b", out_bytes_o, out_strb_o);
      end
      if (quiet_q) begin
        assert (hold_q == last_hold_q)
        else $error("byte_packer: changed after it said quiet");
      end
    end
  end

endmodule

bind hvia_byte_packer hvia_byte_packer_checker #(.W(W)) u_checker (.*);
