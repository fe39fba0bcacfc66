// SPDX-License-Identifier: Apache-2.0

// SDRAM controller for one 32-bit PC100 device of four banks: power-up sequence, refresh by
// deadline, open rows, one request port.
//
// The device runs with burst length 1 and one column command per clock. So a request of 1 to 8
// dwords streams at full rate, may stall on write data, and may be interrupted by a refresh at any
// beat. The open rows, a few short timers and the live request select each clock's command. The
// request is not copied: its fields are stable until `req_ready_o`, which comes with its last
// column command. Its dwords must lie in one row.
//
// Read data has no back-pressure: `rvalid_o` comes four clocks after the column command was
// decided. A hint opens a row ahead of a request and promises nothing.
//
// `slow_i` selects the clock counts for an SDRAM clock of `SdramSlowClockPeriod` and is static
// after reset.
//
// Address: the upper half of the memory (level 2) has its own two banks, so a walk does not close
// the rows of level 1. Neighbouring rows alternate between the two banks of their half.
module hvia_sdram_controller (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        slow_i,  // strap SlowSdram
    input  logic [47:0] timebase_i,
    output logic [47:0] next_deadline_o,
    output logic        quiet_o,
    output logic        init_done_o,

    input  logic        req_valid_i,
    output logic        req_ready_o,
    input  logic        req_write_i,
    input  logic [23:0] req_addr_i,   // dword address
    input  logic [ 3:0] req_len_i,    // dwords, 1 to 8
    input  logic        wvalid_i,
    output logic        wready_o,
    input  logic [31:0] wdata_i,
    output logic        rvalid_o,
    output logic [31:0] rdata_o,
    output logic        rlast_o,
    input  logic        hint_valid_i,
    input  logic [23:0] hint_addr_i,

    output logic        sd_cke_o,
    output logic        sd_cs_n_o,
    output logic        sd_ras_n_o,
    output logic        sd_cas_n_o,
    output logic        sd_we_n_o,
    output logic [ 1:0] sd_ba_o,
    output logic [11:0] sd_a_o,
    output logic [ 3:0] sd_dqm_o,
    output logic [31:0] sd_dq_o,
    output logic        sd_dq_oe_o,
    input  logic [31:0] sd_dq_i,

    output logic        stat_refresh_o,
    output logic        stat_activate_o
);

  localparam int unsigned Cas = hvia_params_pkg::SdramCasClocks;
  localparam int unsigned Rc = hvia_params_pkg::SdramRcClocks;
  localparam int unsigned SlowRc = hvia_params_pkg::SdramSlowRcClocks;
  localparam logic [3:0] InitRefreshes = 4'(hvia_params_pkg::SdramInitRefreshes);
  localparam logic [2:0] ModeReload = 3'(hvia_params_pkg::SdramMrdClocks - 1);
  localparam logic [2:0] WriteReload = 3'(hvia_params_pkg::SdramWrClocks - 1);

  // Clock counts derived from times.
  logic [47:0] power_up_clocks, refresh_clocks;
  logic [3:0] act_reload, act_column, act_precharge;
  logic [2:0] pre_reload;
  assign power_up_clocks = slow_i ? 48'(hvia_params_pkg::SdramSlowPowerUpClocks) :
      48'(hvia_params_pkg::SdramPowerUpClocks);
  assign refresh_clocks  = slow_i ? 48'(hvia_params_pkg::SdramSlowRefreshClocks) :
      48'(hvia_params_pkg::SdramRefreshClocks);
  assign act_reload      = slow_i ? 4'(SlowRc - 1) : 4'(Rc - 1);
  assign act_column      = slow_i ? 4'(SlowRc - hvia_params_pkg::SdramSlowRcdClocks) :
      4'(Rc - hvia_params_pkg::SdramRcdClocks);
  assign act_precharge   = slow_i ? 4'(SlowRc - hvia_params_pkg::SdramSlowRasClocks) :
      4'(Rc - hvia_params_pkg::SdramRasClocks);
  assign pre_reload      = slow_i ? 3'(hvia_params_pkg::SdramSlowRpClocks - 1) :
      3'(hvia_params_pkg::SdramRpClocks - 1);

  // Mode register: burst length 1, sequential, CAS latency.
  localparam logic [11:0] ModeValue = {5'b00000, 3'(Cas), 4'b0000};
  localparam logic [11:0] AllBanks = 12'h400;  // A10 of PRECHARGE

  // Commands as {CS#, RAS#, CAS#, WE#}.
  localparam logic [3:0] CmdNop = 4'b0111;
  localparam logic [3:0] CmdActive = 4'b0011;
  localparam logic [3:0] CmdRead = 4'b0101;
  localparam logic [3:0] CmdWrite = 4'b0100;
  localparam logic [3:0] CmdPrecharge = 4'b0010;
  localparam logic [3:0] CmdRefresh = 4'b0001;
  localparam logic [3:0] CmdMode = 4'b0000;

  typedef enum logic [2:0] {
    StArm,
    StPowerUp,
    StInitPrecharge,
    StInitRefresh,
    StInitMode,
    StRun
  } state_e;

  state_e state_q, state_d;
  logic [47:0] deadline_q;
  logic due;
  logic [3:0] init_left_q;

  logic [3:0] open_q;
  logic [11:0] row0_q, row1_q, row2_q, row3_q;
  logic [3:0] beat_q;

  // Timers in clocks. One timer serves all banks: the port serves one request at a time, so a timer
  // per bank would rarely save a clock.
  logic [3:0] act_timer_q;  // since ACTIVE or REFRESH
  logic [2:0] pre_timer_q;  // since PRECHARGE or MODE REGISTER SET
  logic [2:0] wr_timer_q;  // since WRITE
  logic [Cas:0] rd_valid_q, rd_last_q;

  logic [3:0] cmd_q, cmd_d;
  logic [1:0] ba_q, ba_d;
  logic [11:0] a_q, a_d;
  logic [31:0] dq_q;
  logic cke_q;
  logic [3:0] dqm_q;
  logic rvalid_q, rlast_q;
  logic [31:0] rdata_q;

  assign due = timebase_i >= deadline_q;

  // The row in demand: the request's, else the hint's.
  logic [23:0] target;
  logic [ 1:0] bank;
  logic [11:0] row, open_row;
  logic [9:0] column;
  logic bank_open, row_hit, last_beat;
  assign target    = req_valid_i ? req_addr_i : hint_addr_i;
  assign bank      = {target[23], target[10]};
  assign row       = target[22:11];
  assign column    = target[9:0] + {6'b0, beat_q};
  assign bank_open = open_q[bank];
  assign open_row  = bank[1] ? (bank[0] ? row3_q : row2_q) : (bank[0] ? row1_q : row0_q);
  assign row_hit   = bank_open && (open_row == row);
  assign last_beat = beat_q + 4'd1 == req_len_i;

  logic may_activate, may_column, may_precharge, may_write;
  assign may_activate  = (act_timer_q == 4'd0) && (pre_timer_q == 3'd0);
  assign may_column    = act_timer_q <= act_column;
  assign may_precharge = (act_timer_q <= act_precharge) && (wr_timer_q == 3'd0);
  // The device drives the data lines until the last read beat was captured.
  assign may_write     = may_column && wvalid_i && (rd_valid_q == '0);

  always_comb begin
    state_d = state_q;
    cmd_d   = CmdNop;
    ba_d    = ba_q;
    a_d     = a_q;
    unique case (state_q)
      StArm: state_d = StPowerUp;
      StPowerUp: if (due) state_d = StInitPrecharge;
      StInitPrecharge: begin
        cmd_d   = CmdPrecharge;
        a_d     = AllBanks;
        state_d = StInitRefresh;
      end
      StInitRefresh: begin
        if (may_activate) begin
          if (init_left_q != 4'd0) begin
            cmd_d = CmdRefresh;
          end else begin
            cmd_d   = CmdMode;
            ba_d    = 2'b00;
            a_d     = ModeValue;
            state_d = StInitMode;
          end
        end
      end
      StInitMode: if (pre_timer_q == 3'd0) state_d = StRun;
      StRun: begin
        if (due) begin
          if (open_q != 4'd0) begin
            if (may_precharge) begin
              cmd_d = CmdPrecharge;
              a_d   = AllBanks;
            end
          end else if (may_activate) begin
            cmd_d = CmdRefresh;
          end
        end else if (req_valid_i || hint_valid_i) begin
          if (row_hit) begin
            if (req_valid_i && may_column && !req_write_i) begin
              cmd_d = CmdRead;
              ba_d  = bank;
              a_d   = {2'b00, column};
            end else if (req_valid_i && req_write_i && may_write) begin
              cmd_d = CmdWrite;
              ba_d  = bank;
              a_d   = {2'b00, column};
            end
          end else if (bank_open) begin
            if (may_precharge) begin
              cmd_d = CmdPrecharge;
              ba_d  = bank;
              a_d   = 12'h000;
            end
          end else if (may_activate) begin
            cmd_d = CmdActive;
            ba_d  = bank;
            a_d   = row;
          end
        end
      end
      default: state_d = StArm;
    endcase
  end

  logic do_column;
  assign do_column   = (cmd_d == CmdRead) || (cmd_d == CmdWrite);
  assign req_ready_o = do_column && last_beat;
  assign wready_o    = cmd_d == CmdWrite;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q     <= StArm;
      deadline_q  <= '1;
      init_left_q <= InitRefreshes;
      open_q      <= 4'd0;
      beat_q      <= 4'd0;
      act_timer_q <= 4'd0;
      pre_timer_q <= 3'd0;
      wr_timer_q  <= 3'd0;
      rd_valid_q  <= '0;
      rd_last_q   <= '0;
      cmd_q       <= CmdNop;
      ba_q        <= 2'b00;
      a_q         <= 12'h000;
      cke_q       <= 1'b0;
      dqm_q       <= 4'hf;
      rvalid_q    <= 1'b0;
      rlast_q     <= 1'b0;
    end else begin
      state_q <= state_d;
      cke_q   <= 1'b1;
      cmd_q   <= cmd_d;
      ba_q    <= ba_d;
      a_q     <= a_d;
      dqm_q   <= (state_q == StRun) ? 4'h0 : 4'hf;

      if (state_q == StArm) deadline_q <= timebase_i + power_up_clocks;
      else if (state_q == StInitMode) deadline_q <= timebase_i + refresh_clocks;
      else if ((state_q == StRun) && (cmd_d == CmdRefresh)) deadline_q <= deadline_q +
          refresh_clocks;

      if ((cmd_d == CmdActive) || (cmd_d == CmdRefresh)) act_timer_q <= act_reload;
      else if (act_timer_q != 4'd0) act_timer_q <= act_timer_q - 4'd1;

      if (cmd_d == CmdPrecharge) pre_timer_q <= pre_reload;
      else if (cmd_d == CmdMode) pre_timer_q <= ModeReload;
      else if (pre_timer_q != 3'd0) pre_timer_q <= pre_timer_q - 3'd1;

      if (cmd_d == CmdWrite) wr_timer_q <= WriteReload;
      else if (wr_timer_q != 3'd0) wr_timer_q <= wr_timer_q - 3'd1;

      if ((state_q == StInitRefresh) && (cmd_d == CmdRefresh)) init_left_q <= init_left_q - 4'd1;

      if (cmd_d == CmdActive) open_q[bank] <= 1'b1;
      else if (cmd_d == CmdPrecharge) begin
        if (a_d[10]) open_q <= 4'd0;
        else open_q[bank] <= 1'b0;
      end

      if (do_column) beat_q <= last_beat ? 4'd0 : beat_q + 4'd1;

      rd_valid_q <= {rd_valid_q[Cas-1:0], cmd_d == CmdRead};
      rd_last_q  <= {rd_last_q[Cas-1:0], (cmd_d == CmdRead) && last_beat};
      rvalid_q   <= rd_valid_q[Cas];
      rlast_q    <= rd_valid_q[Cas] && rd_last_q[Cas];
    end
  end

  always_ff @(posedge clk_i) begin
    if (cmd_d == CmdActive) begin
      if (bank == 2'd0) row0_q <= row;
      if (bank == 2'd1) row1_q <= row;
      if (bank == 2'd2) row2_q <= row;
      if (bank == 2'd3) row3_q <= row;
    end
    if (cmd_d == CmdWrite) dq_q <= wdata_i;
    if (rd_valid_q[Cas]) rdata_q <= sd_dq_i;
  end

  assign rvalid_o = rvalid_q;
  assign rlast_o  = rlast_q;
  assign rdata_o  = rdata_q;

  assign sd_cke_o = cke_q;
  assign {sd_cs_n_o, sd_ras_n_o, sd_cas_n_o, sd_we_n_o} = cmd_q;
  assign sd_ba_o    = ba_q;
  assign sd_a_o     = a_q;
  assign sd_dqm_o   = dqm_q;
  assign sd_dq_o    = dq_q;
  assign sd_dq_oe_o = cmd_q == CmdWrite;

  assign init_done_o     = state_q == StRun;
  assign next_deadline_o = deadline_q;
  assign stat_refresh_o  = cmd_q == CmdRefresh;
  assign stat_activate_o = cmd_q == CmdActive;

  // Quiescent: waiting for the power-up or refresh deadline with every short timer expired, the
  // pins at NOP and no beat in flight.
  logic waiting;
  assign waiting = (state_q == StRun) ? (dqm_q == 4'h0) : (state_q == StPowerUp);
  assign quiet_o = waiting && !due && (cmd_d == CmdNop) && (cmd_q == CmdNop) &&
      (act_timer_q == 4'd0) && (pre_timer_q == 3'd0) && (wr_timer_q == 3'd0) &&
      (rd_valid_q == '0) && (rd_last_q == '0) && !rvalid_q && cke_q;

endmodule
