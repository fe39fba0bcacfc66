// SPDX-License-Identifier: Apache-2.0

// The core's translation ports and the table's update port: arbitrates them in the core domain and
// carries one request at a time to `att_walker` in the SDRAM domain, and its response back.
//
// Priority: RX, TX, descriptor fetch, update. A requester that lost eight grants in a row is
// promoted above the others (same order among the promoted), so each waits at most eight plus three
// grants. A grant costs one walk.
//
// Update port: one operation at a time. `upd_arg_i` is the SDRAM byte address (write), the handle
// (invalidate) or the level-1 limit; a write takes `upd_count_i` dwords from the word stream.
// `upd_done_o` pulses when memory and every cache are up to date. `upd_error_o`: the address, count
// or limit is out of range (no word is taken), no valid entry has the handle, or host memory
// failed. After a failed write the table may be partly written; after a failed limit no handle is
// valid. Bursts of a write do not cross 32-byte boundaries, so the six words of a level-1 entry
// change at once for every translation.
//
// Reset: `rst_ni` and `sd_rst_ni` must be asserted together at some time, and may be released in
// any order. Afterwards the caches are empty and the level-1 limit is 0: every handle fails until
// the limit operation.
module hvia_att_manager (
    input  logic clk_i,
    input  logic rst_ni,
    output logic quiet_o,
    output logic ready_o,  // the table's memory is initialised

    // Translation ports, one per client: 0 descriptor fetch, 1 TX, 2 RX (AttClient).
    input  logic [     2:0] req_valid_i,
    output logic [     2:0] req_ready_o,
    input  logic [3*32-1:0] req_handle_i,
    input  logic [3*64-1:0] req_va_i,
    input  logic [3*32-1:0] req_len_i,
    input  logic [3*16-1:0] req_tag_i,
    input  logic [ 3*2-1:0] req_access_i,
    input  logic [3*hvia_params_pkg::VICountLog2-1:0] req_vi_i,
    output logic [     2:0] rsp_valid_o,
    output logic [     2:0] rsp_err_o,    // these three serve the client with rsp_valid_o
    output logic [    31:0] rsp_pa_o,
    output logic [    12:0] rsp_bytes_o,

    // Update port.
    input  logic        upd_valid_i,
    output logic        upd_ready_o,
    input  logic [ 1:0] upd_op_i,      // AttUpdate
    input  logic [31:0] upd_arg_i,
    input  logic [15:0] upd_count_i,
    input  logic        upd_wvalid_i,
    output logic        upd_wready_o,
    input  logic [31:0] upd_wdata_i,
    output logic        upd_done_o,
    output logic        upd_error_o,

    output logic stat_translate_o,
    output logic stat_level1_read_o,
    output logic stat_level2_read_o,
    output logic stat_error_o,
    output logic stat_invalidate_o,
    output logic stat_refresh_o,

    // SDRAM domain: memory port of the walker. The straps are static after reset.
    input  logic        sd_clk_i,
    input  logic        sd_rst_ni,
    output logic        sd_quiet_o,
    input  logic        no_overlap_i,  // strap NoAttOverlap: cache no level-1 entry
    input  logic        host_i,        // strap AttInHostMemory
    input  logic        mem_init_done_i,
    input  logic        mem_refresh_i,
    output logic        mem_req_valid_o,
    input  logic        mem_req_ready_i,
    output logic        mem_req_write_o,
    output logic [23:0] mem_req_addr_o,
    output logic [ 3:0] mem_req_len_o,
    output logic        mem_wvalid_o,
    input  logic        mem_wready_i,
    output logic [31:0] mem_wdata_o,
    input  logic        mem_werr_i,
    input  logic        mem_rvalid_i,
    input  logic [31:0] mem_rdata_i,
    input  logic        mem_rlast_i,
    input  logic        mem_rerr_i,
    output logic        mem_hint_valid_o,
    output logic [23:0] mem_hint_addr_o
);

  localparam int unsigned VIW = hvia_params_pkg::VICountLog2;
  localparam logic [3:0] Bound = 4'd8;  // grants lost in a row: twice the number of requesters
  localparam int unsigned Update = 3;   // requester index after the three clients

  // A request to the walker, and a response from it.
  localparam int unsigned RequestWidth = 1 + 2 + 2 + 32 + 64 + 32 + 16 + 2 + VIW;
  localparam int unsigned ResponseWidth = 1 + 2 + 3 + 32 + 13 + 2;

  // Update sequencer.
  typedef enum logic [1:0] {
    UpIdle,
    UpCollect,  // gathers the words of a burst before the crossing
    UpRequest,  // the operation or burst waits for its grant
    UpAnswer    // the walker has everything; wait for its response
  } up_state_e;
  up_state_e up_state_q, up_state_d;
  logic [1:0] up_op_q;
  logic [31:0] up_arg_q;
  logic [15:0] up_left_q;
  logic [3:0] up_fill_q;
  logic up_reject, up_rejected_q, up_take, word_push, burst_full;

  // Requests and grants.
  logic [3:0] request, urgent, pool, grant;
  logic [3:0] lost0_q, lost1_q, lost3_q;  // RX loses only to promoted requesters
  logic [3:0] lost2_q;
  logic granted, cross_valid, cross_ready;
  logic [RequestWidth-1:0] cross_req, walk_req;
  logic walk_valid, walk_ready;

  assign request = {up_state_q == UpRequest, req_valid_i};
  assign urgent  = request & {lost3_q == Bound, lost2_q == Bound, lost1_q == Bound,
      lost0_q == Bound};
  assign pool    = (urgent != 4'd0) ? urgent : request;

  always_comb begin
    grant = 4'd0;
    if (pool[hvia_pkg::AttClientReceive]) grant[hvia_pkg::AttClientReceive] = 1'b1;
    else if (pool[hvia_pkg::AttClientTransmit]) grant[hvia_pkg::AttClientTransmit] = 1'b1;
    else if (pool[hvia_pkg::AttClientDescriptor]) grant[hvia_pkg::AttClientDescriptor] = 1'b1;
    else if (pool[Update]) grant[Update] = 1'b1;
  end

  assign cross_valid = request != 4'd0;
  assign granted     = cross_valid && cross_ready;
  assign req_ready_o = grant[2:0] & {3{cross_ready}};

  always_comb begin
    unique case (1'b1)
      grant[2]:
      cross_req = {
        1'b0, 2'd0, hvia_pkg::AttClientReceive, req_handle_i[95:64], req_va_i[191:128],
        req_len_i[95:64], req_tag_i[47:32], req_access_i[5:4],
        req_vi_i[2*VIW+:VIW]
      };
      grant[1]:
      cross_req = {
        1'b0, 2'd0, hvia_pkg::AttClientTransmit, req_handle_i[63:32], req_va_i[127:64],
        req_len_i[63:32], req_tag_i[31:16], req_access_i[3:2],
        req_vi_i[VIW+:VIW]
      };
      grant[0]:
      cross_req = {
        1'b0, 2'd0, hvia_pkg::AttClientDescriptor, req_handle_i[31:0], req_va_i[63:0],
        req_len_i[31:0], req_tag_i[15:0], req_access_i[1:0],
        req_vi_i[0+:VIW]
      };
      default:
      cross_req = {
        1'b1, up_op_q, 2'd0,
        (up_op_q == hvia_pkg::AttUpdateWrite) ? {8'd0, up_arg_q[25:2]} : up_arg_q,
        64'd0, {28'd0, up_fill_q}, 16'd0, 2'd0, {{VIW-1{1'b0}}, up_left_q == 16'd0}
      };
    endcase
  end

  // Lost grants, counted while a requester waits, saturating at the bound.
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      lost0_q <= 4'd0;
      lost1_q <= 4'd0;
      lost2_q <= 4'd0;
      lost3_q <= 4'd0;
    end else if (granted) begin
      lost0_q <= (!request[0] || grant[0]) ? 4'd0 : (lost0_q == Bound) ? Bound : lost0_q + 4'd1;
      lost1_q <= (!request[1] || grant[1]) ? 4'd0 : (lost1_q == Bound) ? Bound : lost1_q + 4'd1;
      lost2_q <= (!request[2] || grant[2]) ? 4'd0 : (lost2_q == Bound) ? Bound : lost2_q + 4'd1;
      lost3_q <= (!request[3] || grant[3]) ? 4'd0 : (lost3_q == Bound) ? Bound : lost3_q + 4'd1;
    end
  end

  // Update operations.
  logic [32:0] write_end;
  assign write_end = {1'b0, upd_arg_i} + {15'd0, upd_count_i, 2'b00};
  always_comb begin
    unique case (upd_op_i)
      hvia_pkg::AttUpdateWrite:
      up_reject = (upd_arg_i[1:0] != 2'd0) || (upd_count_i == 16'd0) ||
          (write_end > {1'b0, hvia_pkg::AttSdramBytes});
      hvia_pkg::AttUpdateInvalidate: up_reject = 1'b0;
      hvia_pkg::AttUpdateLimit:      up_reject = upd_arg_i > hvia_pkg::AttLevel1Count;
      default:                       up_reject = 1'b1;
    endcase
  end

  logic rsp_valid, rsp_update;
  logic word_valid, word_ready, fifo_ready;
  logic [31:0] word_data;
  assign upd_ready_o  = (up_state_q == UpIdle) && !up_rejected_q;
  assign up_take      = upd_valid_i && upd_ready_o;
  assign upd_wready_o = (up_state_q == UpCollect) && !burst_full && fifo_ready;
  assign word_push    = upd_wvalid_i && upd_wready_o;
  // A burst ends with the last word or at a 32-byte boundary.
  assign burst_full   = (up_left_q == 16'd0) ||
      ((up_fill_q != 4'd0) && (up_arg_q[4:2] + up_fill_q[2:0] == 3'd0));

  always_comb begin
    up_state_d = up_state_q;
    unique case (up_state_q)
      UpIdle: begin
        if (up_take && !up_reject) begin
          up_state_d = (upd_op_i == hvia_pkg::AttUpdateWrite) ? UpCollect : UpRequest;
        end
      end
      UpCollect: if (burst_full) up_state_d = UpRequest;
      UpRequest: begin
        if (granted && grant[Update]) begin
          up_state_d = ((up_op_q == hvia_pkg::AttUpdateWrite) && (up_left_q != 16'd0)) ?
              UpCollect : UpAnswer;
        end
      end
      UpAnswer: if (rsp_valid && rsp_update) up_state_d = UpIdle;
      default: up_state_d = UpIdle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      up_state_q    <= UpIdle;
      up_op_q       <= 2'd0;
      up_arg_q      <= 32'd0;
      up_left_q     <= 16'd0;
      up_fill_q     <= 4'd0;
      up_rejected_q <= 1'b0;
    end else begin
      up_state_q    <= up_state_d;
      up_rejected_q <= up_take && up_reject;
      if (up_take) begin
        up_op_q   <= upd_op_i;
        up_arg_q  <= upd_arg_i;
        up_left_q <= (upd_op_i == hvia_pkg::AttUpdateWrite) ? upd_count_i : 16'd0;
        up_fill_q <= 4'd0;
      end else if (word_push) begin
        up_left_q <= up_left_q - 16'd1;
        up_fill_q <= up_fill_q + 4'd1;
      end else if (granted && grant[Update] && (up_op_q == hvia_pkg::AttUpdateWrite)) begin
        up_arg_q  <= up_arg_q + {26'd0, up_fill_q, 2'b00};
        up_fill_q <= 4'd0;
      end
    end
  end

  // Crossings. The word FIFO holds one granted burst and one that is being gathered. The reset of
  // either side clears them all.
  logic both_rst_n, cross_rst_n, cross_sd_rst_n, unused_live, unused_sd_live;
  assign both_rst_n = rst_ni & sd_rst_ni;
  hvia_cdc_reset_sync u_cross_reset (
      .clk_i, .arst_ni(both_rst_n), .rst_no(cross_rst_n), .live_o(unused_live)
  );
  hvia_cdc_reset_sync u_cross_sd_reset (
      .clk_i(sd_clk_i), .arst_ni(both_rst_n), .rst_no(cross_sd_rst_n), .live_o(unused_sd_live)
  );
  logic [3:0] src_quiet, dst_quiet;
  hvia_cdc_handshake #(.Width(RequestWidth), .Joined(1'b1)) u_request (
      .src_clk_i(clk_i), .src_rst_ni(cross_rst_n), .src_valid_i(cross_valid),
      .src_ready_o(cross_ready), .src_data_i(cross_req), .src_quiet_o(src_quiet[0]),
      .dst_clk_i(sd_clk_i), .dst_rst_ni(cross_sd_rst_n), .dst_valid_o(walk_valid),
      .dst_ready_i(walk_ready), .dst_data_o(walk_req), .dst_quiet_o(dst_quiet[0])
  );

  hvia_cdc_fifo #(.Width(32), .Depth(16), .Joined(1'b1)) u_words (
      .src_clk_i(clk_i), .src_rst_ni(cross_rst_n),
      .src_valid_i(upd_wvalid_i && (up_state_q == UpCollect) && !burst_full),
      .src_ready_o(fifo_ready), .src_data_i(upd_wdata_i), .src_quiet_o(src_quiet[1]),
      .dst_clk_i(sd_clk_i), .dst_rst_ni(cross_sd_rst_n), .dst_valid_o(word_valid),
      .dst_ready_i(word_ready), .dst_data_o(word_data), .dst_quiet_o(dst_quiet[1])
  );

  logic walk_rsp_valid, walk_rsp_ready;
  logic [ResponseWidth-1:0] walk_rsp, rsp;
  hvia_cdc_handshake #(.Width(ResponseWidth), .Joined(1'b1)) u_response (
      .src_clk_i(sd_clk_i), .src_rst_ni(cross_sd_rst_n), .src_valid_i(walk_rsp_valid),
      .src_ready_o(walk_rsp_ready), .src_data_i(walk_rsp), .src_quiet_o(dst_quiet[2]),
      .dst_clk_i(clk_i), .dst_rst_ni(cross_rst_n), .dst_valid_o(rsp_valid), .dst_ready_i(1'b1),
      .dst_data_o(rsp), .dst_quiet_o(src_quiet[2])
  );

  hvia_cdc_pulse u_refresh (
      .src_clk_i(sd_clk_i), .src_rst_ni(sd_rst_ni), .src_pulse_i(mem_refresh_i && mem_init_done_i),
      .src_quiet_o(dst_quiet[3]),
      .dst_clk_i(clk_i), .dst_rst_ni(rst_ni), .dst_pulse_o(stat_refresh_o),
      .dst_quiet_o(src_quiet[3])
  );

  logic ready_settled;
  hvia_cdc_sync #(.Width(1)) u_ready (
      .clk_i, .rst_ni, .d_i(mem_init_done_i), .q_o(ready_o), .settled_o(ready_settled)
  );

  logic walker_quiet, walk_update;
  logic [1:0] walk_op, walk_client, walk_access;
  logic [31:0] walk_handle, walk_len;
  logic [63:0] walk_va;
  logic [15:0] walk_tag;
  hvia_params_pkg::vi_t walk_vi;
  assign {walk_update, walk_op, walk_client, walk_handle, walk_va, walk_len, walk_tag, walk_access,
          walk_vi} = walk_req;

  logic wr_update, wr_level1, wr_level2;
  logic [1:0] wr_client;
  logic [2:0] wr_err;
  logic [31:0] wr_pa;
  logic [12:0] wr_bytes;
  assign walk_rsp = {wr_update, wr_client, wr_err, wr_pa, wr_bytes, wr_level1, wr_level2};

  hvia_att_walker u_walker (
      .clk_i(sd_clk_i), .rst_ni(sd_rst_ni), .quiet_o(walker_quiet), .forgetful_i(no_overlap_i),
      .host_i,
      .req_valid_i(walk_valid), .req_ready_o(walk_ready), .req_update_i(walk_update),
      .req_op_i(walk_op), .req_client_i(walk_client), .req_handle_i(walk_handle),
      .req_va_i(walk_va), .req_len_i(walk_len), .req_tag_i(walk_tag), .req_access_i(walk_access),
      .req_vi_i(walk_vi),
      .word_valid_i(word_valid), .word_ready_o(word_ready), .word_data_i(word_data),
      .rsp_valid_o(walk_rsp_valid), .rsp_ready_i(walk_rsp_ready), .rsp_update_o(wr_update),
      .rsp_client_o(wr_client), .rsp_err_o(wr_err), .rsp_pa_o(wr_pa), .rsp_bytes_o(wr_bytes),
      .rsp_level1_read_o(wr_level1), .rsp_level2_read_o(wr_level2),
      .mem_req_valid_o, .mem_req_ready_i, .mem_req_write_o, .mem_req_addr_o, .mem_req_len_o,
      .mem_wvalid_o, .mem_wready_i, .mem_wdata_o, .mem_werr_i, .mem_rvalid_i, .mem_rdata_i,
      .mem_rlast_i, .mem_rerr_i, .mem_hint_valid_o, .mem_hint_addr_o
  );

  // Responses to the ports.
  logic [1:0] rsp_client;
  logic rsp_level1, rsp_level2;
  assign {rsp_update, rsp_client, rsp_err_o, rsp_pa_o, rsp_bytes_o, rsp_level1, rsp_level2} = rsp;

  logic translated;
  assign translated = rsp_valid && !rsp_update;
  assign rsp_valid_o = {
    translated && (rsp_client == hvia_pkg::AttClientReceive),
    translated && (rsp_client == hvia_pkg::AttClientTransmit),
    translated && (rsp_client == hvia_pkg::AttClientDescriptor)
  };
  assign upd_done_o  = up_rejected_q || (rsp_valid && rsp_update);
  assign upd_error_o = up_rejected_q || (rsp_valid && rsp_update && (rsp_err_o != 3'd0));

  assign stat_translate_o   = translated;
  assign stat_level1_read_o = translated && rsp_level1;
  assign stat_level2_read_o = translated && rsp_level2;
  assign stat_error_o       = translated && (rsp_err_o != hvia_pkg::AttErrorNone);
  assign stat_invalidate_o  = upd_done_o && !upd_error_o &&
      (up_op_q == hvia_pkg::AttUpdateInvalidate);

  // An update that waits for words, its grant or its response is quiescent; the crossings and the
  // walker report when that changes.
  logic update_moving;
  assign update_moving = up_take || up_rejected_q || word_push ||
      ((up_state_q == UpCollect) && burst_full);
  assign quiet_o    = !granted && !update_moving && !rsp_valid && ready_settled && (&src_quiet);
  assign sd_quiet_o = walker_quiet && (&dst_quiet);

endmodule
