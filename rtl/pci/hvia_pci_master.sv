// SPDX-License-Identifier: Apache-2.0

// PCI 2.3 bus master, 32 or 64 bits: turns requests of the host-bus port into memory read (line,
// multiple) and memory write bursts. It repeats a transaction that the target retried, resumes
// after a disconnect, and reports master and target aborts to the requester.
//
// Every pin output is a flip-flop. The sampled TRDY#, STOP#, DEVSEL#, ACK64# and GNT# only select
// what the flip-flops take next, so one data phase ends per clock and no bus signal depends on a
// pin within the same clock.
//
// A data phase with more to follow (FRAME# asserted) asserts IRDY# only when the next beat is in
// the write buffer or has space in the read buffer. So the byte enables of a phase are known at its
// start, as PCI requires, and if the requester stalls, the master makes the present phase the last
// before IRDY# is late.
//
// PAR follows its data by one clock, when the requester may have taken the beat. So a read with a
// bad phase runs to its end, and its last beat carries the error. PERR# of a written phase may come
// after the write was answered: the status register records it for the host.
//
// With W = 64 a request of several beats asks for 64-bit data phases (REQ64#) at a multiple of 8.
// If the target answers without ACK64#, a beat takes two 32-bit phases, perhaps in two
// transactions. A request of one beat is a 32-bit transaction of the dwords it touches: it would
// have to raise FRAME# before it knows the width. So the remainder is counted in dwords.
module hvia_pci_master #(
    parameter int unsigned W = 32
) (
    input  logic           clk_i,
    input  logic           rst_ni,

    // Soft reset: with quiesce the master takes no new request; idle means nothing on the bus or
    // pending. If BusMaster is or becomes 0 during quiesce, pending requests end as after an abort.
    input  logic           quiesce_i,
    output logic           idle_o,
    output logic           quiet_o,

    // From configuration space
    input  logic           bus_master_en_i,
    // a write that may clear BusMaster awaits its PAR: start nothing
    input  logic           cfg_pending_i,
    input  logic           parity_en_i,
    input  logic [7:0]     latency_timer_i,

    // Host-bus port
    input  logic           req_valid_i,
    output logic           req_ready_o,
    input  logic           req_write_i,
    input  logic [31:0]    req_addr_i,
    input  logic [9:0]     req_len_i,
    input  logic [W-1:0]   wdata_i,
    input  logic [W/8-1:0] wstrb_i,
    input  logic           wvalid_i,
    output logic           wready_o,
    output logic           wdone_o,
    output logic           werr_o,
    output logic [W-1:0]   rdata_o,
    output logic           rvalid_o,
    input  logic           rready_i,
    output logic           rlast_o,
    output logic           rerr_o,

    // Pins
    output logic           req_n_o,
    input  logic           gnt_n_i,
    input  logic [W-1:0]   ad_i,
    output logic [W-1:0]   ad_o,
    output logic           ad_oe,
    output logic [W/8-1:0] cbe_n_o,
    output logic           cbe_n_oe,
    input  logic           par_i,
    output logic           par_o,
    output logic           par_oe,
    input  logic           frame_n_i,
    output logic           frame_n_o,
    output logic           frame_n_oe,
    input  logic           irdy_n_i,
    output logic           irdy_n_o,
    output logic           irdy_n_oe,
    input  logic           trdy_n_i,
    input  logic           devsel_n_i,
    input  logic           stop_n_i,
    input  logic           perr_n_i,
    // 64-bit extension; idle with W = 32
    input  logic           par64_i,
    output logic           par64_o,
    output logic           par64_oe,
    output logic           req64_n_o,
    output logic           req64_n_oe,
    input  logic           ack64_n_i,

    // Events, one clock each
    output logic           stat_read_o,    // a read burst moved data
    output logic           stat_write_o,   // a write burst moved data
    output logic           stat_retry_o,   // the target retried or disconnected
    output logic           stat_abort_o,   // master or target abort
    output logic           set_master_abort_o,
    output logic           set_target_abort_o,
    output logic           set_parity_error_o,
    output logic           set_perr_seen_o,
    output logic           perr_o          // with ParityResponse: PERR# in the next clock
);

  localparam bit          Wide              = W == 64;
  localparam int unsigned StrbW             = W / 8;
  localparam logic [7:0] LineDwords         = 8'd8;  // one 32-byte cache line of the host
  localparam logic [2:0] IrdyWaitLimit      = 3'd5;  // PCI allows 8 clocks
  localparam logic [1:0] DevselLimit        = 2'd3;  // fourth clock: subtractive decode has passed

  typedef enum logic [1:0] {StIdle, StAddr, StData, StDrain} state_e;

  state_e      state_d, state_q;
  // The request on the bus (dword address, dwords left to move) and the one behind it.
  logic        cur_valid_d, cur_valid_q, cur_write_d, cur_write_q;
  logic [29:0] cur_addr_d, cur_addr_q;
  logic [7:0]  cur_cnt_d, cur_cnt_q;
  logic        nxt_valid_d, nxt_valid_q, nxt_write_d, nxt_write_q;
  logic [29:0] nxt_addr_d, nxt_addr_q;
  logic [7:0]  nxt_cnt_d, nxt_cnt_q;

  logic [W-1:0]     ad_d, ad_q;
  logic [StrbW-1:0] cbe_d, cbe_q;
  logic        ad_oe_d, ad_oe_q, cbe_oe_d, cbe_oe_q, par_d, par_q, par_oe_q;
  logic        frame_n_d, frame_n_q, frame_oe_d, frame_oe_q;
  logic        req64_n_q;
  logic        irdy_n_d, irdy_n_q, irdy_oe_d, irdy_oe_q;
  logic        req_n_d, req_n_q;
  logic        err_d, err_q;            // this transaction met an abort
  logic        moved_d, moved_q;        // this transaction moved data
  logic        selected_d, selected_q;  // DEVSEL# was asserted
  logic        ask64_d, ask64_q;        // this transaction asks for 64 bits
  logic        ack64_d, ack64_q;        // ACK64# came with DEVSEL#
  logic [1:0]  devsel_cnt_d, devsel_cnt_q;
  logic [2:0]  wait_d, wait_q;
  logic [7:0]  latency_d, latency_q;
  logic [1:0]  backoff_d, backoff_q;    // REQ# is off for two clocks after STOP#
  logic        drop, drop_q;            // soft reset with BusMaster off
  logic        wdone_d, wdone_q, werr_d, werr_q;
  logic        pcheck_d, pcheck_q, pexpect_d, pexpect_q;
  logic        pbad_q;                   // a phase of this read had bad parity
  // the checked phase was the last of its request
  logic        plast_q;
  logic [1:0]  wrote_q;                  // phases written one clock ago, and two
  logic        pcheck64_d, pcheck64_q, pexpect64_d, pexpect64_q, par64_d, par64_q;

  // Buffered beats; the head belongs to the present data phase until it has moved.
  logic [W+StrbW-1:0] wfifo_q [4];
  logic [1:0]  wrd_q, wwr_q;
  logic [2:0]  wcnt_d, wcnt_q;
  logic        wpush, wpop;
  logic [W+StrbW-1:0] whead, wnext, wbeat, wshow;
  logic [W:0]  rfifo_q [4];
  logic [3:0]  rerr_q;                   // beats with an error
  logic [1:0]  rnewest;
  logic [1:0]  rrd_q, rwr_q;
  logic [2:0]  rcnt_d, rcnt_q;
  logic        rpush, rpop;
  logic        rpush_err;
  logic [W:0]  rpush_entry, rhead;
  logic [W-1:0] rbeat;

  logic [29:0] req_dword;
  logic [7:0]  req_count;
  logic        req_take;
  logic        bus_idle, irdy, trdy, stop, last_phase, gone, aborted, xfer, finish, more,
      force_last;
  logic        start, can_start, complete;
  logic [7:0]  left, unit, beat_dwords;
  logic        wide, odd, next_odd, beat_end, par64, pexpect64;
  assign req_ready_o = ~nxt_valid_q & ~quiesce_i;
  assign req_take    = req_valid_i & req_ready_o;

  assign wready_o = wcnt_q != 3'd4;
  assign wpush    = wvalid_i & wready_o;
  assign whead    = wfifo_q[wrd_q];
  assign wnext    = wfifo_q[wrd_q + 2'd1];
  // Write beat of the next data phase: the FIFO's second entry if the present phase is the last of
  // its beat, else its head.
  assign wbeat    = ((state_q == StData) & beat_end) ? wnext : whead;
  assign wcnt_d   = wcnt_q + {2'b00, wpush} - {2'b00, wpop};

  assign rvalid_o = rcnt_q != 3'd0;
  assign rhead    = rfifo_q[rrd_q];
  assign rdata_o  = rhead[W-1:0];
  assign rlast_o  = rhead[W];
  assign rnewest  = rwr_q - 2'd1;
  assign rerr_o   = rerr_q[rrd_q] | (perr_o & plast_q & (rrd_q == rnewest));
  assign rpop     = rvalid_o & rready_i;
  assign rcnt_d   = rcnt_q + {2'b00, rpush} - {2'b00, rpop};

  assign bus_idle   = frame_n_i & irdy_n_i;
  assign irdy       = ~irdy_n_q;
  assign last_phase = frame_n_q;
  assign trdy       = ~trdy_n_i & ~devsel_n_i;
  assign stop       = ~stop_n_i;
  assign gone       = ~selected_q & devsel_n_i & (devsel_cnt_q == DevselLimit);
  assign aborted    = stop & devsel_n_i;
  assign xfer       = (state_q == StData) & irdy & trdy & ~err_q;
  assign finish     = (state_q == StData) & last_phase & irdy & (trdy | stop | gone | err_q);

  // Until DEVSEL# decides, a phase of a transaction that asks for 64 bits may get them.
  assign wide        = ask64_q & (selected_q ? ack64_q : (devsel_n_i | ~ack64_n_i));
  assign unit        = wide ? 8'd2 : 8'd1;
  assign left        = cur_cnt_q - (xfer ? unit : 8'd0);
  assign odd         = Wide & cur_addr_q[0];
  assign next_odd    = Wide & (cur_addr_q[0] ^ (xfer & ~wide));
  assign beat_end    = ~Wide | wide | odd | (left == 8'd0);  // with xfer: the whole beat has moved
  assign beat_dwords = (Wide & ~cur_addr_q[0] & (cur_cnt_q != 8'd1)) ? 8'd2 : 8'd1;

  // The phase after the next one has its beat, or space for it; it may be the other half of a beat.
  assign more       = cur_write_q ? (wcnt_d >= 3'd2) | (Wide & ~wide & ~next_odd & (wcnt_d == 3'd1))
                                  : (rcnt_d <= 3'd2);
  assign force_last = (irdy_n_q & (wait_q == IrdyWaitLimit)) |
                      ((latency_q == 8'd0) & gnt_n_i & (state_q == StData));

  assign can_start = cur_write_q ? ((wcnt_q >= 3'd2) | ((wcnt_q != 3'd0) &
      (cur_cnt_q == beat_dwords)))
                                 : (rcnt_q <= 3'd2);
  assign start     = (state_q == StIdle) & cur_valid_q & can_start & ~req_n_q & ~gnt_n_i &
      bus_idle &
                     bus_master_en_i & ~cfg_pending_i & ~drop;

  // A request from before a soft reset must not reach the bus after it, and one that may not reach
  // the bus must not delay the reset. So a BusMaster that returns during the reset has no effect.
  assign drop = quiesce_i & (drop_q | ~bus_master_en_i);

  if (Wide) begin : gen_wide
    logic [6:0]  beats;
    logic [1:0]  touched;
    logic [31:0] low_q;
    logic [4:0]  unused_span;
    // ceil((addr % 8 + len) / 8) beats; one beat has ceil((addr % 4 + len) / 4) dwords
    assign {beats, unused_span[2:0]}   = req_len_i + {7'd0, req_addr_i[2:0]} + 10'd7;
    assign {touched, unused_span[4:3]} = {2'b00, req_addr_i[1:0]} + req_len_i[3:0] + 4'd3;
    assign req_dword = {req_addr_i[31:3], req_addr_i[2] & (beats == 7'd1)};
    assign req_count = (beats == 7'd1) ? {6'd0, touched} : {beats, 1'b0};
    // An upper dword that is transferred alone uses the lower lanes.
    assign wshow     = next_odd ? {wbeat[71:68], wbeat[71:68], wbeat[63:32], wbeat[63:32]} : wbeat;
    assign rbeat     = wide ? ad_i : {ad_i[31:0], odd ? low_q : ad_i[31:0]};
    assign par64     = ^{ad_q[63:32], cbe_q[7:4]};
    assign pexpect64 = ^{ad_i[63:32], cbe_q[7:4]};
    always_ff @(posedge clk_i) begin
      if (xfer & ~odd) low_q <= ad_i[31:0];
    end
  end else begin : gen_narrow
    logic [1:0] unused_span;
    // ceil((addr % 4 + len) / 4) beats
    assign {req_count, unused_span} = req_len_i + {8'd0, req_addr_i[1:0]} + 10'd3;
    assign req_dword = req_addr_i[31:2];
    assign wshow     = wbeat;
    assign rbeat     = ad_i;
    assign par64     = 1'b1;
    assign pexpect64 = 1'b1;
  end

  always_comb begin
    state_d      = state_q;
    cur_addr_d   = cur_addr_q;
    cur_cnt_d    = cur_cnt_q;
    ad_d         = ad_q;
    cbe_d        = cbe_q;
    ad_oe_d      = ad_oe_q;
    cbe_oe_d     = cbe_oe_q;
    frame_n_d    = frame_n_q;
    frame_oe_d   = frame_oe_q;
    irdy_n_d     = irdy_n_q;
    irdy_oe_d    = irdy_oe_q;
    err_d        = err_q;
    moved_d      = moved_q;
    selected_d   = selected_q;
    ask64_d      = ask64_q;
    ack64_d      = ack64_q;
    devsel_cnt_d = devsel_cnt_q;
    wait_d       = wait_q;
    latency_d    = latency_q;
    backoff_d    = backoff_q;
    complete     = 1'b0;
    wpop         = 1'b0;
    rpush        = 1'b0;
    rpush_entry  = {left == 8'd0, rbeat};
    rpush_err    = (left == 8'd0) & (pbad_q | perr_o);

    unique case (state_q)
      StIdle, StDrain: begin
        // The owner of an idle bus keeps AD and C/BE# from floating.
        ad_oe_d   = ~gnt_n_i & bus_idle;
        cbe_oe_d  = ~gnt_n_i & bus_idle;
        irdy_oe_d = 1'b0;
        if (backoff_q != 2'd0) backoff_d = backoff_q - 2'd1;
        if (state_q == StDrain) begin
          // An abort ends the request; the requester still delivers or receives its beats.
          if (cur_write_q) begin
            if (cur_cnt_q == 8'd0) begin
              complete = 1'b1;
            end else if (wcnt_q != 3'd0) begin
              wpop       = 1'b1;
              cur_addr_d = cur_addr_q + {22'd0, beat_dwords};
              cur_cnt_d  = cur_cnt_q - beat_dwords;
              complete   = cur_cnt_q == beat_dwords;
            end
          end else if (rcnt_q != 3'd4) begin
            rpush       = 1'b1;
            rpush_entry = {1'b1, {W{1'b0}}};
            rpush_err   = 1'b1;
            complete    = 1'b1;
          end
          if (complete) begin
            state_d = StIdle;
            err_d   = 1'b0;
          end
        end else if (drop & cur_valid_q) begin
          state_d = StDrain;
        end else if (start) begin
          state_d      = StAddr;
          ad_d         = W'({cur_addr_q, 2'b00});
          if (cur_write_q)                  cbe_d = StrbW'(hvia_pkg::PciCommandMemoryWrite);
          else if (cur_cnt_q == 8'd1)       cbe_d = StrbW'(hvia_pkg::PciCommandMemoryRead);
          else if (cur_cnt_q <= LineDwords) cbe_d = StrbW'(hvia_pkg::PciCommandMemoryReadLine);
          else                              cbe_d = StrbW'(hvia_pkg::PciCommandMemoryReadMultiple);
          frame_n_d    = 1'b0;
          frame_oe_d   = 1'b1;
          irdy_n_d     = 1'b1;
          moved_d      = 1'b0;
          selected_d   = 1'b0;
          ask64_d      = Wide & ~cur_addr_q[0] & (cur_cnt_q > 8'd2);
          ack64_d      = 1'b0;
          devsel_cnt_d = 2'd0;
          wait_d       = 3'd0;
          latency_d    = latency_timer_i;
        end else if (cur_valid_q & ~can_start & ~gnt_n_i & bus_idle & ~req_n_q) begin
          wait_d = wait_q + 3'd1;
        end
      end

      StAddr: begin
        state_d   = StData;
        irdy_oe_d = 1'b1;
        irdy_n_d  = 1'b0;
        frame_n_d = cur_cnt_q == 8'd1;
        if ((cur_cnt_q != 8'd1) & ~more) irdy_n_d = 1'b1;
        if (cur_write_q) begin
          ad_d  = wshow[W-1:0];
          cbe_d = ~wshow[W+StrbW-1:W];
        end else begin
          ad_oe_d = 1'b0;
          cbe_d   = '0;
        end
        if (latency_q != 8'd0) latency_d = latency_q - 8'd1;
      end

      default: begin  // StData
        if (latency_q != 8'd0) latency_d = latency_q - 8'd1;
        if (~devsel_n_i) selected_d = 1'b1;
        if (~devsel_n_i & ~selected_q) ack64_d = ~ack64_n_i;
        if (devsel_cnt_q != DevselLimit) devsel_cnt_d = devsel_cnt_q + 2'd1;
        if (stop) backoff_d = (backoff_q != 2'd0) ? 2'd1 : 2'd2;
        if (gone | aborted) err_d = 1'b1;
        if (xfer) begin
          moved_d    = 1'b1;
          cur_addr_d = cur_addr_q + {22'd0, unit};
          cur_cnt_d  = left;
          wait_d     = 3'd0;
          wpop       = cur_write_q & beat_end;
          rpush      = ~cur_write_q & beat_end;
        end
        if (finish) begin
          state_d    = err_d ? StDrain : StIdle;
          complete   = ~err_d & (left == 8'd0);
          frame_oe_d = 1'b0;
          irdy_n_d   = 1'b1;
          ad_oe_d    = 1'b0;
          cbe_oe_d   = 1'b0;
          wait_d     = 3'd0;
        end else begin
          if (xfer & cur_write_q) begin
            ad_d  = wshow[W-1:0];
            cbe_d = ~wshow[W+StrbW-1:W];
          end
          if (stop | gone | err_q) begin
            frame_n_d = 1'b1;
            irdy_n_d  = 1'b0;
          end else if (xfer | irdy_n_q) begin
            // A phase starts, or was waiting for the requester.
            irdy_n_d  = 1'b0;
            frame_n_d = 1'b0;
            if ((left == unit) | force_last) begin
              frame_n_d = 1'b1;
            end else if (~more) begin
              irdy_n_d = 1'b1;
              if (~xfer) wait_d = wait_q + 3'd1;
            end
          end
        end
      end
    endcase
  end

  // The two request slots.
  always_comb begin
    cur_valid_d = cur_valid_q & ~complete;
    cur_write_d = cur_write_q;
    nxt_valid_d = nxt_valid_q;
    nxt_write_d = nxt_write_q;
    nxt_addr_d  = nxt_addr_q;
    nxt_cnt_d   = nxt_cnt_q;
    if (~cur_valid_d & nxt_valid_q) begin
      cur_valid_d = 1'b1;
      cur_write_d = nxt_write_q;
      nxt_valid_d = 1'b0;
    end else if (~cur_valid_d & req_take) begin
      cur_valid_d = 1'b1;
      cur_write_d = req_write_i;
    end else if (req_take) begin
      nxt_valid_d = 1'b1;
      nxt_write_d = req_write_i;
      nxt_addr_d  = req_dword;
      nxt_cnt_d   = req_count;
    end
    wdone_d = complete & cur_write_q;
    werr_d  = complete & cur_write_q & (state_q == StDrain);
  end

  // REQ# during a burst asks for the next one, so arbitration overlaps the burst. It falls for two
  // clocks after STOP#, and when the requester leaves a granted bus idle.
  always_comb begin
    req_n_d = 1'b1;
    if (bus_master_en_i & ~drop & (state_d != StDrain)) begin
      if (state_q == StData) begin
        if (~stop & (backoff_q == 2'd0)) req_n_d = ~(finish ? cur_valid_d : nxt_valid_d);
      end else if (start | (state_q == StAddr)) begin
        req_n_d = ~nxt_valid_d;
      end else if (backoff_q <= 2'd1) begin
        req_n_d = ~(cur_valid_d & (can_start | (wait_q < IrdyWaitLimit)));
      end
    end
  end

  // PAR and PAR64 follow AD and C/BE# by one clock.
  assign par_d       = ad_oe_q ? ^{ad_q[31:0], cbe_q[3:0]} : par_q;
  assign par64_d     = ad_oe_q ? par64 : par64_q;
  assign pcheck_d    = xfer & ~cur_write_q;
  assign pexpect_d   = pcheck_d ? ^{ad_i[31:0], cbe_q[3:0]} : pexpect_q;
  assign pcheck64_d  = pcheck_d & wide;
  assign pexpect64_d = pcheck64_d ? pexpect64 : pexpect64_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q      <= StIdle;
      cur_valid_q  <= 1'b0;
      cur_write_q  <= 1'b0;
      cur_addr_q   <= 30'd0;
      cur_cnt_q    <= 8'd0;
      nxt_valid_q  <= 1'b0;
      nxt_write_q  <= 1'b0;
      nxt_addr_q   <= 30'd0;
      nxt_cnt_q    <= 8'd0;
      ad_q         <= '0;
      cbe_q        <= '0;
      ad_oe_q      <= 1'b0;
      cbe_oe_q     <= 1'b0;
      par_q        <= 1'b0;
      par_oe_q     <= 1'b0;
      par64_q      <= 1'b1;
      frame_n_q    <= 1'b1;
      req64_n_q    <= 1'b1;
      frame_oe_q   <= 1'b0;
      irdy_n_q     <= 1'b1;
      irdy_oe_q    <= 1'b0;
      req_n_q      <= 1'b1;
      err_q        <= 1'b0;
      moved_q      <= 1'b0;
      selected_q   <= 1'b0;
      ask64_q      <= 1'b0;
      ack64_q      <= 1'b0;
      devsel_cnt_q <= 2'd0;
      wait_q       <= 3'd0;
      latency_q    <= 8'd0;
      backoff_q    <= 2'd0;
      drop_q       <= 1'b0;
      wdone_q      <= 1'b0;
      werr_q       <= 1'b0;
      pcheck_q     <= 1'b0;
      pexpect_q    <= 1'b0;
      pcheck64_q   <= 1'b0;
      pbad_q       <= 1'b0;
      plast_q      <= 1'b0;
      wrote_q      <= 2'b00;
      rerr_q       <= 4'd0;
      pexpect64_q  <= 1'b0;
      wrd_q        <= 2'd0;
      wwr_q        <= 2'd0;
      wcnt_q       <= 3'd0;
      rrd_q        <= 2'd0;
      rwr_q        <= 2'd0;
      rcnt_q       <= 3'd0;
    end else begin
      state_q      <= state_d;
      cur_valid_q  <= cur_valid_d;
      cur_write_q  <= cur_write_d;
      if ((complete | ~cur_valid_q) & nxt_valid_q) begin
        cur_addr_q <= nxt_addr_q;
        cur_cnt_q  <= nxt_cnt_q;
      end else if ((complete | ~cur_valid_q) & req_take) begin
        cur_addr_q <= req_dword;
        cur_cnt_q  <= req_count;
      end else begin
        cur_addr_q <= cur_addr_d;
        cur_cnt_q  <= cur_cnt_d;
      end
      nxt_valid_q  <= nxt_valid_d;
      nxt_write_q  <= nxt_write_d;
      nxt_addr_q   <= nxt_addr_d;
      nxt_cnt_q    <= nxt_cnt_d;
      ad_q         <= ad_d;
      cbe_q        <= cbe_d;
      ad_oe_q      <= ad_oe_d;
      cbe_oe_q     <= cbe_oe_d;
      par_q        <= par_d;
      par_oe_q     <= ad_oe_q;
      par64_q      <= par64_d;
      frame_n_q    <= frame_n_d;
      req64_n_q    <= frame_n_d | ~ask64_d;  // falls with FRAME#
      frame_oe_q   <= frame_oe_d;
      irdy_n_q     <= irdy_n_d;
      irdy_oe_q    <= irdy_oe_d;
      req_n_q      <= req_n_d;
      err_q        <= err_d;
      moved_q      <= moved_d;
      selected_q   <= selected_d;
      ask64_q      <= ask64_d;
      ack64_q      <= ack64_d;
      devsel_cnt_q <= devsel_cnt_d;
      wait_q       <= wait_d;
      latency_q    <= latency_d;
      backoff_q    <= backoff_d;
      drop_q       <= drop;
      wdone_q      <= wdone_d;
      werr_q       <= werr_d;
      pcheck_q     <= pcheck_d;
      pexpect_q    <= pexpect_d;
      pcheck64_q   <= pcheck64_d;
      pbad_q       <= ~complete & (pbad_q | (perr_o & ~plast_q));
      plast_q      <= left == 8'd0;
      wrote_q      <= {wrote_q[0], xfer & cur_write_q};
      if (perr_o & plast_q) rerr_q[rnewest] <= 1'b1;
      if (rpush)            rerr_q[rwr_q]   <= rpush_err;
      pexpect64_q  <= pexpect64_d;
      wcnt_q       <= wcnt_d;
      rcnt_q       <= rcnt_d;
      if (wpush) wwr_q <= wwr_q + 2'd1;
      if (wpop)  wrd_q <= wrd_q + 2'd1;
      if (rpush) rwr_q <= rwr_q + 2'd1;
      if (rpop)  rrd_q <= rrd_q + 2'd1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (wpush) wfifo_q[wwr_q] <= {wstrb_i, wdata_i};
    if (rpush) rfifo_q[rwr_q] <= rpush_entry;
  end

  assign req_n_o    = req_n_q;
  assign ad_o       = ad_q;
  assign ad_oe      = ad_oe_q;
  assign cbe_n_o    = cbe_q;
  assign cbe_n_oe   = cbe_oe_q;
  assign par_o      = par_q;
  assign par_oe     = par_oe_q;
  assign par64_o    = par64_q;
  assign par64_oe   = Wide & par_oe_q;
  assign frame_n_o  = frame_n_q;
  assign frame_n_oe = frame_oe_q;
  assign req64_n_o  = req64_n_q;
  assign req64_n_oe = Wide & frame_oe_q;
  assign irdy_n_o   = irdy_n_q;
  assign irdy_n_oe  = irdy_oe_q;
  assign wdone_o    = wdone_q;
  assign werr_o     = werr_q;

  assign stat_read_o  = finish & moved_d & ~cur_write_q;
  assign stat_write_o = finish & moved_d & cur_write_q;
  assign stat_retry_o = finish & ~err_d & stop & (left != 8'd0);
  assign stat_abort_o = finish & err_d;
  assign set_master_abort_o = (state_q == StData) & gone & ~err_q;
  assign set_target_abort_o = (state_q == StData) & aborted & ~gone & ~err_q;
  assign set_parity_error_o = (pcheck_q & (par_i != pexpect_q)) |
                              (pcheck64_q & (par64_i != pexpect64_q));
  assign perr_o             = set_parity_error_o & parity_en_i;
  assign set_perr_seen_o    = wrote_q[1] & ~perr_n_i;

  assign idle_o = (state_q == StIdle) & ~cur_valid_q & ~irdy_oe_q & ~wdone_q & (wcnt_q == 3'd0) &
                  (rcnt_q == 3'd0);
  assign quiet_o = idle_o & ~req_take & ~wvalid_i & ~pcheck_q & ~(|wrote_q) & (backoff_q == 2'd0) &
      req_n_q &
                   (drop_q == drop) & (ad_oe_q == (~gnt_n_i & bus_idle)) & (cbe_oe_q == ad_oe_q) &
                   (par_oe_q == ad_oe_q) & (par_q == par_d) & (par64_q == par64_d);

endmodule
