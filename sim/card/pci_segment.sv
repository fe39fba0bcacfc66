// SPDX-License-Identifier: Apache-2.0

// The shared lines of a PCI segment with two agents: the card and a model in C++. It resolves what
// both drive into what both see. The lines are numbered as the bits of PciLine in
// sim/model/pci_bus.h.
//
// The model's outputs go through registers with the bus's clock, as the card's do. So one
// evaluation per clock edge settles all logic that depends on the pins. With the lines as inputs it
// would take two, one for the edge and one for the dependent lines.
module pci_segment #(
    parameter int unsigned W = 32
) (
    input  logic           clk_i,
    input  logic           load_i,         // rising edge: drive at once, forget the levels
    input  logic [W-1:0]   model_ad_i,     // driven from the next rising edge of either on
    input  logic [W/8-1:0] model_cbe_n_i,
    input  logic [11:0]    model_oe_i,
    input  logic [11:0]    model_high_i,
    input  logic [W-1:0]   card_ad_i,
    input  logic [W/8-1:0] card_cbe_n_i,
    input  logic [11:0]    card_oe_i,
    input  logic [11:0]    card_high_i,
    output logic [W-1:0]   ad_o,
    output logic [W/8-1:0] cbe_n_o,
    output logic [11:0]    high_o
);

  localparam int unsigned Par = 5, Ad = 6, Cbe = 7, Par64 = 10;
  // A 32-bit segment does not connect the lines of the 64-bit extension.
  localparam logic [11:0] Lines = (W == 64) ? 12'hfff : 12'h8ff;
  // Lines with pull-ups. AD, C/BE#, PAR and PAR64 keep their level while undriven.
  localparam logic [11:0] Control = 12'hb1f;

  logic [W-1:0]   ad_q, keep_ad_q;
  logic [W/8-1:0] cbe_n_q, keep_cbe_n_q;
  logic [11:0]    oe_q, high_q;
  logic           keep_par_q, keep_par64_q;

  always_ff @(posedge clk_i or posedge load_i) begin
    ad_q    <= model_ad_i;
    cbe_n_q <= model_cbe_n_i;
    oe_q    <= model_oe_i & Lines;
    high_q  <= model_high_i;
  end

  always_ff @(posedge clk_i or posedge load_i) begin
    if (load_i) begin
      keep_ad_q    <= '0;
      keep_cbe_n_q <= '0;
      keep_par_q   <= 1'b0;
      keep_par64_q <= 1'b0;
    end else begin
      keep_ad_q    <= ad_o;
      keep_cbe_n_q <= cbe_n_o;
      keep_par_q   <= high_o[Par];
      keep_par64_q <= high_o[Par64];
    end
  end

  logic [11:0] card_oe, floating;
  assign card_oe = card_oe_i & Lines;
  always_comb begin
    floating        = Control;
    floating[Par]   = keep_par_q;
    floating[Par64] = keep_par64_q;
  end

  // Two drivers of one line: the model of the bus reports it.
  assign ad_o    = oe_q[Ad] ? ad_q : card_oe[Ad] ? card_ad_i : keep_ad_q;
  assign cbe_n_o = oe_q[Cbe] ? cbe_n_q : card_oe[Cbe] ? card_cbe_n_i : keep_cbe_n_q;
  always_comb begin
    high_o      = (floating & ~card_oe & ~oe_q) | (card_high_i & card_oe & ~oe_q) | (high_q & oe_q);
    high_o[Ad]  = 1'b0;
    high_o[Cbe] = 1'b0;
  end

endmodule
