// SPDX-License-Identifier: Apache-2.0

// The card's PCI side, one function on one set of pins: master, target and configuration space.
// With W = 64 the master moves 64 bits where the target can. As target the card always answers with
// 32 bits and never drives ACK64#.
module hvia_pci_interface #(
    parameter int unsigned W = 32
) (
    input  logic           clk_i,
    input  logic           rst_ni,
    input  logic           quiesce_i,  // soft reset: take no new host-bus request
    output logic           idle_o,     // the master has nothing on the bus or pending
    output logic           quiet_o,

    // Host-bus port
    input  logic           req_valid_i,
    output logic           req_ready_o,
    input  logic           req_write_i,
    input  logic [31:0]    req_addr_i,
    input  logic [9:0]     req_len_i,
    input  logic [W-1:0]   wdata_i,
    input  logic [W/8-1:0] wstrb_i,
    input  logic           wvalid_i,
    output logic           wready_o,
    output logic           wdone_o,
    output logic           werr_o,
    output logic [W-1:0]   rdata_o,
    output logic           rvalid_o,
    input  logic           rready_i,
    output logic           rlast_o,
    output logic           rerr_o,

    // Target port
    output logic           tgt_wvalid_o,
    input  logic           tgt_wready_i,
    output logic           tgt_wbar_o,
    output logic [19:0]    tgt_waddr_o,
    output logic [31:0]    tgt_wdata_o,
    output logic [3:0]     tgt_wbe_o,
    output logic           tgt_rvalid_o,
    output logic [19:0]    tgt_raddr_o,
    output logic           tgt_rbar_o,
    input  logic           tgt_rready_i,
    input  logic [31:0]    tgt_rdata_i,

    // Interrupt level from the core
    input  logic           irq_i,

    // Pins
    output logic           req_n_o,
    input  logic           gnt_n_i,
    input  logic           idsel_i,
    output logic           inta_n_o,
    input  logic [W-1:0]   ad_i,
    output logic [W-1:0]   ad_o,
    output logic           ad_oe,
    input  logic [W/8-1:0] cbe_n_i,
    output logic [W/8-1:0] cbe_n_o,
    output logic           cbe_n_oe,
    input  logic           par_i,
    output logic           par_o,
    output logic           par_oe,
    input  logic           frame_n_i,
    output logic           frame_n_o,
    output logic           frame_n_oe,
    input  logic           irdy_n_i,
    output logic           irdy_n_o,
    output logic           irdy_n_oe,
    input  logic           trdy_n_i,
    output logic           trdy_n_o,
    output logic           trdy_n_oe,
    input  logic           devsel_n_i,
    output logic           devsel_n_o,
    output logic           devsel_n_oe,
    input  logic           perr_n_i,
    output logic           perr_n_o,
    output logic           perr_n_oe,
    output logic           serr_n_oe,  // open drain: drives SERR# to 0
    input  logic           stop_n_i,
    output logic           stop_n_o,
    output logic           stop_n_oe,
    // 64-bit extension; idle with W = 32
    input  logic           par64_i,
    output logic           par64_o,
    output logic           par64_oe,
    output logic           req64_n_o,
    output logic           req64_n_oe,
    input  logic           ack64_n_i,

    // Counter events, one clock each
    output logic           stat_pci_master_read_o,
    output logic           stat_pci_master_write_o,
    output logic           stat_pci_master_retry_o,
    output logic           stat_pci_master_abort_o,
    output logic           stat_pci_parity_error_o,
    output logic           stat_pci_target_write_o,
    output logic           stat_pci_target_read_o
);

  logic         cfg_we, cfg_pending;
  logic [7:2]   cfg_addr;
  logic [3:0]   cfg_be;
  logic [31:0]  cfg_wdata, cfg_rdata;
  logic         memory_en, bus_master_en, parity_en, serr_en;
  logic [7:0]   latency_timer;
  logic [31:16] bar0;
  logic [31:20] bar1;
  logic         master_parity, address_parity, data_parity, master_abort, target_abort;
  logic         master_quiet, target_quiet, config_quiet;
  logic [W-1:0] m_ad;
  logic [31:0]  t_ad;
  logic         m_ad_oe, t_ad_oe, m_par, t_par, m_par_oe, t_par_oe;
  logic         m_cbe_oe, m_frame_oe, m_irdy_oe, m_par64_oe, m_req64_oe, m_req_n;
  logic         t_trdy_oe, t_devsel_oe, t_stop_oe;
  logic         perr_seen, m_perr, t_perr;
  logic         inta_n_q, perr_n_q, perr_oe_q, serr_oe_q;

  hvia_pci_master #(.W(W)) u_master (
      .clk_i, .rst_ni, .quiesce_i, .idle_o, .quiet_o(master_quiet), .bus_master_en_i(bus_master_en),
      .cfg_pending_i(cfg_pending), .parity_en_i(parity_en), .latency_timer_i(latency_timer),
      .req_valid_i, .req_ready_o, .req_write_i, .req_addr_i, .req_len_i, .wdata_i, .wstrb_i,
      .wvalid_i, .wready_o, .wdone_o, .werr_o, .rdata_o, .rvalid_o, .rready_i, .rlast_o, .rerr_o,
      .req_n_o(m_req_n), .gnt_n_i, .ad_i, .ad_o(m_ad), .ad_oe(m_ad_oe), .cbe_n_o,
      .cbe_n_oe(m_cbe_oe), .par_i, .par_o(m_par), .par_oe(m_par_oe), .frame_n_i, .frame_n_o,
      .frame_n_oe(m_frame_oe), .irdy_n_i, .irdy_n_o, .irdy_n_oe(m_irdy_oe), .trdy_n_i, .devsel_n_i,
      .stop_n_i, .perr_n_i, .par64_i, .par64_o, .par64_oe(m_par64_oe), .req64_n_o,
      .req64_n_oe(m_req64_oe), .ack64_n_i, .stat_read_o(stat_pci_master_read_o),
      .stat_write_o(stat_pci_master_write_o), .stat_retry_o(stat_pci_master_retry_o),
      .stat_abort_o(stat_pci_master_abort_o), .set_master_abort_o(master_abort),
      .set_target_abort_o(target_abort), .set_parity_error_o(master_parity),
      .set_perr_seen_o(perr_seen), .perr_o(m_perr)
  );

  hvia_pci_target u_target (
      .clk_i, .rst_ni, .quiet_o(target_quiet),
      .cfg_we_o(cfg_we), .cfg_pending_o(cfg_pending), .cfg_addr_o(cfg_addr), .cfg_be_o(cfg_be),
      .cfg_wdata_o(cfg_wdata), .cfg_rdata_i(cfg_rdata),
      .memory_en_i(memory_en), .parity_en_i(parity_en), .bar0_i(bar0), .bar1_i(bar1),
      .tgt_wvalid_o, .tgt_wready_i, .tgt_wbar_o, .tgt_waddr_o, .tgt_wdata_o, .tgt_wbe_o,
      .tgt_rvalid_o, .tgt_raddr_o, .tgt_rbar_o, .tgt_rready_i, .tgt_rdata_i,
      .ad_i(ad_i[31:0]), .ad_o(t_ad), .ad_oe(t_ad_oe),
      .cbe_n_i(cbe_n_i[3:0]),
      .par_i, .par_o(t_par), .par_oe(t_par_oe),
      .frame_n_i, .irdy_n_i, .idsel_i, .trdy_n_o, .trdy_n_oe(t_trdy_oe), .devsel_n_o,
      .devsel_n_oe(t_devsel_oe), .stop_n_o, .stop_n_oe(t_stop_oe),
      .stat_write_o(stat_pci_target_write_o), .stat_read_o(stat_pci_target_read_o),
      .set_address_parity_o(address_parity), .set_data_parity_o(data_parity), .perr_o(t_perr)
  );

  hvia_pci_config u_config (
      .clk_i, .rst_ni, .quiet_o(config_quiet),
      .cfg_we_i(cfg_we), .cfg_addr_i(cfg_addr), .cfg_be_i(cfg_be), .cfg_wdata_i(cfg_wdata),
      .cfg_rdata_o(cfg_rdata),
      .memory_en_o(memory_en), .bus_master_en_o(bus_master_en), .parity_en_o(parity_en),
      .serr_en_o(serr_en), .latency_timer_o(latency_timer), .bar0_o(bar0), .bar1_o(bar1),
      .set_master_parity_i(master_parity), .set_perr_seen_i(perr_seen),
      .set_target_parity_i(data_parity), .set_address_parity_i(address_parity),
      .set_master_abort_i(master_abort), .set_target_abort_i(target_abort)
  );

  assign ad_o   = t_ad_oe ? W'(t_ad) : m_ad;
  assign par_o  = t_par_oe ? t_par : m_par;

  // The card leaves the bus with RST#, whether the clock runs or not.
  assign ad_oe       = rst_ni & (m_ad_oe | t_ad_oe);
  assign par_oe      = rst_ni & (m_par_oe | t_par_oe);
  assign cbe_n_oe    = rst_ni & m_cbe_oe;
  assign frame_n_oe  = rst_ni & m_frame_oe;
  assign irdy_n_oe   = rst_ni & m_irdy_oe;
  assign par64_oe    = rst_ni & m_par64_oe;
  assign req64_n_oe  = rst_ni & m_req64_oe;
  assign req_n_o     = ~rst_ni | m_req_n;
  assign trdy_n_oe   = rst_ni & t_trdy_oe;
  assign devsel_n_oe = rst_ni & t_devsel_oe;
  assign stop_n_oe   = rst_ni & t_stop_oe;
  assign perr_n_oe   = rst_ni & perr_oe_q;
  assign serr_n_oe   = rst_ni & serr_oe_q;
  assign inta_n_o    = ~rst_ni | inta_n_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) inta_n_q <= 1'b1;
    else         inta_n_q <= ~irq_i;
  end

  // Sustained tri-state: drive high for a clock before the release.
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      perr_n_q  <= 1'b1;
      perr_oe_q <= 1'b0;
      serr_oe_q <= 1'b0;
    end else begin
      perr_n_q  <= ~(m_perr | t_perr);
      perr_oe_q <= m_perr | t_perr | ~perr_n_q;
      serr_oe_q <= address_parity & parity_en & serr_en;
    end
  end
  assign perr_n_o  = perr_n_q;

  if (W == 64) begin : gen_wide
    logic unused_cbe;
    assign unused_cbe = ^cbe_n_i[7:4];
  end

  assign stat_pci_parity_error_o = master_parity | address_parity | data_parity | perr_seen;

  assign quiet_o = master_quiet & target_quiet & config_quiet & (inta_n_q == ~irq_i) &
                   ~perr_oe_q & ~serr_oe_q;

endmodule
