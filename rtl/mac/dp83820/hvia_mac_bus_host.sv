// SPDX-License-Identifier: Apache-2.0

// Host of the MAC bus: arbiter, RST#, and the master that configures and kicks the DP83820. Its
// transactions are single dwords, in sequences:
//
//   configuration  after RST#: probe the chip, base address, command, then its registers
//   enable         station address, filter, CR.RXE; disable: CR.RXD, filter off
//   transmit reset CR.TXR and the transmit descriptor pointer
//   kick           CR.TXE for offered frames, CR.RXE for a chip that found no free buffer
//
// The bus is parked here. The chip gets GNT# whenever it asks and the host is idle; GNT# may come
// during a burst. The host's transactions wait only for the present one to end.
//
// After an abort, a parity error, an access without a target, or a stuck transaction, the chip is
// reset and configured anew. Without a chip this repeats forever, and nothing else depends on it.
module hvia_mac_bus_host #(
    parameter int unsigned W = 32
) (
    input  logic           clk_i,
    input  logic           rst_ni,
    output logic           quiet_o,

    input  logic           short_bursts_i,  // strap ShortBursts

    // Receive enable and station address (wire byte 0 in bits 7:0).
    input  logic           enable_valid_i,
    input  logic           enable_i,
    input  logic [47:0]    mac_i,

    input  logic           tx_offered_i,   // one clock: a frame was put into the ring
    input  logic           tx_any_i,       // a frame is in the ring
    input  logic           tx_slot_i,      // slot where the chip's transmitter continues
    input  logic           tx_reset_i,     // level until done: reset the transmitter
    output logic           tx_reset_done_o,
    // the transmitter was reset in this clock, or is in reset
    output logic           tx_stopped_o,
    input  logic           rx_slot_i,      // slot where its receiver continues
    // level until done: the receiver waits, and now has a buffer
    input  logic           rx_wake_i,
    output logic           rx_wake_done_o,
    input  logic           target_error_i,

    output logic           ready_o,      // the chip is configured
    output logic           halt_o,       // writes of the chip do not count now
    output logic           clear_o,      // the chip is in reset
    output logic           error_o,      // one clock per reset caused by an error
    output logic           bus_idle_o,

    output logic           trace_valid_o,
    output logic           trace_end_o,
    output logic [2:0]     trace_use_o,

    // Pins
    output logic           mb_rst_no,
    output logic           idsel_o,
    input  logic           req_n_i,
    output logic           gnt_n_o,
    input  logic [31:0]    ad_i,
    output logic [W-1:0]   ad_o,
    output logic           ad_oe,
    input  logic [3:0]     cbe_n_i,
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
    input  logic           stop_n_i
);

  // RST#; the rest of the counter's range is its recovery
  localparam logic [4:0]  ResetClocks  = 5'd15;
  localparam logic [1:0]  DevselLimit  = 2'd3;   // fourth clock: subtractive decode has passed
  localparam logic [5:0]  StuckLimit   = 6'd63;  // clocks without data; PCI allows 16
  localparam logic [5:0]  RetryLimit   = 6'd63;
  localparam logic [7:0]  LatencyTimer = 8'hff;  // a burst is never cut
  localparam logic [7:0]  FillThreshold  = 8'd16;  // 512 bytes in units of 32
  localparam logic [4:0]  DrainThreshold = 5'd31;  // the most, 248 bytes

  // Each step of a sequence is one transaction.
  typedef enum logic [4:0] {
    StepId, StepBar, StepTimer, StepCommand, StepCfg, StepImr, StepTxcfg, StepRxcfg, StepRxdp,
        StepTxdp,
    StepSelect0, StepAddress0, StepSelect2, StepAddress2, StepSelect4, StepAddress4, StepFilter,
        StepRxe,
    StepRxd, StepFilterOff, StepTxr, StepKick
  } step_e;
  typedef enum logic [1:0] {StIdle, StAddr, StData} state_e;

  state_e      state_d, state_q;
  step_e       step_d, step_q, job_step, now_step, next_step;
  logic        run_d, run_q;              // a sequence runs; step_q is its next step
  logic        resetting_d, resetting_q;
  logic [4:0]  wait_d, wait_q;
  logic        rst_n_d, rst_n_q;
  logic        ready_d, ready_q;
  logic        error_d, error_q;          // an error; reset when the bus is idle
  logic        want_d, want_q, have_d, have_q;  // receive enable: as required, as configured
  logic [47:0] want_mac_d, want_mac_q, have_mac_d, have_mac_q;
  logic        kick_d, kick_q;            // CR.TXE is due
  logic        with_tx_d, with_tx_q, with_rx_d, with_rx_q;  // contents of the kick in progress
  logic [31:0] ad_d, ad_q;
  logic [3:0]  cbe_d, cbe_q;
  logic        ad_oe_d, ad_oe_q, cbe_oe_d, cbe_oe_q, par_d, par_q, par_oe_q;
  logic        frame_n_d, frame_n_q, frame_oe_d, frame_oe_q, irdy_n_d, irdy_n_q, irdy_oe_d,
      irdy_oe_q;
  logic        idsel_d, idsel_q, gnt_n_d, gnt_n_q, gnt_prev_q;
  logic        selected_d, selected_q;
  logic [1:0]  devsel_cnt_d, devsel_cnt_q;
  logic [1:0]  backoff_d, backoff_q;
  logic [5:0]  retry_d, retry_q;
  logic        pcheck_d, pcheck_q, pexpect_d, pexpect_q;

  // Monitor of all transactions.
  logic        frame_prev_q, busy_d, busy_q, claimed_d, claimed_q, own_d, own_q;
  logic [5:0]  stuck_d, stuck_q;
  logic        begin_d, begin_q, end_d, end_q;
  logic [2:0]  use_d, use_q;

  logic        bus_idle, job, active, start, finish, trdy, stop, gone, aborted, xfer, present, done,
      failed;
  logic        absent, step_done, last_step, unclaimed, stuck, reset, is_config, is_read, enter;
  logic [31:0] step_addr, step_data;
  logic [2:0]  max_dma;
  assign max_dma = short_bursts_i ? hvia_pkg::MacMaxDmaBytes64 : hvia_pkg::MacMaxDmaBytes512;

  assign bus_idle = frame_n_i & irdy_n_i;

  // Next sequence.
  always_comb begin
    job      = ready_q;
    job_step = StepKick;
    if (tx_reset_i)                                            job_step = StepTxr;
    else if (have_q & (~want_q | (want_mac_q != have_mac_q)))  job_step = StepRxd;
    else if (want_q & ~have_q)                                 job_step = StepSelect0;
    else job = ready_q & (kick_q | (rx_wake_i & have_q));
  end
  assign active   = run_q | job;
  assign now_step = run_q ? step_q : job_step;
  assign start    = active & ~resetting_q & ~error_q & (state_q == StIdle) & gnt_n_q & gnt_prev_q &
      bus_idle &
                    ~irdy_oe_q & (backoff_q == 2'd0);

  always_comb begin
    is_config = 1'b0;
    step_addr = hvia_pkg::MacRegisterBase;
    step_data = 32'd0;
    next_step = now_step;
    last_step = 1'b0;
    case (now_step)
      StepId: begin
        is_config = 1'b1;
        step_addr = {12'd0, hvia_pkg::PciConfigIDOffset};
        next_step = StepBar;
      end
      StepBar: begin
        is_config = 1'b1;
        step_addr = {12'd0, hvia_pkg::PciConfigBar1Offset};
        step_data = hvia_pkg::MacRegisterBase;
        next_step = StepTimer;
      end
      StepTimer: begin
        is_config = 1'b1;
        step_addr = {12'd0, hvia_pkg::PciConfigHeaderOffset};
        step_data[hvia_pkg::PciConfigHeaderLatencyTimerLsb +:
            hvia_pkg::PciConfigHeaderLatencyTimerWidth] = LatencyTimer;
        next_step = StepCommand;
      end
      StepCommand: begin
        is_config = 1'b1;
        step_addr = {12'd0, hvia_pkg::PciConfigCommandOffset};
        step_data[hvia_pkg::PciConfigCommandMemoryEnableBit] = 1'b1;
        step_data[hvia_pkg::PciConfigCommandMasterEnableBit] = 1'b1;
        next_step = StepCfg;
      end
      StepCfg: begin
        step_addr[19:0] = hvia_pkg::MacCFGOffset;
        step_data[hvia_pkg::MacCFGEXTSTSBit]   = 1'b1;
        step_data[hvia_pkg::MacCFGDATA64Bit]   = W == 64;
        step_data[hvia_pkg::MacCFGMODE1000Bit] = 1'b1;
        next_step = StepImr;
      end
      StepImr: begin
        step_addr[19:0] = hvia_pkg::MacIMROffset;
        next_step = StepTxcfg;
      end
      StepTxcfg: begin
        step_addr[19:0] = hvia_pkg::MacTXCFGOffset;
        step_data[hvia_pkg::MacTXCFGFLTHLsb +: hvia_pkg::MacTXCFGFLTHWidth]   = FillThreshold;
        step_data[hvia_pkg::MacTXCFGMXDMALsb +: hvia_pkg::MacTXCFGMXDMAWidth] = max_dma;
        next_step = StepRxcfg;
      end
      StepRxcfg: begin
        step_addr[19:0] = hvia_pkg::MacRXCFGOffset;
        step_data[hvia_pkg::MacRXCFGDRTHLsb +: hvia_pkg::MacRXCFGDRTHWidth]   = DrainThreshold;
        step_data[hvia_pkg::MacRXCFGMXDMALsb +: hvia_pkg::MacRXCFGMXDMAWidth] = max_dma;
        next_step = StepRxdp;
      end
      StepRxdp: begin
        step_addr[19:0] = hvia_pkg::MacRXDPOffset;
        step_data[15:0] = hvia_pkg::MacReceiveRing + (rx_slot_i ? hvia_pkg::MacDescriptorStride :
            16'd0);
        next_step = StepTxdp;
      end
      StepTxdp: begin
        step_addr[19:0] = hvia_pkg::MacTXDPOffset;
        step_data[15:0] =
            hvia_pkg::MacTransmitRing + (tx_slot_i ? hvia_pkg::MacDescriptorStride : 16'd0);
        last_step = 1'b1;
      end
      StepSelect0: begin
        step_addr[19:0] = hvia_pkg::MacRFCROffset;
        next_step = StepAddress0;
      end
      StepAddress0: begin
        step_addr[19:0] = hvia_pkg::MacRFDROffset;
        step_data[15:0] = have_mac_q[15:0];
        next_step = StepSelect2;
      end
      StepSelect2: begin
        step_addr[19:0] = hvia_pkg::MacRFCROffset;
        step_data[hvia_pkg::MacRFCRAddressLsb +: hvia_pkg::MacRFCRAddressWidth] = 10'd2;
        next_step = StepAddress2;
      end
      StepAddress2: begin
        step_addr[19:0] = hvia_pkg::MacRFDROffset;
        step_data[15:0] = have_mac_q[31:16];
        next_step = StepSelect4;
      end
      StepSelect4: begin
        step_addr[19:0] = hvia_pkg::MacRFCROffset;
        step_data[hvia_pkg::MacRFCRAddressLsb +: hvia_pkg::MacRFCRAddressWidth] = 10'd4;
        next_step = StepAddress4;
      end
      StepAddress4: begin
        step_addr[19:0] = hvia_pkg::MacRFDROffset;
        step_data[15:0] = have_mac_q[47:32];
        next_step = StepFilter;
      end
      StepFilter: begin
        step_addr[19:0] = hvia_pkg::MacRFCROffset;
        step_data[hvia_pkg::MacRFCRAPMBit]    = 1'b1;
        step_data[hvia_pkg::MacRFCRAAMBit]    = 1'b1;
        step_data[hvia_pkg::MacRFCRAABBit]    = 1'b1;
        step_data[hvia_pkg::MacRFCREnableBit] = 1'b1;
        next_step = StepRxe;
      end
      StepRxe: begin
        step_addr[19:0] = hvia_pkg::MacCROffset;
        step_data[hvia_pkg::MacCRRXEBit] = 1'b1;
        last_step = 1'b1;
      end
      StepRxd: begin
        step_addr[19:0] = hvia_pkg::MacCROffset;
        step_data[hvia_pkg::MacCRRXDBit] = 1'b1;
        next_step = StepFilterOff;
      end
      StepFilterOff: begin
        step_addr[19:0] = hvia_pkg::MacRFCROffset;
        last_step = 1'b1;
      end
      StepTxr: begin
        step_addr[19:0] = hvia_pkg::MacCROffset;
        step_data[hvia_pkg::MacCRTXRBit] = 1'b1;
        next_step = StepTxdp;
      end
      default: begin  // StepKick
        step_addr[19:0] = hvia_pkg::MacCROffset;
        step_data[hvia_pkg::MacCRTXEBit] = with_tx_q;
        step_data[hvia_pkg::MacCRRXEBit] = with_rx_q;
        last_step = 1'b1;
      end
    endcase
  end
  assign is_read = now_step == StepId;

  // The master: one data phase.
  assign trdy    = ~trdy_n_i & ~devsel_n_i;
  assign stop    = ~stop_n_i;
  assign gone    = ~selected_q & devsel_n_i & (devsel_cnt_q == DevselLimit);
  assign aborted = stop & devsel_n_i;
  assign xfer    = (state_q == StData) & trdy;
  assign finish  = (state_q == StData) & (trdy | stop | gone);
  assign present = ad_i == {hvia_pkg::MacDeviceID, hvia_pkg::MacVendorID};
  assign absent  = (now_step == StepId) & ((finish & gone) | (xfer & ~present));
  assign failed  = finish & ~xfer & (((now_step != StepId) & gone) | (aborted & ~gone) |
      (retry_q == RetryLimit));
  assign step_done = xfer & ~absent;
  assign done      = step_done & last_step;

  always_comb begin
    state_d      = state_q;
    ad_d         = ad_q;
    cbe_d        = cbe_q;
    ad_oe_d      = ad_oe_q;
    cbe_oe_d     = cbe_oe_q;
    frame_n_d    = frame_n_q;
    frame_oe_d   = frame_oe_q;
    irdy_n_d     = irdy_n_q;
    irdy_oe_d    = irdy_oe_q;
    idsel_d      = 1'b0;
    selected_d   = selected_q;
    devsel_cnt_d = devsel_cnt_q;
    backoff_d    = backoff_q;
    retry_d      = retry_q;

    case (state_q)
      StAddr: begin
        state_d   = StData;
        frame_n_d = 1'b1;
        irdy_n_d  = 1'b0;
        irdy_oe_d = 1'b1;
        cbe_d     = 4'h0;
        ad_d      = step_data;
        ad_oe_d   = ~is_read;
      end

      StData: begin
        if (~devsel_n_i) selected_d = 1'b1;
        if (devsel_cnt_q != DevselLimit) devsel_cnt_d = devsel_cnt_q + 2'd1;
        if (finish) begin
          state_d    = StIdle;
          frame_oe_d = 1'b0;
          irdy_n_d   = 1'b1;
          ad_oe_d    = 1'b0;
          cbe_oe_d   = 1'b0;
          backoff_d  = xfer ? 2'd0 : 2'd2;
          retry_d    = xfer ? 6'd0 : retry_q + 6'd1;
        end
      end

      default: begin  // StIdle
        // The owner of an idle bus keeps AD and C/BE# from floating; one clock between two owners.
        ad_oe_d   = gnt_n_d & gnt_n_q & gnt_prev_q & bus_idle;
        cbe_oe_d  = ad_oe_d;
        irdy_oe_d = 1'b0;
        if (backoff_q != 2'd0) backoff_d = backoff_q - 2'd1;
        if (start) begin
          state_d      = StAddr;
          ad_d         = step_addr;
          ad_oe_d      = 1'b1;
          cbe_oe_d     = 1'b1;
          cbe_d        = is_read   ? hvia_pkg::PciCommandConfigRead :
                      is_config ? hvia_pkg::PciCommandConfigWrite : hvia_pkg::PciCommandMemoryWrite;
          idsel_d      = is_config;
          frame_n_d    = 1'b0;
          frame_oe_d   = 1'b1;
          irdy_n_d     = 1'b1;
          selected_d   = 1'b0;
          devsel_cnt_d = 2'd0;
        end
      end
    endcase

    if (reset & (state_q != StIdle)) begin
      state_d    = StIdle;
      frame_n_d  = 1'b1;
      frame_oe_d = 1'b0;
      irdy_n_d   = 1'b1;
      ad_oe_d    = 1'b0;
      cbe_oe_d   = 1'b0;
    end
  end

  // The arbiter. While the host requires the bus, the chip keeps a grant it has, and regains it
  // right after.
  assign gnt_n_d = req_n_i | resetting_q | error_q | (active & (state_q == StIdle) &
      (backoff_q == 2'd0));

  // The sequences.
  assign enter = start & ~run_q;  // the first step of a sequence
  always_comb begin
    run_d       = run_q;
    step_d      = step_q;
    ready_d     = ready_q;
    have_d      = have_q;
    have_mac_d  = have_mac_q;
    kick_d      = kick_q | tx_offered_i;
    with_tx_d   = with_tx_q;
    with_rx_d   = with_rx_q;
    resetting_d = resetting_q;
    wait_d      = wait_q;
    rst_n_d     = rst_n_q;
    want_d      = enable_valid_i ? enable_i : want_q;
    want_mac_d  = enable_valid_i ? mac_i : want_mac_q;

    if (enter) begin
      run_d  = 1'b1;
      step_d = now_step;
      if (now_step == StepKick) begin
        with_tx_d = kick_q;
        with_rx_d = rx_wake_i & have_q;
        kick_d    = tx_offered_i;
      end
      if (now_step == StepSelect0) have_mac_d = want_mac_q;
    end
    if (step_done) begin
      run_d  = ~last_step;
      step_d = next_step;
      if (now_step == StepTxdp) begin
        ready_d = 1'b1;
        if (tx_any_i) kick_d = 1'b1;
      end
      if (now_step == StepRxe) have_d = 1'b1;
      if (now_step == StepFilterOff) have_d = 1'b0;
    end

    if (resetting_q) begin
      wait_d = wait_q + 5'd1;
      if (wait_q == ResetClocks) rst_n_d = 1'b1;
      if (&wait_q) begin
        resetting_d = 1'b0;
        run_d       = 1'b1;
        step_d      = StepId;
      end
    end
    if (reset) begin
      resetting_d = 1'b1;
      wait_d      = 5'd0;
      rst_n_d     = 1'b0;
      run_d       = 1'b0;
      ready_d     = 1'b0;
      have_d      = 1'b0;
      kick_d      = 1'b0;
    end
  end

  assign tx_stopped_o    = (step_done & (now_step == StepTxr)) | ~rst_n_q;
  assign tx_reset_done_o = done & (now_step == StepTxdp) & ready_q;
  assign rx_wake_done_o  = done & ((now_step == StepRxe) | ((now_step == StepKick) & with_rx_q));

  // The monitor. An unclaimed transaction is one of the chip's that missed the card.
  assign busy_d    = ~bus_idle;
  assign own_d     = (state_q == StAddr) ? 1'b1 : (frame_prev_q & ~frame_n_i) ? 1'b0 : own_q;
  assign claimed_d = (frame_prev_q & ~frame_n_i) ? 1'b0 : claimed_q | ~devsel_n_i;
  assign end_d     = busy_q & bus_idle;
  assign begin_d   = frame_prev_q & ~frame_n_i;
  assign unclaimed = end_d & ~claimed_q & ~own_q;
  assign stuck     = stuck_q == StuckLimit;
  assign stuck_d   = (bus_idle | (~irdy_n_i & ~trdy_n_i) | reset) ? 6'd0 : stuck ? stuck_q :
      stuck_q + 6'd1;
  assign pcheck_d  = xfer & is_read;
  assign pexpect_d = pcheck_d ? ^{ad_i, cbe_n_i} : pexpect_q;

  always_comb begin
    use_d = use_q;
    if (begin_d) begin
      if (state_q == StAddr) begin
        use_d = (now_step == StepKick) ? hvia_pkg::MacBusUseKick : hvia_pkg::MacBusUseConfiguration;
      end else if (ad_i < {16'd0, hvia_pkg::MacTransmitBuffer}) begin
        use_d = cbe_n_i[0] ? hvia_pkg::MacBusUseStatusWrite : hvia_pkg::MacBusUseDescriptorRead;
      end else begin
        use_d = cbe_n_i[0] ? hvia_pkg::MacBusUseFrameWrite : hvia_pkg::MacBusUseFrameRead;
      end
    end
  end

  // A missing chip is no error; it is probed periodically.
  assign error_d = (error_q | target_error_i | failed | unclaimed | stuck |
      (pcheck_q & (par_i != pexpect_q))) & ~reset;
  assign reset   = (error_q & (stuck | ((state_q == StIdle) & bus_idle & ~irdy_oe_q))) | absent;
  assign error_o = error_q & reset;

  // PAR follows AD and C/BE# by one clock.
  assign par_d = ad_oe_q ? ^{ad_q, cbe_q} : par_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q      <= StIdle;
      step_q       <= StepId;
      run_q        <= 1'b0;
      resetting_q  <= 1'b1;
      wait_q       <= 5'd0;
      rst_n_q      <= 1'b0;
      ready_q      <= 1'b0;
      error_q      <= 1'b0;
      want_q       <= 1'b0;
      have_q       <= 1'b0;
      want_mac_q   <= 48'd0;
      have_mac_q   <= 48'd0;
      kick_q       <= 1'b0;
      with_tx_q    <= 1'b0;
      with_rx_q    <= 1'b0;
      ad_q         <= 32'd0;
      cbe_q        <= 4'd0;
      ad_oe_q      <= 1'b0;
      cbe_oe_q     <= 1'b0;
      par_q        <= 1'b0;
      par_oe_q     <= 1'b0;
      frame_n_q    <= 1'b1;
      frame_oe_q   <= 1'b0;
      irdy_n_q     <= 1'b1;
      irdy_oe_q    <= 1'b0;
      idsel_q      <= 1'b0;
      gnt_n_q      <= 1'b1;
      gnt_prev_q   <= 1'b1;
      selected_q   <= 1'b0;
      devsel_cnt_q <= 2'd0;
      backoff_q    <= 2'd0;
      retry_q      <= 6'd0;
      pcheck_q     <= 1'b0;
      pexpect_q    <= 1'b0;
      frame_prev_q <= 1'b1;
      busy_q       <= 1'b0;
      claimed_q    <= 1'b0;
      own_q        <= 1'b0;
      stuck_q      <= 6'd0;
      begin_q      <= 1'b0;
      end_q        <= 1'b0;
      use_q        <= 3'd0;
    end else begin
      state_q      <= state_d;
      step_q       <= step_d;
      run_q        <= run_d;
      resetting_q  <= resetting_d;
      wait_q       <= wait_d;
      rst_n_q      <= rst_n_d;
      ready_q      <= ready_d;
      error_q      <= error_d;
      want_q       <= want_d;
      have_q       <= have_d;
      want_mac_q   <= want_mac_d;
      have_mac_q   <= have_mac_d;
      kick_q       <= kick_d;
      with_tx_q    <= with_tx_d;
      with_rx_q    <= with_rx_d;
      ad_q         <= ad_d;
      cbe_q        <= cbe_d;
      ad_oe_q      <= ad_oe_d;
      cbe_oe_q     <= cbe_oe_d;
      par_q        <= par_d;
      par_oe_q     <= ad_oe_q;
      frame_n_q    <= frame_n_d;
      frame_oe_q   <= frame_oe_d;
      irdy_n_q     <= irdy_n_d;
      irdy_oe_q    <= irdy_oe_d;
      idsel_q      <= idsel_d;
      gnt_n_q      <= gnt_n_d;
      gnt_prev_q   <= gnt_n_q;
      selected_q   <= selected_d;
      devsel_cnt_q <= devsel_cnt_d;
      backoff_q    <= backoff_d;
      retry_q      <= retry_d;
      pcheck_q     <= pcheck_d;
      pexpect_q    <= pexpect_d;
      frame_prev_q <= frame_n_i;
      busy_q       <= busy_d;
      claimed_q    <= claimed_d;
      own_q        <= own_d;
      stuck_q      <= stuck_d;
      begin_q      <= begin_d;
      end_q        <= end_d;
      use_q        <= use_d;
    end
  end

  assign ready_o       = ready_q;
  assign halt_o        = error_q | resetting_q;
  assign clear_o       = reset | ~rst_n_q;
  assign bus_idle_o    = bus_idle;
  assign trace_valid_o = begin_q | end_q;
  assign trace_end_o   = end_q;
  assign trace_use_o   = use_q;

  assign mb_rst_no  = rst_n_q;
  assign idsel_o    = idsel_q;
  assign gnt_n_o    = gnt_n_q;
  assign ad_oe      = ad_oe_q;
  assign cbe_n_oe   = cbe_oe_q;
  assign par_o      = par_q;
  assign par_oe     = par_oe_q;
  assign frame_n_o  = frame_n_q;
  assign frame_n_oe = frame_oe_q;
  assign irdy_n_o   = irdy_n_q;
  assign irdy_n_oe  = irdy_oe_q;
  if (W == 64) begin : gen_wide
    assign ad_o    = {32'd0, ad_q};
    assign cbe_n_o = {4'hf, cbe_q};
  end else begin : gen_narrow
    assign ad_o    = ad_q;
    assign cbe_n_o = cbe_q;
  end

  // No register changes. During a transaction one of the first changes, and a simulator compares no
  // others.
  always_comb begin
    quiet_o = 1'b0;
    if ((state_d == state_q) & (step_d == step_q) & (run_d == run_q) & (ad_d == ad_q)) begin
      quiet_o =
          (resetting_d == resetting_q) & (wait_d == wait_q) & (rst_n_d == rst_n_q) &
          (ready_d == ready_q) & (error_d == error_q) & (want_d == want_q) & (have_d == have_q) &
          (kick_d == kick_q) & (with_tx_d == with_tx_q) & (with_rx_d == with_rx_q) &
          (cbe_d == cbe_q) & (ad_oe_d == ad_oe_q) & (cbe_oe_d == cbe_oe_q) & (par_d == par_q) &
          (ad_oe_q == par_oe_q) & (frame_n_d == frame_n_q) & (frame_oe_d == frame_oe_q) &
          (irdy_n_d == irdy_n_q) & (irdy_oe_d == irdy_oe_q) & (idsel_d == idsel_q) &
          (gnt_n_d == gnt_n_q) & (gnt_n_q == gnt_prev_q) & (selected_d == selected_q) &
          (devsel_cnt_d == devsel_cnt_q) & (backoff_d == backoff_q) & (retry_d == retry_q) &
          (pcheck_d == pcheck_q) & (pexpect_d == pexpect_q) & (frame_n_i == frame_prev_q) &
          (busy_d == busy_q) & (claimed_d == claimed_q) & (own_d == own_q) & (stuck_d == stuck_q) &
          (begin_d == begin_q) & (end_d == end_q) & (use_d == use_q) & (want_mac_d == want_mac_q) &
          (have_mac_d == have_mac_q);
    end
  end

endmodule
