// SPDX-License-Identifier: Apache-2.0

// Target on the MAC bus: the memory that the DP83820 sees, descriptors and packet buffers, up to
// `MacMemoryBytes`. Medium DEVSEL#. A write moves its first data two clocks after FRAME#, a read
// three; there are no wait states after that, unless the word is not there yet (`rd_ok_i`, a packet
// buffer that the engine still fills): then the target waits, and disconnects within PCI's eight
// clocks.
//
// With W = 64 a transfer is 64 bits wide if the master asks for it (REQ64#) at an aligned address.
//
// Every pin output is a flip-flop. Read data passes two stages, the memory's output register and
// AD, so the next word is ready when one moves. A written word is passed on one clock later, with
// its parity result.
module hvia_mac_bus_target #(
    parameter int unsigned W = 32
) (
    input  logic           clk_i,
    input  logic           rst_ni,
    input  logic           clear_i,  // the chip is in reset: leave the bus
    output logic           quiet_o,

    // Read side. Data follows `rd_en_o` by one clock and is stable until the next.
    output logic           rd_en_o,
    output logic [13:0]    rd_addr_o,  // of a word of W bits
    input  logic           rd_ok_i,    // that word may be read; combinational
    input  logic [W-1:0]   rd_data_i,
    // A data phase of a read moved data.
    output logic           rd_done_o,
    output logic [13:0]    rd_done_addr_o,
    output logic           rd_done_wide_o,
    output logic [31:0]    rd_done_data_o,  // the (lower) dword at that address

    // Write side.
    output logic           wr_valid_o,
    output logic [13:0]    wr_addr_o,  // of a word of W bits
    output logic [W-1:0]   wr_data_o,
    output logic [W/8-1:0] wr_be_o,
    output logic           wr_bad_o,   // parity error

    output logic           address_error_o,  // parity error in an address phase, one clock

    // Pins
    input  logic [W-1:0]   ad_i,
    output logic [W-1:0]   ad_o,
    output logic           ad_oe,
    input  logic [W/8-1:0] cbe_n_i,
    input  logic           par_i,
    output logic           par_o,
    output logic           par_oe,
    input  logic           par64_i,
    output logic           par64_o,
    output logic           par64_oe,
    input  logic           frame_n_i,
    input  logic           irdy_n_i,
    input  logic           req64_n_i,
    output logic           trdy_n_o,
    output logic           trdy_n_oe,
    output logic           devsel_n_o,
    output logic           devsel_n_oe,
    output logic           stop_n_o,
    output logic           stop_n_oe,
    output logic           ack64_n_o,
    output logic           ack64_n_oe
);

  localparam int unsigned LaneW = $clog2(W / 8);
  localparam logic [2:0]  WaitLimit = 3'd5;  // wait states before a disconnect; PCI allows 8
  localparam int unsigned SlotW = $clog2(hvia_params_pkg::PacketSlotBytes);

  // StRead, StWrite: data phases. StStop: STOP# without data until FRAME# rises. StTurn: drive the
  // pins high for one clock before the release.
  typedef enum logic [2:0] {StIdle, StDecode, StWrite, StRead, StStop, StTurn} state_e;

  state_e            state_d, state_q;
  logic              frame_prev_q;
  logic [31:0]       addr_d, addr_q;  // of the address phase, later of the present data phase
  logic [3:0]        cmd_d, cmd_q;
  logic              req64_d, req64_q;
  logic              wide_d, wide_q;
  logic [2:0]        wait_d, wait_q;
  logic [13-LaneW:0] fetch_d, fetch_q;    // next word to read
  logic              fetched_d, fetched_q;  // the memory's output register holds a word
  logic              trdy_n_d, trdy_n_q, stop_n_d, stop_n_q, devsel_n_d, devsel_n_q;
  logic              ack64_n_d, ack64_n_q, sel_oe_d, sel_oe_q;
  logic [W-1:0]      ad_d, ad_q;
  logic              ad_oe_d, ad_oe_q, par_d, par_q, par_oe_q;
  logic              par64_d, par64_q, par64_oe_d, par64_oe_q;
  logic              pexpect_d, pexpect_q, pexpect64_d, pexpect64_q;
  logic              wr_valid_d, wr_valid_q, wr_wide_d, wr_wide_q;
  logic [13:0]       wr_addr_d, wr_addr_q;
  logic [W-1:0]      wr_data_d, wr_data_q;
  logic [W/8-1:0]    wr_be_d, wr_be_q;

  logic              addr_phase, irdy, xfer, last, ending, is_read, is_write, hit, bad_address;
  logic              linear, upper_stays, take, issue, window_end, claim, wide_now;
  logic [31:0]       step, phase_addr;
  logic [W-1:0]      fresh, shifted;
  logic              ad_parity64;

  assign addr_phase = frame_prev_q & ~frame_n_i & ((state_q == StIdle) | (state_q == StTurn));
  assign irdy       = ~irdy_n_i;
  assign xfer       = irdy & ~trdy_n_q;
  assign last       = frame_n_i;
  assign ending     = last | ~stop_n_q;

  // Decode of the registered address phase
  assign is_read  = (cmd_q == hvia_pkg::PciCommandMemoryRead) |
                    (cmd_q == hvia_pkg::PciCommandMemoryReadLine) |
                    (cmd_q == hvia_pkg::PciCommandMemoryReadMultiple);
  assign is_write = (cmd_q == hvia_pkg::PciCommandMemoryWrite) |
                    (cmd_q == hvia_pkg::PciCommandMemoryWriteInvalidate);
  assign hit      = addr_q < {16'd0, hvia_pkg::MacMemoryBytes};
  assign linear   = addr_q[1:0] == 2'b00;
  assign bad_address = (state_q == StDecode) & (par_i != pexpect_q);

  assign claim    = (state_q == StDecode) & hit & (is_read | is_write) & ~bad_address;
  assign wide_now = (state_q == StDecode) ? (W == 64) & req64_q & (addr_q[2:0] == 3'd0) : wide_q;

  // The address of the next data phase. No transaction leaves its packet buffer.
  assign step       = wide_q ? 32'd8 : 32'd4;
  assign phase_addr = xfer ? addr_q + step : addr_q;
  assign window_end = (&phase_addr[SlotW-1:3]) & (phase_addr[2] | wide_now);

  // Reads. A 32-bit transfer on the 64-bit bus takes two data phases for a word.
  assign upper_stays = (W == 64) & ~wide_q & ~addr_q[2];
  assign take  = (state_q == StRead) & fetched_q & (trdy_n_q | (xfer & ~upper_stays & ~ending));
  assign issue = rd_ok_i & ((claim & is_read) | ((state_q == StRead) & (~fetched_q | take)));
  assign rd_en_o   = issue;
  assign rd_addr_o = {(state_q == StDecode) ? addr_q[13:LaneW] : fetch_q, {LaneW{1'b0}}};

  assign rd_done_o      = (state_q == StRead) & xfer;
  assign rd_done_addr_o = {addr_q[13:2], 2'b00};
  assign rd_done_wide_o = wide_q;
  assign rd_done_data_o = ad_q[31:0];

  if (W == 64) begin : gen_wide
    assign fresh       = (~wide_q & phase_addr[2]) ? {2{rd_data_i[W-1:W-32]}} : rd_data_i;
    assign shifted     = {2{ad_q[W-1:W-32]}};
    assign wr_data_d   = wide_q ? ad_i : {2{ad_i[31:0]}};
    assign wr_be_d     = wide_q ? ~cbe_n_i : {{4{addr_q[2]}} & ~cbe_n_i[3:0], {4{~addr_q[2]}} &
        ~cbe_n_i[3:0]};
    assign ad_parity64 = ^{ad_q[W-1:W-32], cbe_n_i[W/8-1:W/8-4]};
    assign pexpect64_d = xfer ? ^{ad_i[W-1:W-32], cbe_n_i[W/8-1:W/8-4]} : pexpect64_q;
  end else begin : gen_narrow
    assign fresh       = rd_data_i;
    assign shifted     = ad_q;
    assign wr_data_d   = ad_i;
    assign wr_be_d     = ~cbe_n_i;
    assign ad_parity64 = 1'b0;
    assign pexpect64_d = 1'b0;
  end

  always_comb begin
    state_d    = state_q;
    addr_d     = addr_q;
    cmd_d      = cmd_q;
    req64_d    = req64_q;
    wide_d     = wide_q;
    wait_d     = wait_q;
    fetch_d    = fetch_q;
    fetched_d  = fetched_q;
    trdy_n_d   = trdy_n_q;
    stop_n_d   = stop_n_q;
    devsel_n_d = devsel_n_q;
    ack64_n_d  = ack64_n_q;
    sel_oe_d   = sel_oe_q;
    ad_d       = ad_q;
    ad_oe_d    = ad_oe_q;

    case (state_q)
      StIdle, StTurn: begin
        state_d  = StIdle;
        sel_oe_d = 1'b0;
        if (addr_phase) begin
          state_d = StDecode;
          addr_d  = ad_i[31:0];
          cmd_d   = cbe_n_i[3:0];
          req64_d = ~req64_n_i;
        end
      end

      StDecode: begin
        state_d   = StIdle;
        wait_d    = 3'd0;
        wide_d    = wide_now;
        fetch_d   = addr_q[13:LaneW];
        fetched_d = 1'b0;
        if (claim) begin
          if (is_write) begin
            state_d  = StWrite;
            trdy_n_d = 1'b0;
            stop_n_d = ~(~linear | window_end);
          end else begin
            state_d = StRead;
            ad_oe_d = 1'b1;
          end
          devsel_n_d = 1'b0;
          ack64_n_d  = ~wide_now;
          sel_oe_d   = 1'b1;
        end
      end

      StWrite: begin
        if (xfer) begin
          addr_d = phase_addr;
          if (ending) state_d = last ? StTurn : StStop;
          else        stop_n_d = ~window_end;
        end
      end

      StRead: begin
        if (xfer) begin
          addr_d = phase_addr;
          if (ending) begin
            state_d = last ? StTurn : StStop;
          end else if (upper_stays) begin
            ad_d     = shifted;
            stop_n_d = ~window_end;
          end else begin
            trdy_n_d = 1'b1;
          end
        end
        if (take) begin
          ad_d     = fresh;
          trdy_n_d = 1'b0;
          stop_n_d = ~(~linear | window_end);
          wait_d   = 3'd0;
        end else if (trdy_n_q) begin
          wait_d = wait_q + 3'd1;
          if (wait_q == WaitLimit) state_d = StStop;
        end
        if (take) fetched_d = 1'b0;
      end

      default: begin  // StStop
        if (frame_n_i) state_d = StTurn;
      end
    endcase

    if (issue) begin
      fetched_d = 1'b1;
      fetch_d   = rd_addr_o[13:LaneW] + 1'b1;
    end
    if (clear_i & (state_q != StIdle) & (state_q != StTurn)) state_d = StTurn;
    if (state_d == StStop) begin
      trdy_n_d = 1'b1;
      stop_n_d = 1'b0;
    end
    if ((state_d == StTurn) & (state_q != StTurn)) begin
      trdy_n_d   = 1'b1;
      stop_n_d   = 1'b1;
      devsel_n_d = 1'b1;
      ack64_n_d  = 1'b1;
      ad_oe_d    = 1'b0;
      fetched_d  = 1'b0;
    end
  end

  // PAR follows AD and C/BE# by one clock; parity of the chip's data is checked one clock later.
  assign par_d      = ad_oe_q ? ^{ad_q[31:0], cbe_n_i[3:0]} : par_q;
  assign par64_d    = (ad_oe_q & wide_q) ? ad_parity64 : par64_q;
  assign par64_oe_d = ad_oe_q & wide_q;
  assign wr_valid_d = (state_q == StWrite) & xfer & ~clear_i;
  assign wr_addr_d  = {addr_q[13:LaneW], {LaneW{1'b0}}};
  assign wr_wide_d  = wide_q;
  assign pexpect_d  = (addr_phase | xfer) ? ^{ad_i[31:0], cbe_n_i[3:0]} : pexpect_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q      <= StIdle;
      frame_prev_q <= 1'b1;
      addr_q       <= 32'd0;
      cmd_q        <= 4'd0;
      req64_q      <= 1'b0;
      wide_q       <= 1'b0;
      wait_q       <= 3'd0;
      fetch_q      <= '0;
      fetched_q    <= 1'b0;
      trdy_n_q     <= 1'b1;
      stop_n_q     <= 1'b1;
      devsel_n_q   <= 1'b1;
      ack64_n_q    <= 1'b1;
      sel_oe_q     <= 1'b0;
      ad_q         <= '0;
      ad_oe_q      <= 1'b0;
      par_q        <= 1'b0;
      par_oe_q     <= 1'b0;
      par64_q      <= 1'b0;
      par64_oe_q   <= 1'b0;
      pexpect_q    <= 1'b0;
      pexpect64_q  <= 1'b0;
      wr_valid_q   <= 1'b0;
    end else begin
      state_q      <= state_d;
      frame_prev_q <= frame_n_i;
      addr_q       <= addr_d;
      cmd_q        <= cmd_d;
      req64_q      <= req64_d;
      wide_q       <= wide_d;
      wait_q       <= wait_d;
      fetch_q      <= fetch_d;
      fetched_q    <= fetched_d;
      trdy_n_q     <= trdy_n_d;
      stop_n_q     <= stop_n_d;
      devsel_n_q   <= devsel_n_d;
      ack64_n_q    <= ack64_n_d;
      sel_oe_q     <= sel_oe_d;
      ad_q         <= ad_d;
      ad_oe_q      <= ad_oe_d;
      par_q        <= par_d;
      par_oe_q     <= ad_oe_q;
      par64_q      <= par64_d;
      par64_oe_q   <= par64_oe_d;
      pexpect_q    <= pexpect_d;
      pexpect64_q  <= pexpect64_d;
      wr_valid_q   <= wr_valid_d;
    end
  end

  always_ff @(posedge clk_i) begin
    if (wr_valid_d) begin
      wr_addr_q <= wr_addr_d;
      wr_wide_q <= wr_wide_d;
      wr_data_q <= wr_data_d;
      wr_be_q   <= wr_be_d;
    end
  end

  assign wr_valid_o = wr_valid_q;
  assign wr_addr_o  = wr_addr_q;
  assign wr_data_o  = wr_data_q;
  assign wr_be_o    = wr_be_q;
  assign wr_bad_o   = wr_valid_q & ((par_i != pexpect_q) | (wr_wide_q & (par64_i != pexpect64_q)));
  assign address_error_o = bad_address;

  assign ad_o        = ad_q;
  assign ad_oe       = ad_oe_q;
  assign par_o       = par_q;
  assign par_oe      = par_oe_q;
  assign par64_o     = par64_q;
  assign par64_oe    = par64_oe_q;
  assign trdy_n_o    = trdy_n_q;
  assign trdy_n_oe   = sel_oe_q;
  assign devsel_n_o  = devsel_n_q;
  assign devsel_n_oe = sel_oe_q;
  assign stop_n_o    = stop_n_q;
  assign stop_n_oe   = sel_oe_q;
  assign ack64_n_o   = ack64_n_q;
  assign ack64_n_oe  = (W == 64) & sel_oe_q;

  // When idle, only the registers that follow the bus change.
  assign quiet_o = (state_q == StIdle) & ~addr_phase & (frame_prev_q == frame_n_i) & ~sel_oe_q &
      ~par_oe_q &
                   ~par64_oe_q & ~ad_oe_q & ~wr_valid_q;

endmodule
