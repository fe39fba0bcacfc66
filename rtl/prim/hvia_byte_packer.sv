// SPDX-License-Identifier: Apache-2.0

// Packs beats that carry any run of bytes: every beat of a packet except the first and the last is
// full, bytes keep their order, and the first byte leaves on lane `start_lane_i`. It joins gathered
// segments, header and payload into one stream and aligns a stream to host memory.
//
// Input: bytes `in_offset_i` to `in_offset_i + in_bytes_i - 1` of a beat are valid (0 bytes are
// legal). `in_last_i` ends the packet and flushes held bytes. `start_lane_i` must be stable while
// the first beat of a packet waits. Output: `out_strb_o` marks the valid lanes, `out_bytes_o`
// counts them. A last beat without bytes that finds no held bytes produces one beat without lanes.
// `clear_i` drops a partial packet.
//
// There is no register between input and output, so a full beat per clock passes. A last beat that
// overflows into a second output beat stalls the input for one clock.
module hvia_byte_packer #(
    parameter int unsigned W = 32
) (
    input  logic                         clk_i,
    input  logic                         rst_ni,
    input  logic                         clear_i,

    input  logic [$clog2(W/8)-1:0]       start_lane_i,
    input  logic                         in_valid_i,
    output logic                         in_ready_o,
    input  logic [W-1:0]                 in_data_i,
    input  logic [$clog2(W/8)-1:0]       in_offset_i,
    input  logic [$clog2(W/8):0]         in_bytes_i,
    input  logic                         in_last_i,

    output logic                         out_valid_o,
    input  logic                         out_ready_i,
    output logic [W-1:0]                 out_data_o,
    output logic [W/8-1:0]               out_strb_o,
    output logic [$clog2(W/8):0]         out_bytes_o,
    output logic                         out_last_o,

    output logic                         quiet_o
);

  localparam int unsigned Bytes = W / 8;
  localparam int unsigned LaneW = $clog2(Bytes);
  localparam logic [LaneW+1:0] Full = (LaneW+2)'(Bytes);

  // Held bytes occupy lanes 0 to fill - 1 of `hold_q`; lanes from `fill` on are zero. Lanes below
  // `skip` precede the packet's first byte and are not part of it.
  logic [W-1:0]     hold_q;
  logic [LaneW-1:0] fill_q, skip_q, fill, skip;
  logic             first_q, tail_q;

  logic [W-1:0]     keep, aligned;
  logic [2*W-1:0]   merged;
  logic [LaneW+1:0] sum;  // lanes in use with this beat, at most two beats
  logic             full, over, emit, take, give;

  assign fill = first_q ? start_lane_i : fill_q;
  assign skip = first_q ? start_lane_i : skip_q;

  assign keep    = ~({W{1'b1}} << {in_bytes_i, 3'b000});
  assign aligned = (in_data_i >> {in_offset_i, 3'b000}) & keep;
  assign merged  = ({{W{1'b0}}, aligned} << {fill, 3'b000}) | {{W{1'b0}}, hold_q};
  assign sum     = {2'b00, fill} + {1'b0, in_bytes_i};
  assign full    = sum >= Full;
  assign over    = sum > Full;
  assign emit    = full | in_last_i;

  assign in_ready_o  = ~tail_q & (out_ready_i | ~emit);
  assign out_valid_o = tail_q | (in_valid_i & emit);
  assign take        = in_valid_i & in_ready_o;
  assign give        = out_valid_o & out_ready_i;

  logic [LaneW:0]   out_end;  // lane after the last valid one
  logic [LaneW-1:0] out_skip;
  assign out_end     = tail_q ? {1'b0, fill_q} : (full ? Full[LaneW:0] : sum[LaneW:0]);
  assign out_skip    = tail_q ? '0 : skip;
  assign out_data_o  = tail_q ? hold_q : merged[W-1:0];
  assign out_strb_o  = ({Bytes{1'b1}} << out_skip) & ~({Bytes{1'b1}} << out_end);
  assign out_bytes_o = out_end - {1'b0, out_skip};
  assign out_last_o  = tail_q | (in_last_i & ~over);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      hold_q  <= '0;
      fill_q  <= '0;
      skip_q  <= '0;
      first_q <= 1'b1;
      tail_q  <= 1'b0;
    end else if (clear_i | (give & out_last_o)) begin
      hold_q  <= '0;
      fill_q  <= '0;
      skip_q  <= '0;
      first_q <= 1'b1;
      tail_q  <= 1'b0;
    end else if (take) begin
      // Modulo the beat width: lanes left over after a full beat.
      fill_q  <= sum[LaneW-1:0];
      hold_q  <= full ? merged[2*W-1:W] : merged[W-1:0];
      skip_q  <= full ? '0 : skip;
      first_q <= 1'b0;
      tail_q  <= in_last_i;
    end
  end

  assign quiet_o = ~in_valid_i & ~tail_q & ~clear_i;

endmodule
