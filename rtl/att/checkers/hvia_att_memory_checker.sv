// SPDX-License-Identifier: Apache-2.0

// Properties of `att_memory`: without the strap it makes no bus request; a transfer stays inside
// its 32-byte block; crossings never overflow; a read returns the requested number of dwords;
// `quiet_o` is exact.
module hvia_att_memory_checker (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        quiet_o,
    input logic        host_i,
    input logic        req_valid_o,
    input logic [31:0] req_addr_o,
    input logic [9:0]  req_len_o,
    input logic        rvalid_i,
    input logic        fifo_ready,
    input logic        wdone_i,
    input logic        answer_ready,
    input logic        ask_valid,
    input logic        ask_write,
    input logic        sent_q,
    input logic        sent_all_q,
    input logic [2:0]  bus_beat_q,

    input logic        sd_clk_i,
    input logic        sd_rst_ni,
    input logic        sd_quiet_o,
    input logic [1:0]  state_q,
    input logic [3:0]  count_q,
    input logic [3:0]  left_q,
    input logic        beat_valid,
    input logic        beat_take,
    input logic        beat_last,
    input logic        read_last,
    input logic        answer_valid
);

  logic       quiet_q;
  logic [4:0] seen_q;
  logic [10:0] block_end;
  assign block_end = {6'd0, req_addr_o[4:0]} + {1'b0, req_len_o};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) quiet_q <= 1'b0;
    else begin
      quiet_q <= quiet_o;
      seen_q  <= {sent_q, sent_all_q, bus_beat_q};
      if (quiet_q) begin
        assert (seen_q == {sent_q, sent_all_q, bus_beat_q})
        else $error("att_memory: changed after it said quiet");
      end
      if (req_valid_o) begin
        assert (host_i)
        else $error("att_memory: the bus is asked, but the table lies in the SDRAM");
        assert ((req_len_o != 10'd0) && (block_end <= 11'd32))
        else $error("att_memory: %0d bytes at %08x leave their block", req_len_o, req_addr_o);
      end
      assert (!rvalid_i || fifo_ready)
      else $error("att_memory: no space for a beat");
      assert (!wdone_i || (answer_ready && ask_valid && ask_write && sent_q && sent_all_q))
      else $error("att_memory: a write ended that is not under way");
    end
  end

  logic       sd_quiet_q;
  logic [5:0] sd_seen_q;
  always_ff @(posedge sd_clk_i) begin
    if (!sd_rst_ni) sd_quiet_q <= 1'b0;
    else begin
      sd_quiet_q <= sd_quiet_o;
      sd_seen_q  <= {state_q, count_q};
      if (sd_quiet_q) begin
        assert (sd_seen_q == {state_q, count_q})
        else $error("att_memory: changed in the SDRAM domain after it said quiet");
      end
      if (beat_valid) begin
        assert ((state_q == 2'd1) && (left_q != 4'd0))
        else $error("att_memory: read data that nobody waits for");
        assert (!beat_take || (beat_last == read_last))
        else $error("att_memory: the bus counts other beats");
      end
      assert (!answer_valid || (state_q == 2'd2))
      else $error("att_memory: a response to no write");
    end
  end

endmodule

bind hvia_att_memory hvia_att_memory_checker u_checker (.*);
