// SPDX-License-Identifier: Apache-2.0

// PCI 2.3 target, 32 bits, medium DEVSEL#: passes memory accesses of the two windows to the core's
// target port and configuration accesses to `pci_config`.
//
// A small buffer posts writes, so a burst runs without wait states while the core keeps up. A core
// that stalls causes wait states, then a disconnect. A read returns one dword and disconnects; it
// waits for the posted writes, as PCI ordering requires. Every pin output is a flip-flop, so TRDY#
// is decided one clock ahead of its phase, against capacity that is certain.
//
// PAR follows its data by one clock, in which a written dword may already reach the core. So bad
// parity clears the dword's byte enables: nothing is written. A configuration write waits for its
// PAR. Without ParityResponse bad parity is only recorded, as PCI requires.
module hvia_pci_target (
    input  logic         clk_i,
    input  logic         rst_ni,
    output logic         quiet_o,

    // Configuration space
    output logic         cfg_we_o,
    output logic         cfg_pending_o,  // a write ended in the last clock; its PAR decides
    output logic [7:2]   cfg_addr_o,
    output logic [3:0]   cfg_be_o,
    output logic [31:0]  cfg_wdata_o,
    input  logic [31:0]  cfg_rdata_i,
    input  logic         memory_en_i,
    input  logic         parity_en_i,
    input  logic [31:16] bar0_i,
    input  logic [31:20] bar1_i,

    // Core
    output logic         tgt_wvalid_o,
    input  logic         tgt_wready_i,
    output logic         tgt_wbar_o,
    output logic [19:0]  tgt_waddr_o,
    output logic [31:0]  tgt_wdata_o,
    output logic [3:0]   tgt_wbe_o,
    output logic         tgt_rvalid_o,
    output logic [19:0]  tgt_raddr_o,
    output logic         tgt_rbar_o,
    input  logic         tgt_rready_i,
    input  logic [31:0]  tgt_rdata_i,

    // Pins
    input  logic [31:0]  ad_i,
    output logic [31:0]  ad_o,
    output logic         ad_oe,
    input  logic [3:0]   cbe_n_i,
    input  logic         par_i,
    output logic         par_o,
    output logic         par_oe,
    input  logic         frame_n_i,
    input  logic         irdy_n_i,
    input  logic         idsel_i,
    output logic         trdy_n_o,
    output logic         trdy_n_oe,
    output logic         devsel_n_o,
    output logic         devsel_n_oe,
    output logic         stop_n_o,
    output logic         stop_n_oe,

    // dword written to a window
    output logic         stat_write_o,  // dword written to a window
    output logic         stat_read_o,   // dword read from a window
    output logic         set_address_parity_o,
    output logic         set_data_parity_o,
    output logic         perr_o         // with ParityResponse: PERR# in the next clock
);

  localparam logic [3:0] FifoSpace     = 4'd6;   // of 8: the phase in progress still fits
  localparam logic [2:0] WriteWait     = 3'd5;   // wait states before a disconnect; PCI allows 8
  // clocks after FRAME# within which a read must reach the core
  localparam logic [3:0] DrainDeadline = 4'd3;
  // clocks after FRAME# within which TRDY# or STOP# must be set
  localparam logic [3:0] ReadDeadline  = 4'd15;

  // StWrite, StCfg: data phase of that kind. StDrain: a read waits for the posted writes. StRead: a
  // read waits for the core. StReadData: TRDY# is asserted. StStop: STOP# without data until FRAME#
  // rises. StTurn: drive the pins high for one clock before the release.
  typedef enum logic [3:0] {
    StIdle, StDecode, StWrite, StCfgWrite, StCfgRead, StDrain, StRead, StReadData, StStop, StTurn
  } state_e;

  state_e       state_d, state_q;
  logic         frame_prev_q;
  logic [31:0]  addr_d, addr_q;  // of the address phase, later of the present data phase
  logic [3:0]   cmd_d, cmd_q;
  logic         idsel_d, idsel_q;
  logic         bar_d, bar_q;
  logic         wrap_d, wrap_q;    // not a linear burst: one dword per transaction
  logic [3:0]   age_d, age_q;      // clocks since the address phase
  logic [2:0]   wait_d, wait_q;
  logic         trdy_n_d, trdy_n_q, stop_n_d, stop_n_q, devsel_n_d, devsel_n_q, sel_oe_d, sel_oe_q;
  logic [31:0]  ad_d, ad_q;
  logic         ad_oe_d, ad_oe_q, par_d, par_q, par_oe_q;
  logic         rvalid_d, rvalid_q, rdrop_d, rdrop_q, rbar_d, rbar_q;
  logic [17:0]  raddr_d, raddr_q;
  logic         pcheck_d, pcheck_q, pexpect_d, pexpect_q;
  logic         posted_q;        // the checked data phase went into the buffer
  logic         cfg_we_q;
  logic [3:0]   cfg_be_q;
  logic [31:0]  cfg_wdata_q;

  // Entry: bar, dword address, byte enables, data.
  logic [54:0]  fifo_q [8];
  logic [2:0]   frd_q, fwr_q;
  logic [3:0]   fcnt_d, fcnt_q;
  logic [7:0]   fbad_q;          // buffered dwords with bad parity
  logic [2:0]   fnewest;
  logic         fpush, fpop, fhead_bad;
  logic [54:0]  fhead;

  logic         addr_phase, irdy, xfer, last, ending, space;
  logic         hit0, hit1, hit_cfg, is_read, is_write, bad_address, window_end, bar_now, drained;
  logic         idle;
  logic [17:0]  next_dword;

  assign addr_phase = frame_prev_q & ~frame_n_i & ((state_q == StIdle) | (state_q == StTurn));
  assign irdy       = ~irdy_n_i;
  assign xfer       = irdy & ~trdy_n_q;
  assign last       = frame_n_i;

  // Decode of the registered address phase
  assign is_read  = (cmd_q == hvia_pkg::PciCommandMemoryRead) |
                    (cmd_q == hvia_pkg::PciCommandMemoryReadLine) |
                    (cmd_q == hvia_pkg::PciCommandMemoryReadMultiple);
  assign is_write = (cmd_q == hvia_pkg::PciCommandMemoryWrite) |
                    (cmd_q == hvia_pkg::PciCommandMemoryWriteInvalidate);
  assign hit0     = memory_en_i & (addr_q[31:16] == bar0_i);
  assign hit1     = memory_en_i & (addr_q[31:20] == bar1_i);
  assign hit_cfg  = idsel_q & (addr_q[1:0] == 2'b00) & (addr_q[10:8] == 3'd0);
  assign bad_address = (state_q == StDecode) & (par_i != pexpect_q);

  // A burst ends where its window ends.
  assign next_dword = addr_q[19:2] + {17'd0, xfer};
  assign bar_now    = (state_q == StDecode) ? hit1 : bar_q;
  assign window_end = bar_now ? (&next_dword) : (&next_dword[13:0]);

  // Posted writes
  assign fhead        = fifo_q[frd_q];
  assign tgt_wvalid_o = fcnt_q != 4'd0;
  assign tgt_wbar_o   = fhead[54];
  assign tgt_waddr_o  = {fhead[53:36], 2'b00};
  assign fnewest      = fwr_q - 3'd1;
  assign fhead_bad    = fbad_q[frd_q] | (perr_o & posted_q & (frd_q == fnewest));
  assign tgt_wbe_o    = fhead[35:32] & {4{~fhead_bad}};
  assign tgt_wdata_o  = fhead[31:0];
  assign fpush  = (state_q == StWrite) & xfer;
  assign fpop   = tgt_wvalid_o & tgt_wready_i;
  assign fcnt_d = fcnt_q + {3'd0, fpush} - {3'd0, fpop};
  assign space  = fcnt_q + {3'd0, fpush} <= FifoSpace + {3'd0, fpop};

  assign drained      = (fcnt_q == 4'd0) & ~rdrop_q;
  assign tgt_rvalid_o = rvalid_q;
  assign tgt_raddr_o  = {raddr_q, 2'b00};
  assign tgt_rbar_o   = rbar_q;

  assign cfg_addr_o    = addr_q[7:2];
  assign cfg_be_o      = cfg_be_q;
  assign cfg_wdata_o   = cfg_wdata_q;
  assign cfg_we_o      = cfg_we_q & ~perr_o;
  assign cfg_pending_o = cfg_we_q;

  always_comb begin
    state_d     = state_q;
    addr_d      = addr_q;
    cmd_d       = cmd_q;
    idsel_d     = idsel_q;
    bar_d       = bar_q;
    wrap_d      = wrap_q;
    age_d       = age_q;
    wait_d      = wait_q;
    trdy_n_d    = trdy_n_q;
    stop_n_d    = stop_n_q;
    devsel_n_d  = devsel_n_q;
    sel_oe_d    = sel_oe_q;
    ad_d        = ad_q;
    ad_oe_d     = ad_oe_q;
    rvalid_d    = rvalid_q & ~tgt_rready_i;
    rdrop_d     = rdrop_q & rvalid_q & ~tgt_rready_i;
    raddr_d     = raddr_q;
    rbar_d      = rbar_q;

    case (state_q)
      StIdle, StTurn: begin
        state_d  = StIdle;
        sel_oe_d = 1'b0;
        if (addr_phase) begin
          state_d = StDecode;
          addr_d  = ad_i;
          cmd_d   = cbe_n_i;
          idsel_d = idsel_i;
          age_d   = 4'd1;
        end
      end

      StDecode: begin
        state_d  = StIdle;
        bar_d    = hit1;
        wrap_d   = addr_q[1:0] != 2'b00;
        wait_d   = 3'd0;
        age_d    = 4'd2;
        if (~(bad_address & parity_en_i)) begin
          if ((hit0 | hit1) & is_write) begin
            state_d  = StWrite;
            trdy_n_d = ~space;
            stop_n_d = ~(space & (wrap_d | window_end));
          end else if ((hit0 | hit1) & is_read) begin
            state_d  = drained ? StRead : StDrain;
            rvalid_d = drained | rvalid_d;
            ad_oe_d  = 1'b1;
            if (drained) begin
              raddr_d = addr_q[19:2];
              rbar_d  = hit1;
            end
          end else if (hit_cfg & (cmd_q == hvia_pkg::PciCommandConfigWrite)) begin
            state_d  = StCfgWrite;
            trdy_n_d = 1'b0;
            stop_n_d = frame_n_i;
          end else if (hit_cfg & (cmd_q == hvia_pkg::PciCommandConfigRead)) begin
            state_d  = StCfgRead;
            ad_oe_d  = 1'b1;
          end
        end
        if (state_d != StIdle) begin
          devsel_n_d = 1'b0;
          sel_oe_d   = 1'b1;
        end
      end

      StWrite: begin
        if (xfer) begin
          addr_d = {addr_q[31:20], addr_q[19:2] + 18'd1, 2'b00};
          wait_d = 3'd0;
          if (ending) begin
            state_d = last ? StTurn : StStop;
          end else begin
            trdy_n_d = ~space;
            stop_n_d = ~(space & window_end);
          end
        end else if (trdy_n_q) begin
          wait_d = wait_q + 3'd1;
          if (space) begin
            trdy_n_d = 1'b0;
            stop_n_d = ~(wrap_q | window_end);
          end else if (wait_q == WriteWait) begin
            state_d  = StStop;
            stop_n_d = 1'b0;
          end
        end
      end

      StCfgWrite, StReadData: begin
        if (xfer) state_d = last ? StTurn : StStop;
      end

      StCfgRead: begin
        state_d  = StReadData;
        ad_d     = cfg_rdata_i;
        trdy_n_d = 1'b0;
        stop_n_d = frame_n_i;
      end

      StDrain: begin
        age_d = age_q + 4'd1;
        if (drained) begin
          state_d  = StRead;
          rvalid_d = 1'b1;
          raddr_d  = addr_q[19:2];
          rbar_d   = bar_q;
        end else if (age_q == DrainDeadline) begin
          state_d  = StStop;
          stop_n_d = 1'b0;
        end
      end

      StRead: begin
        age_d = age_q + 4'd1;
        if (tgt_rready_i) begin
          state_d  = StReadData;
          ad_d     = tgt_rdata_i;
          trdy_n_d = 1'b0;
          stop_n_d = frame_n_i;
        end else if (age_q == ReadDeadline) begin
          // The core is late. The master repeats the read; this result is dropped.
          state_d  = StStop;
          stop_n_d = 1'b0;
          rdrop_d  = 1'b1;
        end
      end

      default: begin  // StStop
        if (irdy & frame_n_i) state_d = StTurn;
      end
    endcase

    if (state_d == StStop) begin
      trdy_n_d = 1'b1;
      stop_n_d = 1'b0;
    end
    if ((state_d == StTurn) & (state_q != StTurn)) begin
      trdy_n_d   = 1'b1;
      stop_n_d   = 1'b1;
      devsel_n_d = 1'b1;
      ad_oe_d    = 1'b0;
    end
  end

  assign ending = last | ~stop_n_q;

  // PAR follows AD and C/BE# by one clock; parity of received data is checked one clock later.
  assign par_d     = ad_oe_q ? ^{ad_q, cbe_n_i} : par_q;
  assign pcheck_d  = ((state_q == StWrite) | (state_q == StCfgWrite)) & xfer;
  assign pexpect_d = (pcheck_d | addr_phase) ? ^{ad_i, cbe_n_i} : pexpect_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q      <= StIdle;
      frame_prev_q <= 1'b1;
      addr_q       <= 32'd0;
      cmd_q        <= 4'd0;
      idsel_q      <= 1'b0;
      bar_q        <= 1'b0;
      wrap_q       <= 1'b0;
      age_q        <= 4'd0;
      wait_q       <= 3'd0;
      trdy_n_q     <= 1'b1;
      stop_n_q     <= 1'b1;
      devsel_n_q   <= 1'b1;
      sel_oe_q     <= 1'b0;
      ad_q         <= 32'd0;
      ad_oe_q      <= 1'b0;
      par_q        <= 1'b0;
      par_oe_q     <= 1'b0;
      rvalid_q     <= 1'b0;
      rdrop_q      <= 1'b0;
      rbar_q       <= 1'b0;
      raddr_q      <= 18'd0;
      pcheck_q     <= 1'b0;
      pexpect_q    <= 1'b0;
      posted_q     <= 1'b0;
      cfg_we_q     <= 1'b0;
      fbad_q       <= 8'd0;
      frd_q        <= 3'd0;
      fwr_q        <= 3'd0;
      fcnt_q       <= 4'd0;
    end else begin
      state_q      <= state_d;
      frame_prev_q <= frame_n_i;
      addr_q       <= addr_d;
      cmd_q        <= cmd_d;
      idsel_q      <= idsel_d;
      bar_q        <= bar_d;
      wrap_q       <= wrap_d;
      age_q        <= age_d;
      wait_q       <= wait_d;
      trdy_n_q     <= trdy_n_d;
      stop_n_q     <= stop_n_d;
      devsel_n_q   <= devsel_n_d;
      sel_oe_q     <= sel_oe_d;
      ad_q         <= ad_d;
      ad_oe_q      <= ad_oe_d;
      par_q        <= par_d;
      par_oe_q     <= ad_oe_q;
      rvalid_q     <= rvalid_d;
      rdrop_q      <= rdrop_d;
      rbar_q       <= rbar_d;
      raddr_q      <= raddr_d;
      pcheck_q     <= pcheck_d;
      pexpect_q    <= pexpect_d;
      posted_q     <= fpush;
      cfg_we_q     <= (state_q == StCfgWrite) & xfer;
      if (perr_o & posted_q) fbad_q[fnewest] <= 1'b1;
      if (fpush)             fbad_q[fwr_q]   <= 1'b0;
      fcnt_q       <= fcnt_d;
      if (fpush) fwr_q <= fwr_q + 3'd1;
      if (fpop)  frd_q <= frd_q + 3'd1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (xfer) begin
      cfg_be_q    <= ~cbe_n_i;
      cfg_wdata_q <= ad_i;
    end
    if (fpush) fifo_q[fwr_q] <= {bar_q, addr_q[19:2], ~cbe_n_i, ad_i};
  end

  assign ad_o        = ad_q;
  assign ad_oe       = ad_oe_q;
  assign par_o       = par_q;
  assign par_oe      = par_oe_q;
  assign trdy_n_o    = trdy_n_q;
  assign trdy_n_oe   = sel_oe_q;
  assign devsel_n_o  = devsel_n_q;
  assign devsel_n_oe = sel_oe_q;
  assign stop_n_o    = stop_n_q;
  assign stop_n_oe   = sel_oe_q;

  assign stat_write_o = (state_q == StWrite) & xfer;
  assign stat_read_o  = (state_q == StRead) & tgt_rready_i;
  assign set_address_parity_o = bad_address;
  assign set_data_parity_o    = pcheck_q & (par_i != pexpect_q);
  assign perr_o               = set_data_parity_o & parity_en_i;

  assign idle    = (state_q == StIdle) & (fcnt_q == 4'd0) & ~rvalid_q & ~sel_oe_q;
  assign quiet_o = idle & (frame_prev_q == frame_n_i) & ~pcheck_q & ~par_oe_q;

endmodule
