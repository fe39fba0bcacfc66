// SPDX-License-Identifier: Apache-2.0

// Properties of `reset_control`: a soft reset never cuts off a bus transaction; the domains are in
// reset only while the card reports busy; the straps are static outside a reset.

module hvia_reset_control_checker (
    input logic        clk_i,
    input logic        bus_rst_no,
    input logic        core_live,
    input logic        sd_live,
    input logic        mac_live,
    input logic        bus_idle_i,
    input logic        quiesce_o,
    input logic        busy_o,
    input logic [ 1:0] state_q,
    input logic        domains_rst_nq,
    input logic [31:0] strap_o,
    input logic        quiet_o
);

  logic idle_q, quiesce_q, released_q, quiet_q;
  logic [31:0] strap_q;
  logic [2:0] now, then_q;
  assign now = {state_q, domains_rst_nq};

  always_ff @(posedge clk_i) begin
    if (!bus_rst_no) begin
      idle_q     <= 1'b0;
      quiesce_q  <= 1'b0;
      released_q <= 1'b0;
      quiet_q    <= 1'b0;
      strap_q    <= '0;
      then_q     <= '0;
    end else begin
      idle_q     <= bus_idle_i;
      quiesce_q  <= quiesce_o;
      released_q <= domains_rst_nq;
      quiet_q    <= quiet_o;
      strap_q    <= strap_o;
      then_q     <= now;
      if (released_q && !domains_rst_nq) begin
        assert (idle_q && quiesce_q)
        else $error("reset_control: the domains are reset while the bus is not idle");
      end
      assert (busy_o || (core_live && sd_live && mac_live))
      else $error("reset_control: not busy while a domain is in reset");
      if (released_q) begin
        assert (strap_o == strap_q)
        else $error("reset_control: the straps changed outside a reset");
      end
      if (quiet_q) begin
        assert (now == then_q)
        else $error("reset_control: a register changed after quiet");
      end
    end
  end

endmodule

bind hvia_reset_control hvia_reset_control_checker u_checker (.*);
