// SPDX-License-Identifier: Apache-2.0

// Resets of the card. Both kinds end in the same sequence:
//
//   RST# (`rst_ni`, asynchronous): the card leaves the system bus at once, everything else is reset
//   at the next edge; the reset of each domain is released with its clock.
//   Soft reset (`soft_reset_i`, from the Control register): the PCI master stops
//   taking requests (`quiesce_o`) and finishes, so that no bus transaction is
//   cut off; then the core, SDRAM and MAC domains are reset while the PCI side,
//   configuration space and target keep running (`bus_rst_no` stays released).
//
// `busy_o` is 1 from the request, or power-up, until every domain has left its reset. The wait for
// the bus ends because every transaction ends, and with BusMaster off no pending one starts; the
// waits for the domains take a few of their clocks.
//
// The straps are sampled while the domains are in reset and are static afterwards, so they may
// drive logic of any domain.
module hvia_reset_control (
    input logic clk_i,
    input logic rst_ni,
    input logic sd_clk_i,
    input logic mac_clk_i,

    input  logic soft_reset_i,
    output logic busy_o,

    output logic quiesce_o,
    input  logic bus_idle_i,

    output logic bus_rst_no,
    output logic core_rst_no,
    output logic sd_rst_no,
    output logic mac_rst_no,

    input  logic [31:0] strap_i,
    output logic [31:0] strap_o,

    output logic quiet_o
);

  typedef enum logic [1:0] {
    StAssert,   // the domains are in reset
    StRelease,  // they leave it, each by its own clock
    StRun,
    StQuiesce   // the PCI master finishes what it started
  } state_e;
  state_e state_q, state_d;

  logic bus_live;
  hvia_cdc_reset_sync u_bus (
      .clk_i, .arst_ni(rst_ni), .rst_no(bus_rst_no), .live_o(bus_live)
  );

  // A dedicated flip-flop drives the asynchronous resets: only the gate with the pin's reset is
  // between, so nothing can glitch.
  logic domains_rst_nq, domains_arst_n;
  assign domains_arst_n = bus_rst_no & domains_rst_nq;

  logic core_live, sd_live, mac_live;
  hvia_cdc_reset_sync u_core (
      .clk_i, .arst_ni(domains_arst_n), .rst_no(core_rst_no), .live_o(core_live)
  );
  hvia_cdc_reset_sync u_sd (
      .clk_i(sd_clk_i), .arst_ni(domains_arst_n), .rst_no(sd_rst_no), .live_o(sd_live)
  );
  hvia_cdc_reset_sync u_mac (
      .clk_i(mac_clk_i), .arst_ni(domains_arst_n), .rst_no(mac_rst_no), .live_o(mac_live)
  );

  logic [1:0] live_sync;
  logic       live_settled;
  hvia_cdc_sync #(.Width(2)) u_live (
      .clk_i, .rst_ni(bus_rst_no), .d_i({mac_live, sd_live}), .q_o(live_sync),
      .settled_o(live_settled)
  );

  logic all_live, all_reset;
  assign all_live  = core_live && (&live_sync);
  assign all_reset = !core_live && !(|live_sync);

  always_comb begin
    state_d = state_q;
    case (state_q)
      StAssert:  if (bus_live && all_reset) state_d = StRelease;
      StRelease: if (all_live) state_d = StRun;
      StRun:     if (soft_reset_i) state_d = StQuiesce;
      StQuiesce: if (bus_idle_i) state_d = StAssert;
      default:   state_d = StAssert;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!bus_rst_no) begin
      state_q        <= StAssert;
      domains_rst_nq <= 1'b0;
    end else begin
      state_q        <= state_d;
      domains_rst_nq <= state_d != StAssert;
    end
  end

  always_ff @(posedge clk_i) begin
    if (state_q == StAssert) strap_o <= strap_i;
  end

  assign busy_o    = state_q != StRun;
  assign quiesce_o = state_q == StQuiesce || state_q == StAssert;

  // While domains enter or leave reset, clocks unknown to this one move their synchronisers, so
  // only a settled running card is quiescent.
  assign quiet_o = live_settled && all_live &&
      ((state_q == StRun && !soft_reset_i) || (state_q == StQuiesce && !bus_idle_i));

endmodule
