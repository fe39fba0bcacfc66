// SPDX-License-Identifier: Apache-2.0

// The board in its socket, as the simulator builds it: the system's PCI segment, the segment with
// the MAC, and the data lines of the SDRAM, with registers for the models' outputs. A model
// computes its outputs before a clock edge from the present levels. They change with the edge, in
// the same evaluation as the card's registers.
//
// The time of a clock domain also changes there: after an edge it is the time of the next edge.
// After skipped edges it is loaded. Every input passes a register before the card's logic, because
// each evaluation recomputes all logic that depends directly on an input.
module card_socket #(
    parameter int unsigned W = 32,
    parameter bit EachBlock = 1'b0  // a clock for each block, not for a group of blocks
) (
    input  logic           clk_i,
    // A bit per group of blocks of the board, or per block, and those above unused: their clocks,
    // and quiet outputs. Bit 0 has the PCI interface and its segment, bit 1 the resets.
    input  logic [31:0]    block_clk_i,
    input  logic           rst_ni,
    input  logic           sd_clk_i,
    input  logic           mac_clk_i,
    // Number of the edge after the next one. With a load: of the next one.
    input  logic           time_load_i,
    input  logic [47:0]    timebase_i,
    input  logic [47:0]    sd_timebase_i,
    input  logic [31:0]    strap_i,
    // A rising edge passes over refreshes of an idle card: an even number.
    input  logic           pass_i,
    input  logic [31:0]    pass_refreshes_i,

    // System bus: outputs of the bridge and of the card, and the resolved lines
    input  logic           bus_load_i,
    input  logic [W-1:0]   bridge_ad_i,
    input  logic [W/8-1:0] bridge_cbe_n_i,
    input  logic [11:0]    bridge_oe_i,
    input  logic [11:0]    bridge_high_i,
    input  logic           bridge_gnt_n_i,
    input  logic           bridge_idsel_i,
    output logic [W-1:0]   card_ad_o,
    output logic [W/8-1:0] card_cbe_n_o,
    output logic [11:0]    card_oe_o,
    output logic [11:0]    card_high_o,
    output logic           card_req_n_o,
    output logic           card_serr_oe_o,
    output logic [W-1:0]   bus_ad_o,
    output logic [W/8-1:0] bus_cbe_n_o,
    output logic [11:0]    bus_high_o,
    output logic           inta_n_o,

    // MAC bus: outputs of the chip and of the card, and the resolved lines
    input  logic           mb_load_i,
    input  logic [W-1:0]   chip_ad_i,
    input  logic [W/8-1:0] chip_cbe_n_i,
    input  logic [11:0]    chip_oe_i,
    input  logic [11:0]    chip_high_i,
    input  logic           chip_req_n_i,
    output logic [W-1:0]   mb_card_ad_o,
    output logic [W/8-1:0] mb_card_cbe_n_o,
    output logic [11:0]    mb_card_oe_o,
    output logic [11:0]    mb_card_high_o,
    output logic [W-1:0]   mb_ad_o,
    output logic [W/8-1:0] mb_cbe_n_o,
    output logic [11:0]    mb_high_o,
    output logic           mb_rst_no,
    input  logic           link_load_i,
    input  logic           phy_link_n_i,  // taken with a load
    output logic           mb_idsel_o,
    output logic           mb_gnt_n_o,

    // SDRAM
    output logic           sd_cke_o,
    output logic           sd_cs_n_o,
    output logic           sd_ras_n_o,
    output logic           sd_cas_n_o,
    output logic           sd_we_n_o,
    output logic [1:0]     sd_ba_o,
    output logic [11:0]    sd_a_o,
    output logic [3:0]     sd_dqm_o,
    output logic [31:0]    sd_dq_o,
    output logic           sd_dq_oe_o,
    input  logic [31:0]    chip_dq_i,

    output logic [11:0]    trace_valid_o,
    output logic [95:0]    trace_event_o,
    output logic [95:0]    trace_vi_o,
    output logic [191:0]   trace_seq_o,
    output logic [47:0]    trace_time_o,

    output logic           quiet_o,
    output logic [31:0]    block_quiet_o,
    output logic           only_refresh_o,  // no block works but those that a refresh wakes
    output logic           sd_quiet_o,
    output logic           mac_quiet_o,
    output logic [47:0]    next_deadline_o,
    output logic [47:0]    sd_next_deadline_o,
    output logic           ready_o
);

  logic gnt_n_q, idsel_q, chip_req_n_q, phy_link_n_q;
  always_ff @(posedge block_clk_i[0] or posedge bus_load_i) begin
    gnt_n_q <= bridge_gnt_n_i;
    idsel_q <= bridge_idsel_i;
  end
  always_ff @(posedge link_load_i) phy_link_n_q <= phy_link_n_i;
  always_ff @(posedge mac_clk_i or posedge mb_load_i) chip_req_n_q <= chip_req_n_i;

  logic [47:0] timebase_q, sd_timebase_q;
  always_ff @(posedge clk_i or posedge time_load_i) timebase_q <= timebase_i;
  always_ff @(posedge sd_clk_i or posedge time_load_i) sd_timebase_q <= sd_timebase_i;

  logic [31:0] dq_q;
  always_ff @(posedge sd_clk_i) dq_q <= chip_dq_i;

  // The card never drives ACK64# (bit 9). AD and C/BE# (bits 7:6) have their levels in their own
  // signals.
  assign card_oe_o[9]      = 1'b0;
  assign card_high_o[9]    = 1'b1;
  assign card_high_o[7:6]  = 2'b00;
  assign mb_card_high_o[7:6] = 2'b00;
  // The MAC's bus has no PERR#.
  assign mb_card_oe_o[11]   = 1'b0;
  assign mb_card_high_o[11] = 1'b1;

  pci_segment #(.W(W)) u_bus (
      .clk_i(block_clk_i[0]), .load_i(bus_load_i),
      .model_ad_i(bridge_ad_i), .model_cbe_n_i(bridge_cbe_n_i), .model_oe_i(bridge_oe_i),
      .model_high_i(bridge_high_i),
      .card_ad_i(card_ad_o), .card_cbe_n_i(card_cbe_n_o), .card_oe_i(card_oe_o),
      .card_high_i(card_high_o),
      .ad_o(bus_ad_o), .cbe_n_o(bus_cbe_n_o), .high_o(bus_high_o)
  );

  pci_segment #(.W(W)) u_mac_bus (
      .clk_i(mac_clk_i), .load_i(mb_load_i),
      .model_ad_i(chip_ad_i), .model_cbe_n_i(chip_cbe_n_i), .model_oe_i(chip_oe_i),
      .model_high_i(chip_high_i),
      .card_ad_i(mb_card_ad_o), .card_cbe_n_i(mb_card_cbe_n_o), .card_oe_i(mb_card_oe_o),
      .card_high_i(mb_card_high_o),
      .ad_o(mb_ad_o), .cbe_n_o(mb_cbe_n_o), .high_o(mb_high_o)
  );

  hvia_types_pkg::blocks_t block_quiet;
  if (EachBlock) begin : g_blocks
    assign block_quiet_o = ~32'(~{
        block_quiet.gec, block_quiet.core, block_quiet.resets, block_quiet.pci});
  end else begin : g_groups
    hvia_types_pkg::blocks_t busy;
    assign busy          = ~block_quiet;
    assign block_quiet_o = ~32'({
        |{busy.core.receive.acknowledge, busy.core.receive.completion, busy.core.receive.notify},
        busy.core.receive.receive_store, busy.core.receive.rx_engine,
        busy.core.send.send_ledger, busy.core.send.tx_engine, busy.core.send.descriptor_fetch,
        |{busy.core.send.doorbell, busy.core.send.work_queue},
        |{busy.core.control.async_errors, busy.core.control.vi_manager,
            busy.core.control.vi_context, busy.core.control.raw_port},
        busy.core.control.registers,
        |{busy.core.control.counters, busy.core.control.trace},
        |{busy.core.host.att_manager, busy.core.host.att_memory},
        busy.gec, busy.resets,
        |{busy.pci, busy.core.host.arbiter}
    });
  end

  hvia_types_pkg::blocks_t refresh_blocks;
  always_comb begin
    refresh_blocks = '0;
    refresh_blocks.core.host.att_manager = 1'b1;
    refresh_blocks.core.control.counters = 1'b1;
    refresh_blocks.core.control.registers = 1'b1;  // State reports att_manager busy
    only_refresh_o = &(block_quiet | refresh_blocks);
  end

  // Passes over refreshes. The refreshes after them restore all other registers. The number is even
  // because a refresh inverts the toggle that carries its count into the core's domain.
  // verilator lint_off MULTIDRIVEN
  always @(posedge pass_i) begin
    hvia_board.u_core.u_host_port.u_sdram_controller.deadline_q <=
        hvia_board.u_core.u_host_port.u_sdram_controller.deadline_q +
        hvia_board.u_core.u_host_port.u_sdram_controller.refresh_clocks * 48'(pass_refreshes_i);
    hvia_board.u_core.u_control.u_counters.mem[hvia_pkg::CounterSdramRefresh] <=
        hvia_board.u_core.u_control.u_counters.mem[hvia_pkg::CounterSdramRefresh] +
        pass_refreshes_i;
  end
  // verilator lint_on MULTIDRIVEN

  // Named after its module, so that a mutant finds the straps from any level below.
  hvia_board #(.W(W)) hvia_board (
      // Every clock costs the simulator at each edge, so blocks that mostly work together share
      // one. As an expression here, because Verilator takes other nets for more clocks. In the
      // order of blocks_t: resets, pci, gec; arbiter, ATT; control; send; receive.
      .block_clk_i(EachBlock ? {
          block_clk_i[1:0], block_clk_i[$bits(block_quiet)-1:2]} : {
          block_clk_i[1], block_clk_i[0], block_clk_i[2],
          block_clk_i[0], {2{block_clk_i[3]}},
          block_clk_i[5], block_clk_i[4], {4{block_clk_i[6]}}, block_clk_i[4],
          {2{block_clk_i[7]}}, block_clk_i[8], block_clk_i[9], block_clk_i[10],
          block_clk_i[11], block_clk_i[12], {3{block_clk_i[13]}}}),
      .rst_ni, .sd_clk_i, .mac_clk_i,
      .timebase_i(timebase_q),
      .sd_timebase_i(sd_timebase_q), .strap_i, .req_n_o(card_req_n_o), .gnt_n_i(gnt_n_q),
      .idsel_i(idsel_q), .inta_n_o,
      .ad_i(bus_ad_o), .ad_o(card_ad_o), .ad_oe(card_oe_o[6]),
      .cbe_n_i(bus_cbe_n_o), .cbe_n_o(card_cbe_n_o), .cbe_n_oe(card_oe_o[7]),
      .par_i(bus_high_o[5]), .par_o(card_high_o[5]), .par_oe(card_oe_o[5]),
      .frame_n_i(bus_high_o[0]), .frame_n_o(card_high_o[0]), .frame_n_oe(card_oe_o[0]),
      .irdy_n_i(bus_high_o[1]), .irdy_n_o(card_high_o[1]), .irdy_n_oe(card_oe_o[1]),
      .trdy_n_i(bus_high_o[2]), .trdy_n_o(card_high_o[2]), .trdy_n_oe(card_oe_o[2]),
      .devsel_n_i(bus_high_o[3]), .devsel_n_o(card_high_o[3]), .devsel_n_oe(card_oe_o[3]),
      .stop_n_i(bus_high_o[4]), .stop_n_o(card_high_o[4]), .stop_n_oe(card_oe_o[4]),
      .perr_n_i(bus_high_o[11]), .perr_n_o(card_high_o[11]), .perr_n_oe(card_oe_o[11]),
      .serr_n_oe(card_serr_oe_o),
      .par64_i(bus_high_o[10]), .par64_o(card_high_o[10]), .par64_oe(card_oe_o[10]),
      .req64_n_o(card_high_o[8]), .req64_n_oe(card_oe_o[8]), .ack64_n_i(bus_high_o[9]),
      .sd_cke_o, .sd_cs_n_o, .sd_ras_n_o, .sd_cas_n_o, .sd_we_n_o, .sd_ba_o, .sd_a_o, .sd_dqm_o,
      .sd_dq_o, .sd_dq_oe_o, .sd_dq_i(dq_q),
      .mb_rst_no, .phy_link_n_i(phy_link_n_q), .mb_idsel_o, .mb_gnt_n_o, .mb_req_n_i(chip_req_n_q),
      .mb_ad_i(mb_ad_o), .mb_ad_o(mb_card_ad_o), .mb_ad_oe(mb_card_oe_o[6]),
      .mb_cbe_n_i(mb_cbe_n_o), .mb_cbe_n_o(mb_card_cbe_n_o), .mb_cbe_n_oe(mb_card_oe_o[7]),
      .mb_par_i(mb_high_o[5]), .mb_par_o(mb_card_high_o[5]), .mb_par_oe(mb_card_oe_o[5]),
      .mb_frame_n_i(mb_high_o[0]), .mb_frame_n_o(mb_card_high_o[0]),
      .mb_frame_n_oe(mb_card_oe_o[0]),
      .mb_irdy_n_i(mb_high_o[1]), .mb_irdy_n_o(mb_card_high_o[1]), .mb_irdy_n_oe(mb_card_oe_o[1]),
      .mb_trdy_n_i(mb_high_o[2]), .mb_trdy_n_o(mb_card_high_o[2]), .mb_trdy_n_oe(mb_card_oe_o[2]),
      .mb_devsel_n_i(mb_high_o[3]), .mb_devsel_n_o(mb_card_high_o[3]),
      .mb_devsel_n_oe(mb_card_oe_o[3]),
      .mb_stop_n_i(mb_high_o[4]), .mb_stop_n_o(mb_card_high_o[4]), .mb_stop_n_oe(mb_card_oe_o[4]),
      .mb_par64_i(mb_high_o[10]), .mb_par64_o(mb_card_high_o[10]), .mb_par64_oe(mb_card_oe_o[10]),
      .mb_req64_n_i(mb_high_o[8]), .mb_req64_n_o(mb_card_high_o[8]),
      .mb_req64_n_oe(mb_card_oe_o[8]),
      .mb_ack64_n_i(mb_high_o[9]), .mb_ack64_n_o(mb_card_high_o[9]),
      .mb_ack64_n_oe(mb_card_oe_o[9]),
      .trace_valid_o, .trace_event_o, .trace_vi_o, .trace_seq_o, .trace_time_o,
      .quiet_o, .block_quiet_o(block_quiet), .sd_quiet_o, .mac_quiet_o, .next_deadline_o,
      .sd_next_deadline_o, .ready_o
  );

endmodule
