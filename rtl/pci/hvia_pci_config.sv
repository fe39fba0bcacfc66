// SPDX-License-Identifier: Apache-2.0

// PCI configuration space of the one function: type 0 header, command and status register, two base
// address registers. The target accesses it by dword.
module hvia_pci_config (
    input  logic         clk_i,
    input  logic         rst_ni,
    output logic         quiet_o,

    // Access by the target; combinational read.
    input  logic         cfg_we_i,
    input  logic [7:2]   cfg_addr_i,
    input  logic [3:0]   cfg_be_i,
    input  logic [31:0]  cfg_wdata_i,
    output logic [31:0]  cfg_rdata_o,

    // Control of the interface
    output logic         memory_en_o,
    output logic         bus_master_en_o,
    output logic         parity_en_o,
    output logic         serr_en_o,
    output logic [7:0]   latency_timer_o,
    output logic [31:16] bar0_o,
    output logic [31:20] bar1_o,

    // Events for the status register
    input  logic         set_master_parity_i,
    input  logic         set_perr_seen_i,
    input  logic         set_target_parity_i,
    input  logic         set_address_parity_i,
    input  logic         set_master_abort_i,
    input  logic         set_target_abort_i
);

  // Dword addresses
  localparam logic [19:0] IdOffset        = hvia_pkg::PciConfigIDOffset;
  localparam logic [19:0] CommandOffset   = hvia_pkg::PciConfigCommandOffset;
  localparam logic [19:0] ClassOffset     = hvia_pkg::PciConfigClassOffset;
  localparam logic [19:0] HeaderOffset    = hvia_pkg::PciConfigHeaderOffset;
  localparam logic [19:0] Bar0Offset      = hvia_pkg::PciConfigBar0Offset;
  localparam logic [19:0] Bar1Offset      = hvia_pkg::PciConfigBar1Offset;
  localparam logic [19:0] SubsystemOffset = hvia_pkg::PciConfigSubsystemOffset;
  localparam logic [19:0] InterruptOffset = hvia_pkg::PciConfigInterruptOffset;

  logic         memory_en_q, bus_master_en_q, parity_en_q, serr_en_q;
  logic         st_master_parity_q, st_target_abort_q, st_master_abort_q, st_serr_q, st_parity_q;
  logic [7:0]   latency_q, line_q;
  logic [31:16] bar0_q;
  logic [31:20] bar1_q;
  logic [31:0]  command, clear;
  logic [19:0]  offset;
  logic         any_parity;

  assign offset     = {12'd0, cfg_addr_i, 2'b00};
  assign any_parity = set_master_parity_i | set_target_parity_i | set_address_parity_i;

  always_comb begin
    command = 32'd0;
    command[hvia_pkg::PciConfigCommandMemoryEnableBit]        = memory_en_q;
    command[hvia_pkg::PciConfigCommandMasterEnableBit]        = bus_master_en_q;
    command[hvia_pkg::PciConfigCommandParityResponseBit]      = parity_en_q;
    command[hvia_pkg::PciConfigCommandSerrEnableBit]          = serr_en_q;
    command[hvia_pkg::PciConfigCommandDevselTimingLsb]        = 1'b1;
    command[hvia_pkg::PciConfigCommandMasterParityErrorBit]   = st_master_parity_q;
    command[hvia_pkg::PciConfigCommandReceivedTargetAbortBit] = st_target_abort_q;
    command[hvia_pkg::PciConfigCommandReceivedMasterAbortBit] = st_master_abort_q;
    command[hvia_pkg::PciConfigCommandSignaledSystemErrorBit] = st_serr_q;
    command[hvia_pkg::PciConfigCommandDetectedParityErrorBit] = st_parity_q;
  end

  always_comb begin
    cfg_rdata_o = 32'd0;
    case (offset)
      IdOffset:        cfg_rdata_o = {hvia_pkg::PciDeviceID, hvia_pkg::PciVendorID};
      CommandOffset:   cfg_rdata_o = command;
      ClassOffset:     cfg_rdata_o = {hvia_pkg::PciClassCode, hvia_pkg::PciRevisionID};
      HeaderOffset:    cfg_rdata_o = {16'd0, latency_q, 8'd0};
      Bar0Offset:      cfg_rdata_o = {bar0_q, 16'd0};
      Bar1Offset:      cfg_rdata_o = {bar1_q, 20'd0};
      SubsystemOffset: cfg_rdata_o = {hvia_pkg::PciSubsystemID, hvia_pkg::PciSubsystemVendorID};
      InterruptOffset: cfg_rdata_o = {hvia_pkg::PciMaxLat, hvia_pkg::PciMinGnt,
                                      hvia_pkg::PciInterruptPin, line_q};
      default:         cfg_rdata_o = 32'd0;
    endcase
  end

  // Writing 1 clears a status bit; an event in the same clock wins.
  always_comb begin
    clear = 32'd0;
    if (cfg_we_i & (offset == CommandOffset)) begin
      clear = cfg_wdata_i & {{8{cfg_be_i[3]}}, {8{cfg_be_i[2]}}, 16'd0};
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      memory_en_q        <= 1'b0;
      bus_master_en_q    <= 1'b0;
      parity_en_q        <= 1'b0;
      serr_en_q          <= 1'b0;
      st_master_parity_q <= 1'b0;
      st_target_abort_q  <= 1'b0;
      st_master_abort_q  <= 1'b0;
      st_serr_q          <= 1'b0;
      st_parity_q        <= 1'b0;
      latency_q          <= 8'd0;
      line_q             <= 8'd0;
      bar0_q             <= 16'd0;
      bar1_q             <= 12'd0;
    end else begin
      if (cfg_we_i) begin
        if (offset == CommandOffset) begin
          if (cfg_be_i[0]) begin
            memory_en_q     <= cfg_wdata_i[hvia_pkg::PciConfigCommandMemoryEnableBit];
            bus_master_en_q <= cfg_wdata_i[hvia_pkg::PciConfigCommandMasterEnableBit];
            parity_en_q     <= cfg_wdata_i[hvia_pkg::PciConfigCommandParityResponseBit];
          end
          if (cfg_be_i[1]) serr_en_q <= cfg_wdata_i[hvia_pkg::PciConfigCommandSerrEnableBit];
        end
        if ((offset == HeaderOffset) & cfg_be_i[1]) latency_q <= cfg_wdata_i[15:8];
        if ((offset == InterruptOffset) & cfg_be_i[0]) line_q <= cfg_wdata_i[7:0];
        if (offset == Bar0Offset) begin
          if (cfg_be_i[3]) bar0_q[31:24] <= cfg_wdata_i[31:24];
          if (cfg_be_i[2]) bar0_q[23:16] <= cfg_wdata_i[23:16];
        end
        if (offset == Bar1Offset) begin
          if (cfg_be_i[3]) bar1_q[31:24] <= cfg_wdata_i[31:24];
          if (cfg_be_i[2]) bar1_q[23:20] <= cfg_wdata_i[23:20];
        end
      end
      st_master_parity_q <= ((set_master_parity_i | set_perr_seen_i) & parity_en_q) |
        (st_master_parity_q & ~clear[hvia_pkg::PciConfigCommandMasterParityErrorBit]);
      st_target_abort_q  <= set_target_abort_i |
        (st_target_abort_q & ~clear[hvia_pkg::PciConfigCommandReceivedTargetAbortBit]);
      st_master_abort_q  <= set_master_abort_i |
        (st_master_abort_q & ~clear[hvia_pkg::PciConfigCommandReceivedMasterAbortBit]);
      st_serr_q          <= (set_address_parity_i & parity_en_q & serr_en_q) |
        (st_serr_q & ~clear[hvia_pkg::PciConfigCommandSignaledSystemErrorBit]);
      st_parity_q        <= any_parity |
        (st_parity_q & ~clear[hvia_pkg::PciConfigCommandDetectedParityErrorBit]);
    end
  end

  assign memory_en_o     = memory_en_q;
  assign bus_master_en_o = bus_master_en_q;
  assign parity_en_o     = parity_en_q;
  assign serr_en_o       = serr_en_q;
  assign latency_timer_o = latency_q;
  assign bar0_o          = bar0_q;
  assign bar1_o          = bar1_q;

  assign quiet_o = ~cfg_we_i & ~any_parity & ~set_perr_seen_i & ~set_master_abort_i &
      ~set_target_abort_i;

endmodule
