// SPDX-License-Identifier: Apache-2.0

// Walks the two-level address translation table: one request at a time, in order, so that a
// translation sees all or nothing of an update.
//
// Cached level-1 entries lie in one RAM: a line per VI for the descriptor client, one line each for
// TX and RX. The tag of a line is the whole handle, so an entry rewritten under another generation
// never hits. An invalidation first clears the valid bit in memory, so later walks do not cache the
// entry, then scans the lines in the background; during the scan, hits on the handle count as
// misses. It is done after the scan.
//
// The memory port has requests, write beats, read beats, an error with the last beat or with the
// end of a write, and a row hint that the memory may ignore. Behind it is the SDRAM, or with
// `host_i` host memory (`att_memory`). Any SDRAM address may be read, so the level-2 read overlaps
// the checks. Host memory is read only at an address that passed the checks.
//
// Every entry is checked before use: limit, valid bit, generation, consistent fields, then tag,
// right and bounds.
module hvia_att_walker (
    input  logic clk_i,
    input  logic rst_ni,
    output logic quiet_o,
    // Straps, static after reset: cache nothing; the table is in host memory.
    input  logic forgetful_i,
    input  logic host_i,

    // Request: a translation (client, handle, va, len, tag, access, vi), or an update by `op`
    //   write:      handle = dword address, len = dwords (1..8), vi[0] = last of its update
    //   invalidate: handle
    //   limit:      handle = limit
    input  logic        req_valid_i,
    output logic        req_ready_o,
    input  logic        req_update_i,
    input  logic [ 1:0] req_op_i,
    input  logic [ 1:0] req_client_i,
    input  logic [31:0] req_handle_i,
    input  logic [63:0] req_va_i,
    input  logic [31:0] req_len_i,
    input  logic [15:0] req_tag_i,
    input  logic [ 1:0] req_access_i,
    input  hvia_params_pkg::vi_t req_vi_i,

    // Words for write requests.
    input  logic        word_valid_i,
    output logic        word_ready_o,
    input  logic [31:0] word_data_i,

    // One response per translation, one per completed update.
    output logic        rsp_valid_o,
    input  logic        rsp_ready_i,
    output logic        rsp_update_o,
    output logic [ 1:0] rsp_client_o,
    output logic [ 2:0] rsp_err_o,
    output logic [31:0] rsp_pa_o,
    output logic [12:0] rsp_bytes_o,
    output logic        rsp_level1_read_o,
    output logic        rsp_level2_read_o,

    output logic        mem_req_valid_o,
    input  logic        mem_req_ready_i,
    output logic        mem_req_write_o,
    output logic [23:0] mem_req_addr_o,
    output logic [ 3:0] mem_req_len_o,
    output logic        mem_wvalid_o,
    input  logic        mem_wready_i,
    output logic [31:0] mem_wdata_o,
    input  logic        mem_werr_i,  // with mem_req_ready_i of a write: nothing was written
    input  logic        mem_rvalid_i,
    input  logic [31:0] mem_rdata_i,
    input  logic        mem_rlast_i,
    input  logic        mem_rerr_i,
    output logic        mem_hint_valid_o,
    output logic [23:0] mem_hint_addr_o
);

  localparam int unsigned ViBits = hvia_params_pkg::VICountLog2;
  localparam int unsigned LineBits = ViBits + 1;
  localparam int unsigned Lines = hvia_params_pkg::VICount + 2;
  localparam logic [LineBits-1:0] LastLine = LineBits'(Lines - 1);

  localparam int unsigned IndexBits = hvia_pkg::AttHandleValueIndexWidth;
  localparam int unsigned GenLsb = hvia_pkg::AttHandleValueGenerationLsb;
  localparam int unsigned AttrGenLsb = hvia_pkg::AttLevel1AttributesGenerationLsb;
  localparam int unsigned GenBits = hvia_pkg::AttHandleValueGenerationWidth;
  localparam int unsigned AttrTagLsb = hvia_pkg::AttLevel1AttributesTagLsb;
  localparam int unsigned ValidBit = hvia_pkg::AttLevel1AttributesValidBit;
  localparam int unsigned WriteBit = hvia_pkg::AttLevel1AttributesRDMAWriteBit;
  localparam int unsigned ReadBit = hvia_pkg::AttLevel1AttributesRDMAReadBit;

  // Words of a level-1 entry, in the order of the burst.
  localparam logic [2:0] WordStartLow = 3'(hvia_pkg::AttLevel1StartAddressOffset / 4);
  localparam logic [2:0] WordStartHigh = WordStartLow + 3'd1;
  localparam logic [2:0] WordLevel2 = 3'(hvia_pkg::AttLevel1Level2AddressOffset / 4);
  localparam logic [2:0] WordPages = 3'(hvia_pkg::AttLevel1PageCountOffset / 4);
  localparam logic [2:0] WordBytes = 3'(hvia_pkg::AttLevel1FirstBytesOffset / 4);
  localparam logic [2:0] WordAttributes = 3'(hvia_pkg::AttLevel1AttributesOffset / 4);
  localparam logic [3:0] EntryWords = 4'(hvia_pkg::AttLevel1Size / 4);
  localparam logic [24:0] Level2Entries = 25'(hvia_pkg::AttLevel2Count);

  function automatic logic [23:0] entry_addr(input logic [IndexBits-1:0] index,
                                             input logic [2:0] word);
    entry_addr = {1'b0, index, word};
  endfunction

  typedef enum logic [3:0] {
    StForget,      // clear every cache line
    StIdle,
    StLookup,      // the RAM outputs the cache line
    StLevel1,      // read the level-1 entry
    StCalc,        // hit: offset relative to the first page
    StAddress,     // hit: address of the level-2 entry
    StLevel2,      // checks, and the read of the level-2 entry
    StRespond,
    StWrite,
    StInvalidateRead,
    StInvalidateWrite,
    StClear        // limit: clear the valid bits
  } state_e;
  state_e state_q, state_d;

  // The request, copied to free the crossing.
  logic [1:0] client_q, access_q;
  logic [31:0] handle_q, len_q;
  logic [63:0] va_q;
  logic [15:0] tag_q;
  hvia_params_pkg::vi_t vi_q;
  logic take;

  logic [IndexBits:0] limit_q;
  logic [IndexBits-1:0] index;
  logic index_ok;
  assign index    = handle_q[IndexBits-1:0];
  assign index_ok = {1'b0, index} < limit_q;

  // Cache of level-1 entries.
  typedef struct packed {
    logic        valid;
    logic [31:0] handle;
    logic [63:0] start;
    logic [23:0] level2;      // dword address
    logic [23:0] pages;
    logic [12:0] first_bytes;
    logic [12:0] last_bytes;
    logic        rdma_write;
    logic        rdma_read;
    logic [15:0] tag;
  } line_t;
  line_t line, line_d;
  logic [$bits(line)-1:0] cache[0:Lines-1];  // a memory of structs is one register in Yosys
  logic cache_re, cache_we;
  logic [LineBits-1:0] cache_raddr, cache_waddr, own_line, req_line;

  function automatic logic [LineBits-1:0] line_of(input logic [1:0] client,
      input hvia_params_pkg::vi_t vi);
    if (client == hvia_pkg::AttClientDescriptor) line_of = LineBits'(vi);
    else line_of = {1'b1, {(LineBits - 2) {1'b0}}, client == hvia_pkg::AttClientReceive};
  endfunction

  always_ff @(posedge clk_i) begin
    if (cache_we) cache[cache_waddr] <= line_d;
    if (cache_re) line <= cache[cache_raddr];
  end

  // Scan for cached copies of an invalidated handle.
  logic scan_q, scan_read, scan_b_q, scan_match, install;
  logic [LineBits-1:0] scan_ptr_q, scan_b_ptr_q;
  logic scan_last_q;  // every line was read
  logic [31:0] inv_handle_q;
  logic update_done_q, update_err_q;
  logic werr_q;  // a write of the present update failed

  assign scan_read  = scan_q && !scan_last_q && !take;
  assign scan_match = scan_q && scan_b_q && line.valid && (line.handle == inv_handle_q);

  // The present entry.
  logic [63:0] start_q;
  logic [31:0] level2_q, pages_q;
  logic [15:0] first_q, last_q;
  logic [31:0] attr_q;
  logic [63:0] off_q;
  logic off_borrow_q;
  logic [35:0] rem_q;  // offset relative to the first page
  logic rem_borrow_q;  // the access starts in the first page
  logic [23:0] l2_addr_q, page_q;
  logic hit_q, rerr_q;
  logic [2:0] beat_q;
  logic req_done_q;

  logic hit;
  assign hit = line.valid && (line.handle == handle_q) &&
      !(scan_q && (handle_q == inv_handle_q));

  logic [32:0] off_low;
  logic [32:0] off_high;
  assign off_low  = {1'b0, va_q[31:0]} - {1'b0, mem_rdata_i};
  assign off_high = {1'b0, va_q[63:32]} - {1'b0, mem_rdata_i} - {32'd0, off_borrow_q};

  logic [64:0] off_hit;
  assign off_hit = {1'b0, va_q} - {1'b0, line.start};

  // Offsets of 2^36 and more are out of bounds in any region; such a walk reads some level-2 entry
  // and does not use it.
  logic [36:0] rem_d;
  logic [15:0] first_now;
  assign first_now = (state_q == StLevel1) ? mem_rdata_i[15:0] : first_q;
  assign rem_d     = {1'b0, off_q[35:0]} - {21'd0, first_now};

  logic [23:0] page_d;
  assign page_d = rem_borrow_q ? 24'd0 : rem_q[35:12] + 24'd1;

  // Checks take three clocks; a level-2 read takes longer.
  logic [3:0] step_q;  // clocks since StLevel2 was entered, one-hot, stays at the last
  logic corrupt_q, entry_ok, right_ok;
  logic [35:0] length_q, space_q;
  logic space_borrow_q, bounds_bad_q;
  logic [12:0] bytes_q, inpage_q;
  logic need_l2, got_l2_q, l2_err_q;
  logic [31:0] l2_q;

  assign entry_ok = attr_q[ValidBit] && (attr_q[AttrGenLsb+:GenBits] == handle_q[GenLsb+:GenBits]);
  assign need_l2  = len_q != 32'd0;
  always_comb begin
    unique case (access_q)
      hvia_pkg::AttAccessLocal:       right_ok = 1'b1;
      hvia_pkg::AttAccessRemoteWrite: right_ok = attr_q[WriteBit];
      hvia_pkg::AttAccessRemoteRead:  right_ok = attr_q[ReadBit];
      default:                        right_ok = 1'b0;
    endcase
  end

  logic [24:0] level2_end;
  logic corrupt_d;
  assign level2_end = {2'b00, level2_q[24:2]} + pages_q[24:0];
  assign corrupt_d  = (level2_q[31:25] != 7'd1) || (level2_q[1:0] != 2'd0) ||
      (pages_q == 32'd0) || (pages_q[31:24] != 8'd0) || (level2_end > Level2Entries) ||
      (first_q == 16'd0) || (first_q > 16'd4096) || (last_q == 16'd0) || (last_q > 16'd4096);

  // After the last step: all checks passed and the level-2 read may be used.
  logic sound;
  assign sound = entry_ok && !corrupt_q && (attr_q[AttrTagLsb+:16] == tag_q) && right_ok &&
      !bounds_bad_q;

  logic answered;  // the level-2 entry arrived, now or earlier
  logic l2_now_err;
  logic [31:0] l2_now;
  assign answered   = !need_l2 || !entry_ok || got_l2_q || (mem_rvalid_i && mem_rlast_i) ||
      (host_i && !sound);
  assign l2_now     = got_l2_q ? l2_q : mem_rdata_i;
  assign l2_now_err = got_l2_q ? l2_err_q : mem_rerr_i;

  logic [2:0] err;
  always_comb begin
    if (rerr_q) err = hvia_pkg::AttErrorBackend;
    else if (!index_ok || !entry_ok) err = hvia_pkg::AttErrorHandle;
    else if (corrupt_q) err = hvia_pkg::AttErrorBackend;
    else if (attr_q[AttrTagLsb+:16] != tag_q) err = hvia_pkg::AttErrorTag;
    else if (!right_ok) err = hvia_pkg::AttErrorAccess;
    else if (need_l2 && bounds_bad_q) err = hvia_pkg::AttErrorBounds;
    else if (need_l2 && l2_now_err) err = hvia_pkg::AttErrorBackend;
    else err = hvia_pkg::AttErrorNone;
  end

  logic finish;  // StLevel2: the result is known
  assign finish = (state_q == StLevel2) && step_q[3] && answered;

  // Limit: clear the entries up to the new limit before it takes effect.
  logic [IndexBits:0] clear_q, limit_new;
  logic limit_pending_q;
  assign limit_new = handle_q[IndexBits:0];

  // By contract the client's VI index is below the number of VIs.
  assign own_line = line_of(client_q, vi_q);
  assign req_line = line_of(req_client_i, req_vi_i);

  assign req_ready_o = (state_q == StIdle) && !update_done_q &&
      !(scan_q && req_update_i);
  assign take = req_valid_i && req_ready_o;

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      StForget: if (scan_last_q) state_d = StIdle;
      StIdle: begin
        if (take) begin
          if (!req_update_i) state_d = StLookup;
          else if (req_op_i == hvia_pkg::AttUpdateWrite) state_d = StWrite;
          else if (req_op_i == hvia_pkg::AttUpdateInvalidate) state_d = StInvalidateRead;
          else state_d = StClear;
        end
      end
      StLookup: begin
        if (!index_ok) state_d = StRespond;
        else if (hit) state_d = StCalc;
        else state_d = StLevel1;
      end
      StLevel1: if (mem_rvalid_i && mem_rlast_i) state_d = mem_rerr_i ? StRespond : StLevel2;
      StCalc: state_d = StAddress;
      StAddress: state_d = StLevel2;
      StLevel2: if (finish) state_d = rsp_ready_i ? StIdle : StRespond;
      StRespond: if (rsp_ready_i) state_d = StIdle;
      StWrite: if (mem_req_ready_i) state_d = StIdle;
      StInvalidateRead: begin
        if (!index_ok) state_d = StIdle;
        else if (mem_rvalid_i && mem_rlast_i) state_d = StInvalidateWrite;
      end
      StInvalidateWrite: if (rerr_q || !entry_ok || mem_req_ready_i) state_d = StIdle;
      StClear: if ((clear_q == limit_new) || (mem_req_ready_i && mem_werr_i)) state_d = StForget;
      default: state_d = StForget;
    endcase
  end

  // Memory requests.
  always_comb begin
    mem_req_valid_o = 1'b0;
    mem_req_write_o = 1'b0;
    mem_req_addr_o  = entry_addr(index, WordStartLow);
    mem_req_len_o   = 4'd1;
    mem_wvalid_o    = 1'b0;
    mem_wdata_o     = word_data_i;
    word_ready_o    = 1'b0;
    unique case (state_q)
      StLookup: begin
        mem_req_valid_o = index_ok && !hit;
        mem_req_len_o   = EntryWords;
      end
      StLevel1: begin
        mem_req_valid_o = !req_done_q;
        mem_req_len_o   = EntryWords;
      end
      StLevel2: begin
        mem_req_valid_o = !req_done_q && need_l2 && (host_i ? step_q[3] && sound : entry_ok);
        mem_req_addr_o  = l2_addr_q;
      end
      StWrite: begin
        mem_req_valid_o = 1'b1;
        mem_req_write_o = 1'b1;
        mem_req_addr_o  = handle_q[23:0];
        mem_req_len_o   = len_q[3:0];
        mem_wvalid_o    = word_valid_i;
        word_ready_o    = mem_wready_i;
      end
      StInvalidateRead: begin
        mem_req_valid_o = index_ok && !req_done_q;
        mem_req_addr_o  = entry_addr(index, WordAttributes);
      end
      StInvalidateWrite: begin
        mem_req_valid_o = !rerr_q && entry_ok;
        mem_req_write_o = 1'b1;
        mem_req_addr_o  = entry_addr(index, WordAttributes);
        mem_wvalid_o    = 1'b1;
        mem_wdata_o     = attr_q & ~(32'd1 << ValidBit);
      end
      StClear: begin
        mem_req_valid_o = clear_q != limit_new;
        mem_req_write_o = 1'b1;
        mem_req_addr_o  = entry_addr(clear_q[IndexBits-1:0], WordAttributes);
        mem_wvalid_o    = 1'b1;
        mem_wdata_o     = 32'd0;
      end
      default: ;
    endcase
  end

  // Open the row of the level-1 entry during the cache lookup, and the likely row of the level-2
  // entry while the rest of the level-1 entry arrives.
  logic [23:0] l2_guess;
  assign l2_guess = level2_q[25:2] + off_q[35:12];
  always_comb begin
    mem_hint_valid_o = 1'b0;
    mem_hint_addr_o  = l2_guess;
    if (state_q == StIdle) begin
      mem_hint_valid_o = take && !req_update_i;
      mem_hint_addr_o  = entry_addr(req_handle_i[IndexBits-1:0], WordStartLow);
    end else if (state_q == StLevel1) begin
      mem_hint_valid_o = req_done_q && (beat_q > WordLevel2);
    end else if ((state_q == StCalc) || (state_q == StAddress)) begin
      mem_hint_valid_o = 1'b1;
    end
  end

  // Cache ports: one read and one write per clock.
  assign install = (state_q == StLevel2) && step_q[1] && !hit_q &&
      entry_ok && !corrupt_q && !forgetful_i;
  assign cache_re    = take || scan_read;
  assign cache_raddr = take ? req_line : scan_ptr_q;
  always_comb begin
    cache_we           = 1'b0;
    cache_waddr        = own_line;
    line_d.valid       = 1'b1;
    line_d.handle      = handle_q;
    line_d.start       = start_q;
    line_d.level2      = level2_q[25:2];
    line_d.pages       = pages_q[23:0];
    line_d.first_bytes = first_q[12:0];
    line_d.last_bytes  = last_q[12:0];
    line_d.rdma_write  = attr_q[WriteBit];
    line_d.rdma_read   = attr_q[ReadBit];
    line_d.tag         = attr_q[AttrTagLsb+:16];
    if (state_q == StForget) begin
      cache_we     = !scan_last_q;
      cache_waddr  = scan_ptr_q;
      line_d.valid = 1'b0;
    end else if (install) begin
      cache_we = 1'b1;
    end else if (scan_match) begin
      cache_we     = 1'b1;
      cache_waddr  = scan_b_ptr_q;
      line_d.valid = 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q         <= StForget;
      limit_q         <= '0;
      limit_pending_q <= 1'b0;
      scan_q          <= 1'b0;
      scan_b_q        <= 1'b0;
      scan_last_q     <= 1'b0;
      scan_ptr_q      <= '0;
      update_done_q   <= 1'b0;
      update_err_q    <= 1'b0;
      werr_q          <= 1'b0;
      step_q          <= 4'd0;
      req_done_q      <= 1'b0;
      rerr_q          <= 1'b0;
      beat_q          <= 3'd0;
      got_l2_q        <= 1'b0;
    end else begin
      state_q <= state_d;

      // Reads: whether the request was taken, and the next beat.
      if (state_d != state_q) begin
        beat_q     <= 3'd0;
        // The memory may take the request in the lookup clock.
        req_done_q <= (state_q == StLookup) && mem_req_ready_i;
      end else begin
        if (mem_req_ready_i) req_done_q <= 1'b1;
        if (mem_rvalid_i) beat_q <= beat_q + 3'd1;
      end
      if (take) rerr_q <= 1'b0;
      else if ((state_q != StLevel2) && mem_rvalid_i && mem_rlast_i && mem_rerr_i) rerr_q <= 1'b1;

      if (state_q == StLevel2) begin
        if (finish) step_q <= 4'd0;
        else if (!step_q[3]) step_q <= {step_q[2:0], 1'b0};
        if (state_d == StIdle) got_l2_q <= 1'b0;
        else if (mem_rvalid_i) got_l2_q <= 1'b1;
      end else begin
        step_q <= {3'b000, state_d == StLevel2};
        if (state_d == StIdle) got_l2_q <= 1'b0;
      end

      // Updates.
      if (update_done_q && rsp_ready_i) werr_q <= 1'b0;
      else if (((state_q == StWrite) || (state_q == StClear)) && mem_req_ready_i &&
          mem_werr_i) werr_q <= 1'b1;
      if (take && req_update_i && (req_op_i == hvia_pkg::AttUpdateLimit)) begin
        limit_q         <= '0;
        limit_pending_q <= 1'b1;
      end
      unique case (state_q)
        StIdle: if (update_done_q && rsp_ready_i) update_done_q <= 1'b0;
        StWrite: begin
          if (mem_req_ready_i) begin
            update_done_q <= vi_q[0];
            update_err_q  <= werr_q || mem_werr_i;
          end
        end
        StInvalidateRead: begin
          if (!index_ok) begin
            update_done_q <= 1'b1;
            update_err_q  <= 1'b1;
          end
        end
        StInvalidateWrite: begin
          update_err_q <= rerr_q || !entry_ok || mem_werr_i;
          if (rerr_q || !entry_ok || (mem_req_ready_i && mem_werr_i)) update_done_q <= 1'b1;
          else if (mem_req_ready_i) scan_q <= 1'b1;
        end
        StForget: begin
          // After a reset there is no update to complete.
          if (scan_last_q && limit_pending_q) begin
            if (!werr_q) limit_q <= limit_new;
            limit_pending_q <= 1'b0;
            update_done_q   <= 1'b1;
            update_err_q    <= werr_q;
          end
        end
        default: ;
      endcase

      // The scan pointer serves the background scan and the clearing of all lines.
      if (state_q == StForget) begin
        scan_last_q <= (scan_ptr_q == LastLine) && !scan_last_q;
        scan_ptr_q  <= ((scan_ptr_q == LastLine) || scan_last_q) ? '0 : scan_ptr_q + 1'b1;
      end else if (scan_q) begin
        scan_b_q <= scan_read;
        if (scan_match && install) begin
          // The walk used the only write port: the scan reads this line again.
          scan_b_q    <= 1'b0;
          scan_ptr_q  <= scan_b_ptr_q;
          scan_last_q <= 1'b0;
        end else if (scan_read) begin
          scan_ptr_q  <= scan_ptr_q + 1'b1;
          scan_last_q <= scan_ptr_q == LastLine;
        end else if (scan_last_q && !scan_b_q) begin
          scan_q        <= 1'b0;
          scan_last_q   <= 1'b0;
          scan_ptr_q    <= '0;
          update_done_q <= 1'b1;
        end
      end
    end
  end

  // Data registers: no reset, each is written before it is read.
  always_ff @(posedge clk_i) begin
    if (take) begin
      client_q <= req_client_i;
      handle_q <= req_handle_i;
      va_q     <= req_va_i;
      len_q    <= req_len_i;
      tag_q    <= req_tag_i;
      access_q <= req_access_i;
      vi_q     <= req_vi_i;
      clear_q  <= '0;
    end
    if ((state_q == StClear) && mem_req_ready_i) clear_q <= clear_q + 1'b1;
    if ((state_q == StInvalidateWrite) && mem_req_ready_i) inv_handle_q <= handle_q;
    if (scan_read) scan_b_ptr_q <= scan_ptr_q;

    if (state_q == StLookup) begin
      hit_q        <= hit;
      off_q        <= off_hit[63:0];
      off_borrow_q <= off_hit[64];
      level2_q     <= {6'd0, line.level2, 2'b00};
      pages_q      <= {8'd0, line.pages};
      first_q      <= {3'd0, line.first_bytes};
      last_q       <= {3'd0, line.last_bytes};
      attr_q       <= line_attr;
    end
    if ((state_q == StLevel1) && mem_rvalid_i) begin
      case (beat_q)
        WordStartLow: begin
          start_q[31:0] <= mem_rdata_i;
          off_q[31:0]   <= off_low[31:0];
          off_borrow_q  <= off_low[32];
        end
        WordStartHigh: begin
          start_q[63:32] <= mem_rdata_i;
          off_q[63:32]   <= off_high[31:0];
          off_borrow_q   <= off_high[32];
        end
        WordLevel2: level2_q <= mem_rdata_i;
        WordPages: pages_q <= mem_rdata_i;
        WordBytes: begin
          first_q <= mem_rdata_i[15:0];
          last_q  <= mem_rdata_i[31:16];
        end
        default: attr_q <= mem_rdata_i;
      endcase
    end
    if ((state_q == StInvalidateRead) && mem_rvalid_i) attr_q <= mem_rdata_i;

    if ((state_q == StCalc) || ((state_q == StLevel1) && (beat_q == WordBytes))) begin
      rem_q        <= rem_d[35:0];
      rem_borrow_q <= rem_d[36];
    end
    if ((state_q == StAddress) || ((state_q == StLevel1) && (beat_q == WordAttributes))) begin
      page_q    <= page_d;
      l2_addr_q <= level2_q[25:2] + page_d;
    end
    if (state_q == StLevel2) begin
      corrupt_q      <= corrupt_d;
      length_q       <= length_d;
      space_q        <= space_d[35:0];
      space_borrow_q <= space_d[36];
      bounds_bad_q   <= off_borrow_q || (off_q[63:36] != 28'd0) || space_borrow_q ||
          ({4'd0, len_q} > space_q);
      inpage_q       <= rem_borrow_q ? off_q[12:0] : {1'b0, rem_q[11:0]};
      bytes_q        <= rem_borrow_q ? 13'd0 - rem_q[12:0] : page_end - {1'b0, rem_q[11:0]};
      if (mem_rvalid_i) begin
        l2_q     <= mem_rdata_i;
        l2_err_q <= mem_rerr_i;
      end
    end
  end

  // A cached entry passed these checks when it was cached: valid, this generation.
  logic [31:0] line_attr;
  always_comb begin
    line_attr                         = 32'd0;
    line_attr[ValidBit]               = 1'b1;
    line_attr[WriteBit]               = line.rdma_write;
    line_attr[ReadBit]                = line.rdma_read;
    line_attr[AttrGenLsb+:GenBits]    = handle_q[GenLsb+:GenBits];
    line_attr[AttrTagLsb+:16]         = line.tag;
  end

  // Length of the region, then what remains after the start of the access.
  logic [35:0] length_d;
  logic [36:0] space_d;
  logic [12:0] page_end;
  logic [23:0] middle_pages;
  assign middle_pages = pages_q[23:0] - 24'd2;
  assign length_d = (pages_q[23:0] == 24'd1) ? {20'd0, first_q} :
      {middle_pages, 12'd0} + {20'd0, first_q} + {20'd0, last_q};
  assign space_d  = {1'b0, length_q} - {1'b0, off_q[35:0]};
  assign page_end = (page_q == pages_q[23:0] - 24'd1) ? last_q[12:0] : 13'd4096;

  // Responses.
  logic translated;
  assign translated        = err == hvia_pkg::AttErrorNone;
  assign rsp_update_o      = state_q == StIdle;
  assign rsp_valid_o       = finish || (state_q == StRespond) ||
      ((state_q == StIdle) && update_done_q);
  assign rsp_client_o      = client_q;
  assign rsp_err_o         = rsp_update_o ? {2'b00, update_err_q} : err;
  assign rsp_pa_o          = (translated && need_l2) ? l2_now + {19'd0, inpage_q} : 32'd0;
  assign rsp_bytes_o       = (translated && need_l2) ? bytes_q : 13'd0;
  assign rsp_level1_read_o = !rsp_update_o && index_ok && !hit_q;
  assign rsp_level2_read_o = !rsp_update_o && index_ok && !rerr_q && entry_ok && need_l2 &&
      (!host_i || sound);

  // Quiescent, or waiting for a neighbour with every register settled.
  logic moving;
  always_comb begin
    unique case (state_q)
      StIdle:     moving = take || (update_done_q && rsp_ready_i);
      StRespond:  moving = rsp_ready_i;
      StLevel1:   moving = mem_req_ready_i || mem_rvalid_i;
      StLevel2:   moving = mem_req_ready_i || mem_rvalid_i || !step_q[3] || finish;
      StWrite:    moving = mem_req_ready_i;
      StInvalidateRead:  moving = !index_ok || mem_req_ready_i || mem_rvalid_i;
      StInvalidateWrite: moving = rerr_q || !entry_ok || mem_req_ready_i;
      StClear:    moving = (clear_q == limit_new) || mem_req_ready_i;
      default:    moving = 1'b1;
    endcase
  end
  assign quiet_o = !moving && !scan_q;

endmodule
