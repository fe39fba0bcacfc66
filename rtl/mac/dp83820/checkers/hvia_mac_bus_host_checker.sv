// SPDX-License-Identifier: Apache-2.0

// Properties of `mac_bus_host`: the host starts only on a bus that it owns; it gives the chip no
// grant while it requires the bus or the chip is in reset; every wait ends; no state changes while
// `quiet_o` is 1.

module hvia_mac_bus_host_checker (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        quiet_o,
    input logic [1:0]  state_q,
    input logic [4:0]  step_q,
    input logic        run_q,
    input logic        start,
    input logic        finish,
    input logic        reset,
    input logic        active,
    input logic        ready_q,
    input logic        resetting_q,
    input logic        error_q,
    input logic        rst_n_q,
    input logic        have_q,
    input logic        want_q,
    input logic        kick_q,
    input logic        gnt_n_q,
    input logic        gnt_prev_q,
    input logic        ad_oe_q,
    input logic        par_oe_q,
    input logic        par_q,
    input logic [31:0] ad_q,
    input logic [3:0]  cbe_q,
    input logic        frame_n_q,
    input logic        frame_oe_q,
    input logic        irdy_n_q,
    input logic        irdy_oe_q,
    input logic        frame_n_i,
    input logic        irdy_n_i,
    input logic        begin_q,
    input logic        end_q,
    input logic [5:0]  stuck_q
);

  localparam logic [6:0] HostLimit = 7'd100;  // clocks of one transaction of the host

  logic [60:0] now, was_q;
  logic        quiet_q, started_q, traced_q;
  logic [6:0]  age_q;

  assign now = {state_q, step_q, run_q, ready_q, resetting_q, error_q, rst_n_q, have_q, want_q,
      kick_q, gnt_n_q,
                gnt_prev_q, ad_oe_q, par_oe_q, par_q, ad_q, cbe_q, frame_n_q, frame_oe_q, irdy_n_q,
                    irdy_oe_q, 1'b0};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q   <= 1'b0;
      started_q <= 1'b0;
      traced_q  <= 1'b0;
      age_q     <= 7'd0;
    end else begin
      quiet_q   <= quiet_o;
      was_q     <= now;
      started_q <= start;
      age_q     <= (state_q == 2'd0) ? 7'd0 : age_q + 7'd1;
      if (quiet_q) begin
        assert (now == was_q) else $error("mac_bus_host: changed after it said quiet");
      end
      if (start) begin
        assert (gnt_n_q & gnt_prev_q & frame_n_i & irdy_n_i & ~resetting_q)
        else $error("mac_bus_host: started on a bus that is not the host's");
      end
      if (started_q) begin
        assert (~frame_n_q & frame_oe_q & ad_oe_q) else $error("mac_bus_host: no address phase");
      end
      if (~rst_n_q) begin
        assert (gnt_n_q & ~ready_q & (state_q == 2'd0))
        else $error("mac_bus_host: uses the bus while the chip is in reset");
      end
      assert (age_q < HostLimit) else $error("mac_bus_host: a transaction does not end");
      assert (~(finish & (state_q == 2'd0))) else $error("mac_bus_host: end of no transaction");
      assert (~(reset & active & start)) else $error("mac_bus_host: starts into a reset");
      // Starts and ends alternate.
      if (begin_q | end_q) begin
        traced_q <= begin_q;
        assert ((begin_q ^ end_q) & (begin_q != traced_q))
        else $error("mac_bus_host: transactions of the bus overlap: stuck %0d", stuck_q);
      end
    end
  end

endmodule

bind hvia_mac_bus_host hvia_mac_bus_host_checker u_checker (.*);
