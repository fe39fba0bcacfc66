// SPDX-License-Identifier: Apache-2.0

// Properties of `mac_bus_target`: latency of the first data, limit on wait states, read data stable
// while it waits, no state change while `quiet_o` is 1.

module hvia_mac_bus_target_checker #(
    parameter int unsigned W = 32
) (
    input logic         clk_i,
    input logic         rst_ni,
    input logic         clear_i,
    input logic         quiet_o,
    input logic [2:0]   state_q,
    input logic         frame_prev_q,
    input logic [31:0]  addr_q,
    input logic         addr_phase,
    input logic         claim,
    input logic         is_read,
    input logic         rd_ok_i,
    input logic         xfer,
    input logic         irdy_n_i,
    input logic         trdy_n_q,
    input logic         stop_n_q,
    input logic         devsel_n_q,
    input logic         ack64_n_q,
    input logic         sel_oe_q,
    input logic         ad_oe_q,
    input logic         par_oe_q,
    input logic         par64_oe_q,
    input logic         par_q,
    input logic         par64_q,
    input logic [W-1:0] ad_q,
    input logic         wr_valid_q
);

  localparam logic [5:0] ReadFirst  = 6'd6;  // clocks from FRAME# to the first data, at most
  localparam logic [5:0] WriteFirst = 6'd4;
  localparam logic [5:0] PhaseLimit = 6'd8;

  logic [W+44:0] now, was_q;
  logic          quiet_q, held_q, held_stop_q, moved_q, read_q, absent_q;
  logic [W-1:0]  ad_was_q;
  logic [5:0]    age_q, phase_q;

  assign now = {state_q, frame_prev_q, addr_q, trdy_n_q, stop_n_q, devsel_n_q, ack64_n_q, sel_oe_q,
      ad_oe_q, par_oe_q,
                par64_oe_q, wr_valid_q, ad_q};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q  <= 1'b0;
      held_q   <= 1'b0;
      moved_q  <= 1'b0;
      absent_q <= 1'b0;
      age_q    <= 6'd0;
      phase_q  <= 6'd0;
    end else begin
      quiet_q     <= quiet_o;
      was_q       <= now;
      held_q      <= ~trdy_n_q & irdy_n_i & ~clear_i;
      held_stop_q <= stop_n_q;
      ad_was_q    <= ad_q;
      age_q       <= addr_phase ? 6'd1 : age_q + 6'd1;
      if (claim) begin
        read_q   <= is_read;
        moved_q  <= 1'b0;
        absent_q <= ~rd_ok_i;
      end else if (~rd_ok_i) begin
        absent_q <= 1'b1;
      end
      phase_q <= (claim | xfer) ? 6'd0 : phase_q + 6'd1;
      if (xfer) moved_q <= 1'b1;

      if (quiet_q) begin
        assert (now == was_q) else $error("mac_bus_target: changed after it said quiet");
      end
      if (held_q & ~clear_i) begin
        assert (~trdy_n_q & (stop_n_q == held_stop_q) & (~ad_oe_q | (ad_q == ad_was_q)))
        else $error("mac_bus_target: a data phase was changed before the master took it");
      end
      if (~devsel_n_q & trdy_n_q & stop_n_q) begin
        assert (phase_q < PhaseLimit) else $error("mac_bus_target: no response within %0d clocks",
            PhaseLimit);
        // The target delays the chip only for bytes of a frame that are not written yet.
        assert (absent_q | (read_q ? age_q < ReadFirst : age_q < WriteFirst))
        else $error("mac_bus_target: first data %0d clocks after FRAME#", age_q);
        assert (~moved_q | absent_q) else $error("mac_bus_target: wait state inside a burst");
      end
    end
  end

  logic unused_parity;
  assign unused_parity = par_q ^ par64_q;

endmodule

bind hvia_mac_bus_target hvia_mac_bus_target_checker #(.W(W)) u_checker (.*);
