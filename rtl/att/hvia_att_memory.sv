// SPDX-License-Identifier: Apache-2.0

// The memory behind `att_walker`: the SDRAM, or with `host_i` a part of host memory, where each
// access costs a bus transaction. The strap is static after reset. With the SDRAM this is wires
// only.
//
// Host memory: level 1 lies at `level1_i`, level 2 at `level2_i`, both page aligned and set before
// the table is used. A request crosses to the core's domain with its words and becomes one transfer
// inside its 32-byte block. A write gathers its words here before it requests the bus: they may
// come over the same bus, and the transfer must not wait for them. A write is accepted
// (`mem_req_ready_o`) when it is in memory, so the next read sees it. Read data crosses back beat
// by beat. A bus error ends a read with `mem_rerr_o`, a write with `mem_werr_o`.
module hvia_att_memory #(
    parameter int unsigned W = 32  // host bus
) (
    input  logic           clk_i,
    input  logic           rst_ni,
    output logic           quiet_o,
    input  logic [31:0]    level1_i,
    input  logic [31:0]    level2_i,

    // Host bus.
    output logic           req_valid_o,
    input  logic           req_ready_i,
    output logic           req_write_o,
    output logic [31:0]    req_addr_o,
    output logic [9:0]     req_len_o,
    output logic [W-1:0]   wdata_o,
    output logic [W/8-1:0] wstrb_o,
    output logic           wvalid_o,
    input  logic           wready_i,
    input  logic           wdone_i,
    input  logic           werr_i,
    input  logic [W-1:0]   rdata_i,
    input  logic           rvalid_i,
    output logic           rready_o,
    input  logic           rlast_i,
    input  logic           rerr_i,

    // SDRAM domain: the walker.
    input  logic           sd_clk_i,
    input  logic           sd_rst_ni,
    output logic           sd_quiet_o,
    input  logic           host_i,  // strap AttInHostMemory
    input  logic           mem_req_valid_i,
    output logic           mem_req_ready_o,
    input  logic           mem_req_write_i,
    input  logic [23:0]    mem_req_addr_i,
    input  logic [3:0]     mem_req_len_i,
    input  logic           mem_wvalid_i,
    output logic           mem_wready_o,
    input  logic [31:0]    mem_wdata_i,
    output logic           mem_werr_o,
    output logic           mem_rvalid_o,
    output logic [31:0]    mem_rdata_o,
    output logic           mem_rlast_o,
    output logic           mem_rerr_o,
    input  logic           mem_hint_valid_i,

    // SDRAM domain: the controller. Address, length, words and the hint's address bypass this
    // module.
    output logic           sdram_req_valid_o,
    input  logic           sdram_req_ready_i,
    output logic           sdram_wvalid_o,
    input  logic           sdram_wready_i,
    input  logic           sdram_rvalid_i,
    input  logic [31:0]    sdram_rdata_i,
    input  logic           sdram_rlast_i,
    output logic           sdram_hint_valid_o
);

  localparam int unsigned BlockWords = 8;  // of 32 bytes
  localparam int unsigned Lanes      = W / 32;
  localparam int unsigned LaneW      = $clog2(Lanes);
  localparam int unsigned RequestW   = 1 + 24 + 4 + 32 * BlockWords;

  // --------------------------------------------------------------------------------------------
  // SDRAM domain
  // --------------------------------------------------------------------------------------------
  typedef enum logic [1:0] {
    StIdle,
    StRead,
    StWrite  // its words crossed to the other side
  } state_e;
  state_e state_q, state_d;

  logic              cross_valid, cross_ready, cross_take, word_take;
  logic [3:0]        count_q;  // words of a write that are here
  logic [32*BlockWords-1:0] words_q;
  logic [2:0]        word_place;
  logic              host_req, host_read, words_in;
  logic [3:0]        left_q;   // dwords of a read still to come
  logic              beat_valid, beat_take, beat_last, beat_err, read_last;
  logic [W-1:0]      beat_data;
  logic [31:0]       beat_word;
  logic              answer_valid, answer_take, answer_err;

  assign host_req    = host_i & mem_req_valid_i & (state_q == StIdle);
  assign host_read   = host_req & ~mem_req_write_i;
  assign words_in    = count_q == mem_req_len_i;
  assign word_take   = host_req & mem_req_write_i & ~words_in & mem_wvalid_i;
  assign word_place  = mem_req_addr_i[2:0] + count_q[2:0];
  assign cross_valid = host_read | (host_req & mem_req_write_i & words_in);
  assign cross_take  = cross_valid & cross_ready;

  assign answer_take = (state_q == StWrite) & answer_valid;
  assign read_last   = (left_q == 4'd1) | (beat_last & beat_err);

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      StIdle:  if (cross_take) state_d = mem_req_write_i ? StWrite : StRead;
      StRead:  if (beat_valid & read_last) state_d = StIdle;
      StWrite: if (answer_valid) state_d = StIdle;
      default: state_d = StIdle;
    endcase
  end

  always_ff @(posedge sd_clk_i) begin
    if (!sd_rst_ni) begin
      state_q <= StIdle;
      count_q <= 4'd0;
    end else begin
      state_q <= state_d;
      if (cross_take) count_q <= 4'd0;
      else if (word_take) count_q <= count_q + 4'd1;
    end
  end

  always_ff @(posedge sd_clk_i) begin
    if (word_take) words_q[32*word_place +: 32] <= mem_wdata_i;
    if (cross_take) left_q <= mem_req_len_i;
    else if (beat_valid) left_q <= left_q - 4'd1;
  end

  // Dwords of a beat.
  if (Lanes > 1) begin : g_lanes
    logic [LaneW-1:0] lane_q;
    assign beat_word = beat_data[32*lane_q +: 32];
    assign beat_take = beat_valid & ((&lane_q) | read_last);
    always_ff @(posedge sd_clk_i) begin
      if (cross_take) lane_q <= mem_req_addr_i[LaneW-1:0];
      else if (beat_valid) lane_q <= lane_q + 1'b1;
    end
  end else begin : g_lane
    assign beat_word = beat_data;
    assign beat_take = beat_valid;
  end

  assign mem_req_ready_o = host_i ? (host_read & cross_ready) | answer_take : sdram_req_ready_i;
  assign mem_wready_o    = host_i ? word_take : sdram_wready_i;
  assign mem_werr_o      = host_i & answer_err;
  assign mem_rvalid_o    = host_i ? beat_valid : sdram_rvalid_i;
  assign mem_rdata_o     = host_i ? beat_word : sdram_rdata_i;
  assign mem_rlast_o     = host_i ? read_last : sdram_rlast_i;
  assign mem_rerr_o      = host_i & beat_last & beat_err;

  assign sdram_req_valid_o  = mem_req_valid_i & ~host_i;
  assign sdram_wvalid_o     = mem_wvalid_i & ~host_i;
  assign sdram_hint_valid_o = mem_hint_valid_i & ~host_i;

  // --------------------------------------------------------------------------------------------
  // Crossings
  // --------------------------------------------------------------------------------------------
  logic [2:0]          core_quiet, sd_quiet;
  logic                ask_valid, ask_take, ask_write;
  logic [23:0]         ask_addr;
  logic [3:0]          ask_len;
  logic [32*BlockWords-1:0] ask_words;
  logic                answer_ready, fifo_ready;

  // The reset of either side clears the crossings.
  logic both_rst_n, cross_rst_n, cross_sd_rst_n, unused_live, unused_sd_live;
  assign both_rst_n = rst_ni & sd_rst_ni;
  hvia_cdc_reset_sync u_cross_reset (
      .clk_i, .arst_ni(both_rst_n), .rst_no(cross_rst_n), .live_o(unused_live)
  );
  hvia_cdc_reset_sync u_cross_sd_reset (
      .clk_i(sd_clk_i), .arst_ni(both_rst_n), .rst_no(cross_sd_rst_n), .live_o(unused_sd_live)
  );
  hvia_cdc_handshake #(.Width(RequestW), .Joined(1'b1)) u_request (
      .src_clk_i(sd_clk_i), .src_rst_ni(cross_sd_rst_n), .src_valid_i(cross_valid),
      .src_ready_o(cross_ready),
      .src_data_i({mem_req_write_i, mem_req_addr_i, mem_req_len_i, words_q}),
      .src_quiet_o(sd_quiet[0]),
      .dst_clk_i(clk_i), .dst_rst_ni(cross_rst_n), .dst_valid_o(ask_valid), .dst_ready_i(ask_take),
      .dst_data_o({ask_write, ask_addr, ask_len, ask_words}), .dst_quiet_o(core_quiet[0])
  );

  hvia_cdc_handshake #(.Width(1), .Joined(1'b1)) u_answer (
      .src_clk_i(clk_i), .src_rst_ni(cross_rst_n), .src_valid_i(wdone_i),
      .src_ready_o(answer_ready), .src_data_i(werr_i), .src_quiet_o(core_quiet[1]),
      .dst_clk_i(sd_clk_i), .dst_rst_ni(cross_sd_rst_n), .dst_valid_o(answer_valid),
      .dst_ready_i(state_q == StWrite), .dst_data_o(answer_err), .dst_quiet_o(sd_quiet[1])
  );

  // Capacity for the longest read.
  hvia_cdc_fifo #(.Width(W + 2), .Depth(BlockWords), .Joined(1'b1)) u_beats (
      .src_clk_i(clk_i), .src_rst_ni(cross_rst_n), .src_valid_i(rvalid_i), .src_ready_o(fifo_ready),
      .src_data_i({rerr_i, rlast_i, rdata_i}), .src_quiet_o(core_quiet[2]),
      .dst_clk_i(sd_clk_i), .dst_rst_ni(cross_sd_rst_n), .dst_valid_o(beat_valid),
      .dst_ready_i(beat_take), .dst_data_o({beat_err, beat_last, beat_data}),
      .dst_quiet_o(sd_quiet[2])
  );

  // --------------------------------------------------------------------------------------------
  // Core domain
  // --------------------------------------------------------------------------------------------
  logic       sent_q, sent_all_q, beat_sent;
  logic [2:0] first_word, last_word, bus_beat_q;
  logic [2:0] bus_beat, last_beat;

  assign first_word  = ask_addr[2:0];
  assign last_word   = ask_addr[2:0] + ask_len[2:0] - 3'd1;
  assign req_valid_o = ask_valid & ~sent_q;
  assign req_write_o = ask_write;
  assign req_addr_o  = (ask_addr[23] ? level2_i : level1_i) + {7'd0, ask_addr[22:0], 2'b00};
  assign req_len_o   = {4'd0, ask_len, 2'b00};
  assign rready_o    = fifo_ready;
  // A read leaves when the bus takes it, a write when it is done.
  assign ask_take    = ask_write ? wdone_i : req_valid_o & req_ready_i;

  // Beats of a write.
  assign bus_beat  = first_word / 3'(Lanes) + bus_beat_q;
  assign last_beat = last_word / 3'(Lanes);
  assign wvalid_o  = ask_valid & ask_write & ~sent_all_q;
  assign beat_sent = wvalid_o & wready_i;
  assign wdata_o   = ask_words[W*bus_beat +: W];
  always_comb begin
    for (int unsigned lane = 0; lane < Lanes; lane++) begin
      wstrb_o[4*lane +: 4] = {4{(bus_beat * 3'(Lanes) + 3'(lane) >= first_word) &
                                (bus_beat * 3'(Lanes) + 3'(lane) <= last_word)}};
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      sent_q     <= 1'b0;
      sent_all_q <= 1'b0;
      bus_beat_q <= 3'd0;
    end else begin
      if (ask_take) sent_q <= 1'b0;
      else if (req_valid_o & req_ready_i) sent_q <= 1'b1;
      if (ask_take) sent_all_q <= 1'b0;
      else if (beat_sent & (bus_beat == last_beat)) sent_all_q <= 1'b1;
      if (ask_take) bus_beat_q <= 3'd0;
      else if (beat_sent) bus_beat_q <= bus_beat_q + 3'd1;
    end
  end

  logic unused;
  assign unused = answer_ready;

  // Waiting for the bus is quiescent.
  assign quiet_o    = (&core_quiet) & ~(req_valid_o & req_ready_i) & ~beat_sent;
  assign sd_quiet_o = (&sd_quiet) & ~word_take & ~beat_valid;

endmodule
