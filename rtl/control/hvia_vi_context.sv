// SPDX-License-Identifier: Apache-2.0

// The contexts of all VIs in one RAM: one write port for `vi_manager`, four synchronous read ports
// (0 descriptor_fetch, 1 tx_engine, 2 rx_engine, 3 vi_manager) that return one clock after the
// index.
//
// Context word: [31:0] Attributes as in `layout`, [63:32] MaxTransferSize, [111:64] PeerMac (wire
// byte 0 in bits 71:64), [127:112] PeerVI.
//
// The RAM is not reset. One bit per VI records whether its state is other than Free; without it the
// port reads the Free word, so contents from power-up or an earlier owner of the index are never
// visible.
//
// A read in the clock of a write to the same index returns the word before the write; `vi_manager`
// allows for that before it checks whether the engines drained.
//
// `hold_valid_i` removes one VI from `live_o` without a change of its state: `vi_manager` ends a
// storm of doorbells during a disconnect with it.
module hvia_vi_context (
    input logic clk_i,
    input logic rst_ni,

    input logic         wr_valid_i,
    input hvia_params_pkg::vi_t wr_vi_i,
    input logic [127:0] wr_ctx_i,

    input  logic [4*hvia_params_pkg::VICountLog2-1:0] rd_vi_i,
    output logic [4*128-1:0] rd_ctx_o,

    input  logic         hold_valid_i,
    input  hvia_params_pkg::vi_t hold_vi_i,
    output hvia_params_pkg::vis_t live_o,

    output logic quiet_o
);

  localparam int unsigned VIW = hvia_params_pkg::VICountLog2;
  localparam logic [127:0] FreeWord =
      128'(hvia_pkg::VIStateFree) << hvia_pkg::VIContextAttributesStateLsb;

  logic [127:0] mem[hvia_params_pkg::VICount];
  hvia_params_pkg::vis_t live_q;
  logic         wr_live;

  assign wr_live = wr_ctx_i[hvia_pkg::VIContextAttributesStateLsb +:
                            hvia_pkg::VIContextAttributesStateWidth] != hvia_pkg::VIStateFree;

  always_ff @(posedge clk_i) begin
    if (wr_valid_i) mem[wr_vi_i] <= wr_ctx_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) live_q <= '0;
    else if (wr_valid_i) live_q[wr_vi_i] <= wr_live;
  end

  assign live_o = hold_valid_i ? (live_q & ~(hvia_params_pkg::VICount'(1) << hold_vi_i)) : live_q;

  // Read ports. The index is stored with the word: a port is settled when its word belongs to the
  // requested index.
  logic [3:0] settled;
  for (genvar p = 0; p < 4; p++) begin : g_read
    hvia_params_pkg::vi_t vi_q;
    logic [127:0] ctx_q;
    logic         live_rd_q;
    always_ff @(posedge clk_i) begin
      ctx_q <= mem[rd_vi_i[VIW*p+:VIW]];
    end
    always_ff @(posedge clk_i) begin
      if (!rst_ni) begin
        vi_q      <= '0;
        live_rd_q <= 1'b0;
      end else begin
        vi_q      <= rd_vi_i[VIW*p+:VIW];
        live_rd_q <= live_q[rd_vi_i[VIW*p+:VIW]];
      end
    end
    assign rd_ctx_o[128*p+:128] = live_rd_q ? ctx_q : FreeWord;
    assign settled[p]           = vi_q == rd_vi_i[VIW*p+:VIW];
  end

  // A write shows on the read ports one clock later.
  logic wrote_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) wrote_q <= 1'b0;
    else wrote_q <= wr_valid_i;
  end

  assign quiet_o = !wr_valid_i && !wrote_q && (&settled);

endmodule
