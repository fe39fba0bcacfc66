// SPDX-License-Identifier: Apache-2.0

// The card's registers behind BAR 0, as listed in `layout`, and the path of BAR 1 accesses to the
// doorbell block.
//
// Two resets meet here. The target side (`rst_ni`) lives as long as the PCI side, so the host gets
// responses during a soft reset; the register contents are cleared with the core (`core_rst_ni`).
// From the request of a soft reset to its end, writes to registers and doorbells are accepted and
// dropped, `enable_o` is 0, and reads work.
//
// A read returns two clocks after `tgt_rvalid_i`. Offsets without a register and all of BAR 1 read
// 0; writes to them, and to read-only registers, have no effect. The doorbell block may stall a
// doorbell write; register writes never stall.
//
// Raw rings: a write to a ring's Base or Size restarts the ring (`*_restart_o`): Head and Tail
// become 0. A Size above 8 is stored as 0, off.
//
// Asynchronous errors wait in a small queue, oldest first; a read of AsyncErrorInfo takes one. With
// a full queue the error is dropped, but one bit per VI records it, so software knows which VIs it
// can no longer trust.
//
// `notify` owns the notifications; this module has the two registers that access it. A read of
// NotifyInfo removes the name in the clock in which it is sampled.
module hvia_registers #(
    parameter int unsigned DataBytes = 4,
    parameter int unsigned Ports     = 1
) (
    input logic clk_i,
    input logic rst_ni,
    input logic core_rst_ni,

    // Target port
    input  logic        tgt_wvalid_i,
    output logic        tgt_wready_o,
    input  logic        tgt_wbar_i,
    input  logic [19:0] tgt_waddr_i,
    input  logic [31:0] tgt_wdata_i,
    input  logic [ 3:0] tgt_wbe_i,
    input  logic        tgt_rvalid_i,
    input  logic        tgt_rbar_i,
    input  logic [19:0] tgt_raddr_i,
    output logic        tgt_rready_o,
    output logic [31:0] tgt_rdata_o,

    // Doorbell block
    output logic        db_wvalid_o,
    input  logic        db_wready_i,
    output logic [19:0] db_waddr_o,
    output logic [31:0] db_wdata_o,
    output logic [ 3:0] db_wbe_o,

    // Counters
    output logic [ 6:0] counter_index_o,
    input  logic [31:0] counter_data_i,

    // Reset
    input  logic [31:0] strap_i,
    output logic        soft_reset_o,
    input  logic        soft_reset_busy_i,

    // Card
    output logic        enable_o,
    output logic [47:0] mac_o,
    input  logic        ready_i,
    input  logic        card_quiet_i,

    // VI manager
    output logic        cmd_valid_o,
    output logic [31:0] cmd_addr_o,
    input  logic        cmd_busy_i,
    output logic        stat_command_ignored_o,

    // Raw port; `*_busy_i`: the ring has an entry in flight
    output logic [31:0] att_level1_o,
    output logic [31:0] att_level2_o,
    output logic [31:0] rawtx_base_o,
    output logic [ 3:0] rawtx_size_o,
    output logic [ 7:0] rawtx_tail_o,
    output logic        rawtx_restart_o,
    input  logic [ 7:0] rawtx_head_i,
    input  logic        rawtx_busy_i,
    output logic [31:0] rawrx_base_o,
    output logic [ 3:0] rawrx_size_o,
    output logic [ 7:0] rawrx_tail_o,
    output logic        rawrx_restart_o,
    input  logic [ 7:0] rawrx_head_i,
    input  logic        rawrx_busy_i,

    // Interrupt causes, one clock each
    input  logic       irq_command_done_i,
    input  logic       irq_raw_receive_i,
    input  logic       irq_raw_transmit_i,
    input  logic       irq_bus_error_i,
    input  logic       async_valid_i,
    input  logic [7:0] async_code_i,
    input  logic [7:0] async_vi_i,
    input  logic       link_down_i,
    input  logic       irq_notify_i,
    output logic       inta_o,

    // Notifications
    output logic        arm_valid_o,
    output logic [ 1:0] arm_kind_o,
    output logic [ 7:0] arm_index_o,
    output logic        info_read_o,
    input  logic [31:0] info_data_i,

    output logic quiet_o
);

  // Capabilities of this card.
  localparam logic [2:0] Reliability =
      hvia_pkg::ReliabilityUnreliable | hvia_pkg::ReliabilityDelivery |
          hvia_pkg::ReliabilityReception;
  localparam logic       RDMARead    = 1'b1;
  localparam logic [3:0] QueuesLog2  = 4'(hvia_params_pkg::CompletionQueuesLog2);

  localparam logic [3:0] MaxRingLog2 = 4'd8;
  // Interrupt causes.
  localparam int unsigned Causes = hvia_pkg::RegisterInterruptStatusNotifyBit + 1;

  localparam logic [31:0] Version =
      (32'(hvia_pkg::CardVersionMajor) << hvia_pkg::RegisterVersionMajorLsb) |
      (32'(hvia_pkg::CardVersionMinor) << hvia_pkg::RegisterVersionMinorLsb);
  localparam logic [31:0] Capability =
      (hvia_params_pkg::VICountLog2 << hvia_pkg::RegisterCapabilityVICountLog2Lsb) |
      (DataBytes << hvia_pkg::RegisterCapabilityDataBytesLsb) |
      (Ports << hvia_pkg::RegisterCapabilityPortsLsb) |
      (32'(Reliability) << hvia_pkg::RegisterCapabilityReliabilityLsb) |
      (32'(RDMARead) << hvia_pkg::RegisterCapabilityRDMAReadBit) |
      (32'(QueuesLog2) << hvia_pkg::RegisterCapabilityCompletionQueuesLog2Lsb);

  // Bits of a write that its byte enables select.
  function automatic logic [31:0] merge(input logic [31:0] old, input logic [31:0] data,
                                        input logic [3:0] be);
    logic [31:0] mask;
    mask  = {{8{be[3]}}, {8{be[2]}}, {8{be[1]}}, {8{be[0]}}};
    merge = (old & ~mask) | (data & mask);
  endfunction

  // Register contents.
  logic        enable_q, enable_d;
  logic [Causes-1:0] irq_status_q, irq_status_d, irq_enable_q, irq_enable_d, irq_set;
  logic [47:0] mac_q, mac_d;
  logic [31:0] att_level1_q, att_level1_d, att_level2_q, att_level2_d;
  logic [31:0] rawtx_base_q, rawtx_base_d, rawrx_base_q, rawrx_base_d;
  logic [ 3:0] rawtx_size_q, rawtx_size_d, rawrx_size_q, rawrx_size_d;
  logic [ 7:0] rawtx_tail_q, rawtx_tail_d, rawrx_tail_q, rawrx_tail_d;

  // Writes.
  logic reg_write, write_accept, hold_off;
  assign hold_off     = soft_reset_busy_i || !core_rst_ni;
  assign tgt_wready_o = !tgt_wbar_i || hold_off || db_wready_i;
  assign write_accept = tgt_wvalid_i && tgt_wready_o;
  assign reg_write    = write_accept && !tgt_wbar_i && !hold_off;

  assign db_wvalid_o = tgt_wvalid_i && tgt_wbar_i && !hold_off;
  assign db_waddr_o  = tgt_waddr_i;
  assign db_wdata_o  = tgt_wdata_i;
  assign db_wbe_o    = tgt_wbe_i;

  logic [31:0] ring_size;
  logic        command_write;

  always_comb begin
    enable_d        = enable_q;
    irq_status_d    = irq_status_q;
    irq_enable_d    = irq_enable_q;
    mac_d           = mac_q;
    att_level1_d    = att_level1_q;
    att_level2_d    = att_level2_q;
    rawtx_base_d    = rawtx_base_q;
    rawtx_size_d    = rawtx_size_q;
    rawtx_tail_d    = rawtx_tail_q;
    rawrx_base_d    = rawrx_base_q;
    rawrx_size_d    = rawrx_size_q;
    rawrx_tail_d    = rawrx_tail_q;
    soft_reset_o    = 1'b0;
    rawtx_restart_o = 1'b0;
    rawrx_restart_o = 1'b0;
    command_write   = 1'b0;
    arm_valid_o     = 1'b0;
    ring_size       = {28'd0, (tgt_wdata_i[7:0] > 8'(MaxRingLog2)) ? 4'd0 : tgt_wdata_i[3:0]};

    if (reg_write) begin
      case (tgt_waddr_i)
        hvia_pkg::RegisterControlOffset: begin
          if (tgt_wbe_i[0]) begin
            enable_d     = tgt_wdata_i[hvia_pkg::RegisterControlEnableBit];
            soft_reset_o = tgt_wdata_i[hvia_pkg::RegisterControlSoftResetBit];
          end
        end
        hvia_pkg::RegisterInterruptStatusOffset: begin
          if (tgt_wbe_i[0]) irq_status_d = irq_status_q & ~tgt_wdata_i[Causes-1:0];
        end
        hvia_pkg::RegisterInterruptEnableOffset: begin
          if (tgt_wbe_i[0]) irq_enable_d = tgt_wdata_i[Causes-1:0];
        end
        hvia_pkg::RegisterCommandAddressOffset: command_write = 1'b1;
        hvia_pkg::RegisterNotifyArmOffset: arm_valid_o = tgt_wbe_i == 4'hf;
        hvia_pkg::RegisterMacLowOffset: begin
          mac_d[31:0] = merge(mac_q[31:0], tgt_wdata_i, tgt_wbe_i);
        end
        hvia_pkg::RegisterMacHighOffset: begin
          mac_d[47:32] = 16'(merge({16'd0, mac_q[47:32]}, tgt_wdata_i, tgt_wbe_i));
        end
        hvia_pkg::RegisterAttHostLevel1Offset: begin
          att_level1_d = merge(att_level1_q, {tgt_wdata_i[31:12], 12'd0}, tgt_wbe_i);
        end
        hvia_pkg::RegisterAttHostLevel2Offset: begin
          att_level2_d = merge(att_level2_q, {tgt_wdata_i[31:12], 12'd0}, tgt_wbe_i);
        end
        hvia_pkg::RegisterRawTransmitBaseOffset: begin
          rawtx_base_d    = merge(rawtx_base_q, {tgt_wdata_i[31:4], 4'd0}, tgt_wbe_i);
          rawtx_restart_o = 1'b1;
        end
        hvia_pkg::RegisterRawTransmitSizeOffset: begin
          rawtx_size_d    = 4'(merge({28'd0, rawtx_size_q}, ring_size, tgt_wbe_i));
          rawtx_restart_o = 1'b1;
        end
        hvia_pkg::RegisterRawTransmitTailOffset: begin
          if (tgt_wbe_i[0]) rawtx_tail_d = tgt_wdata_i[7:0];
        end
        hvia_pkg::RegisterRawReceiveBaseOffset: begin
          rawrx_base_d    = merge(rawrx_base_q, {tgt_wdata_i[31:4], 4'd0}, tgt_wbe_i);
          rawrx_restart_o = 1'b1;
        end
        hvia_pkg::RegisterRawReceiveSizeOffset: begin
          rawrx_size_d    = 4'(merge({28'd0, rawrx_size_q}, ring_size, tgt_wbe_i));
          rawrx_restart_o = 1'b1;
        end
        hvia_pkg::RegisterRawReceiveTailOffset: begin
          if (tgt_wbe_i[0]) rawrx_tail_d = tgt_wdata_i[7:0];
        end
        default: ;
      endcase
    end
    if (rawtx_restart_o) rawtx_tail_d = 8'd0;
    if (rawrx_restart_o) rawrx_tail_d = 8'd0;
    // A cause that is set while software clears it stays pending.
    irq_status_d = irq_status_d | irq_set;
  end

  always_comb begin
    irq_set                                                      = '0;
    irq_set[hvia_pkg::RegisterInterruptStatusCommandDoneBit]     = irq_command_done_i;
    irq_set[hvia_pkg::RegisterInterruptStatusRawReceiveBit]      = irq_raw_receive_i;
    irq_set[hvia_pkg::RegisterInterruptStatusRawTransmitBit]     = irq_raw_transmit_i;
    irq_set[hvia_pkg::RegisterInterruptStatusAsyncErrorBit]      = async_valid_i;
    irq_set[hvia_pkg::RegisterInterruptStatusBusErrorBit]        = irq_bus_error_i;
    irq_set[hvia_pkg::RegisterInterruptStatusNotifyBit]          = irq_notify_i;
  end

  // A command starts only if it can be executed and its address is complete; any other write is
  // counted, so a driver's mistake is visible.
  assign cmd_valid_o = command_write && (tgt_wbe_i == 4'hf) && ready_i && !cmd_busy_i;
  assign cmd_addr_o  = tgt_wdata_i;
  assign stat_command_ignored_o = command_write && !cmd_valid_o;

  assign arm_kind_o  = tgt_wdata_i[hvia_pkg::RegisterNotifyArmKindLsb
      +:hvia_pkg::RegisterNotifyArmKindWidth];
  assign arm_index_o =
      tgt_wdata_i[hvia_pkg::RegisterNotifyArmIndexLsb+:hvia_pkg::RegisterNotifyArmIndexWidth];

  logic state_change;
  assign state_change = reg_write || (|irq_set);

  always_ff @(posedge clk_i) begin
    if (!core_rst_ni) begin
      enable_q      <= 1'b0;
      irq_status_q  <= '0;
      irq_enable_q  <= '0;
      mac_q         <= '0;
      att_level1_q  <= '0;
      att_level2_q  <= '0;
      rawtx_base_q  <= '0;
      rawtx_size_q  <= '0;
      rawtx_tail_q  <= '0;
      rawrx_base_q  <= '0;
      rawrx_size_q  <= '0;
      rawrx_tail_q  <= '0;
    end else if (state_change) begin
      enable_q     <= enable_d;
      irq_status_q <= irq_status_d;
      irq_enable_q <= irq_enable_d;
      mac_q        <= mac_d;
      att_level1_q <= att_level1_d;
      att_level2_q <= att_level2_d;
      rawtx_base_q <= rawtx_base_d;
      rawtx_size_q <= rawtx_size_d;
      rawtx_tail_q <= rawtx_tail_d;
      rawrx_base_q <= rawrx_base_d;
      rawrx_size_q <= rawrx_size_d;
      rawrx_tail_q <= rawrx_tail_d;
    end
  end

  assign enable_o     = enable_q && !hold_off;
  assign inta_o       = |(irq_status_q & irq_enable_q);
  assign mac_o        = mac_q;
  assign att_level1_o = att_level1_q;
  assign att_level2_o = att_level2_q;
  assign rawtx_base_o = rawtx_base_q;
  assign rawtx_size_o = rawtx_size_q;
  assign rawtx_tail_o = rawtx_tail_q;
  assign rawrx_base_o = rawrx_base_q;
  assign rawrx_size_o = rawrx_size_q;
  assign rawrx_tail_o = rawrx_tail_q;

  // Asynchronous errors. Head and tail have one bit more than an index to distinguish full from
  // empty. A read frees a slot for an error of the same clock.
  localparam int unsigned AsyncLog2 = $clog2(hvia_pkg::AsyncErrorSlots);

  logic [15:0]          async_mem [hvia_pkg::AsyncErrorSlots];
  logic [AsyncLog2:0]   async_head_q, async_tail_q;
  logic                 async_empty, async_full, async_take, async_keep, async_drop;
  logic                 async_overflow_q;
  logic [13:0]          async_count_q;
  logic [32*hvia_pkg::AsyncErrorDroppedWords-1:0]         async_dropped_q;
  logic                 rd_start, rd_async, rd_dropped;

  assign async_empty = async_head_q == async_tail_q;
  assign async_full  = async_tail_q == {~async_head_q[AsyncLog2], async_head_q[AsyncLog2-1:0]};
  assign async_take  = rd_async && !async_empty;
  assign async_keep  = async_valid_i && (!async_full || async_take);
  assign async_drop  = async_valid_i && !async_keep;

  always_ff @(posedge clk_i) begin
    if (!core_rst_ni) begin
      async_head_q     <= '0;
      async_tail_q     <= '0;
      async_overflow_q <= 1'b0;
      async_count_q    <= '0;
      async_dropped_q  <= '0;
    end else begin
      if (async_take) async_head_q <= async_head_q + 1'b1;
      if (async_keep) async_tail_q <= async_tail_q + 1'b1;
      if (async_valid_i) async_count_q <= async_count_q + 1'b1;
      if (rd_async) async_overflow_q <= 1'b0;
      if (rd_dropped) async_dropped_q[{tgt_raddr_i[4:2], 5'd0}+:32] <= '0;
      // A loss in the clock of a read must not be cleared: the next read reports it.
      if (async_drop) begin
        async_overflow_q <= 1'b1;
        // The link belongs to no VI; State reports it.
        if ((async_code_i != hvia_pkg::AsyncErrorLinkDown) &&
            (async_code_i != hvia_pkg::AsyncErrorLinkUp)) begin
          async_dropped_q[async_vi_i] <= 1'b1;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (async_keep) async_mem[async_tail_q[AsyncLog2-1:0]] <= {async_vi_i, async_code_i};
  end

  // Whether the card is quiescent depends on raw bits of other clock domains (`settled_o` of
  // `cdc_sync`), so a read of State shows it as of two clocks earlier.
  logic card_quiet, card_quiet_settled;
  hvia_cdc_sync u_card_quiet (
      .clk_i, .rst_ni, .d_i(card_quiet_i), .q_o(card_quiet), .settled_o(card_quiet_settled)
  );

  // Reads: the first clock passes the address to the counters and selects the register, the second
  // returns the word. A read's side effect is in the first clock.
  typedef enum logic [1:0] {
    RdIdle,
    RdWord,
    RdAnswer
  } rd_state_e;
  rd_state_e   rd_state_q, rd_state_d;
  logic [31:0] rd_word, rd_word_q, rdata_q;
  logic        rd_counter, rd_counter_q;

  assign counter_index_o = 7'((tgt_raddr_i - hvia_pkg::CounterBase) >> 2);
  assign rd_counter = !tgt_rbar_i && (tgt_raddr_i >= hvia_pkg::CounterBase) &&
      (tgt_raddr_i < hvia_pkg::CounterBase + 20'(4 * hvia_pkg::CounterSlots));

  logic        dropped_hit;
  logic [15:0] async_oldest;
  assign dropped_hit  = !tgt_rbar_i && tgt_raddr_i[19:5] == hvia_pkg::AsyncErrorDroppedBase[19:5];
  assign async_oldest = async_mem[async_head_q[AsyncLog2-1:0]];

  assign rd_start   = rd_state_q == RdIdle && tgt_rvalid_i;
  assign rd_dropped = rd_start && dropped_hit;
  assign rd_async   = rd_start && !tgt_rbar_i &&
      {tgt_raddr_i[19:2], 2'b00} == hvia_pkg::RegisterAsyncErrorInfoOffset;
  assign info_read_o = rd_start && !tgt_rbar_i &&
      {tgt_raddr_i[19:2], 2'b00} == hvia_pkg::RegisterNotifyInfoOffset;

  always_comb begin
    rd_word = 32'd0;
    if (!tgt_rbar_i) begin
      if (dropped_hit) rd_word = async_dropped_q[{tgt_raddr_i[4:2], 5'd0}+:32];
      case ({tgt_raddr_i[19:2], 2'b00})
        hvia_pkg::RegisterIDOffset: rd_word = hvia_pkg::CardID;
        hvia_pkg::RegisterVersionOffset: rd_word = Version;
        hvia_pkg::RegisterLayoutHashLowOffset: rd_word = hvia_pkg::LayoutHash[31:0];
        hvia_pkg::RegisterLayoutHashHighOffset: rd_word = hvia_pkg::LayoutHash[63:32];
        hvia_pkg::RegisterCapabilityOffset: begin
          rd_word = Capability;
          rd_word[hvia_pkg::RegisterCapabilityTableInHostMemoryBit] =
              strap_i[hvia_pkg::StrapAttInHostMemory];
        end
        hvia_pkg::RegisterStrapOffset: rd_word = strap_i;
        hvia_pkg::RegisterControlOffset: begin
          rd_word[hvia_pkg::RegisterControlSoftResetBit] = soft_reset_busy_i;
          rd_word[hvia_pkg::RegisterControlEnableBit]    = enable_q;
        end
        hvia_pkg::RegisterStateOffset: begin
          rd_word[hvia_pkg::RegisterStateReadyBit]       = ready_i && !hold_off;
          rd_word[hvia_pkg::RegisterStateCommandBusyBit] = cmd_busy_i;
          rd_word[hvia_pkg::RegisterStateQuietBit]       = card_quiet;
          rd_word[hvia_pkg::RegisterStateLinkDownBit]    = link_down_i;
        end
        hvia_pkg::RegisterInterruptStatusOffset: rd_word[Causes-1:0] = irq_status_q;
        hvia_pkg::RegisterInterruptEnableOffset: rd_word[Causes-1:0] = irq_enable_q;
        hvia_pkg::RegisterMacLowOffset: rd_word = mac_q[31:0];
        hvia_pkg::RegisterMacHighOffset: rd_word[15:0] = mac_q[47:32];
        hvia_pkg::RegisterAttHostLevel1Offset: rd_word = att_level1_q;
        hvia_pkg::RegisterAttHostLevel2Offset: rd_word = att_level2_q;
        hvia_pkg::RegisterRawTransmitBaseOffset: rd_word = rawtx_base_q;
        hvia_pkg::RegisterRawTransmitSizeOffset: begin
          rd_word[3:0] = rawtx_size_q;
          rd_word[hvia_pkg::RegisterRawTransmitSizeBusyBit] = rawtx_busy_i;
        end
        hvia_pkg::RegisterRawTransmitTailOffset: rd_word[7:0] = rawtx_tail_q;
        hvia_pkg::RegisterRawTransmitHeadOffset: rd_word[7:0] = rawtx_head_i;
        hvia_pkg::RegisterRawReceiveBaseOffset: rd_word = rawrx_base_q;
        hvia_pkg::RegisterRawReceiveSizeOffset: begin
          rd_word[3:0] = rawrx_size_q;
          rd_word[hvia_pkg::RegisterRawReceiveSizeBusyBit] = rawrx_busy_i;
        end
        hvia_pkg::RegisterRawReceiveTailOffset: rd_word[7:0] = rawrx_tail_q;
        hvia_pkg::RegisterRawReceiveHeadOffset: rd_word[7:0] = rawrx_head_i;
        hvia_pkg::RegisterAsyncErrorInfoOffset: begin
          rd_word[hvia_pkg::RegisterAsyncErrorInfoValidBit]    = !async_empty;
          rd_word[hvia_pkg::RegisterAsyncErrorInfoOverflowBit] = async_overflow_q;
          rd_word[hvia_pkg::RegisterAsyncErrorInfoCountLsb
              +:hvia_pkg::RegisterAsyncErrorInfoCountWidth] =
              async_count_q;
          if (!async_empty) begin
            rd_word[hvia_pkg::RegisterAsyncErrorInfoCodeLsb+:8] = async_oldest[7:0];
            rd_word[hvia_pkg::RegisterAsyncErrorInfoVILsb+:8]   = async_oldest[15:8];
          end
        end
        hvia_pkg::RegisterNotifyInfoOffset: rd_word = info_data_i;
        default: ;
      endcase
    end
  end

  always_comb begin
    rd_state_d = rd_state_q;
    case (rd_state_q)
      RdIdle:   if (tgt_rvalid_i) rd_state_d = RdWord;
      RdWord:   rd_state_d = RdAnswer;
      RdAnswer: rd_state_d = RdIdle;
      default:  rd_state_d = RdIdle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) rd_state_q <= RdIdle;
    else rd_state_q <= rd_state_d;
  end

  always_ff @(posedge clk_i) begin
    if (rd_start) begin
      rd_word_q    <= rd_word;
      rd_counter_q <= rd_counter;
    end
    if (rd_state_q == RdWord) rdata_q <= rd_counter_q ? counter_data_i : rd_word_q;
  end

  assign tgt_rready_o = rd_state_q == RdAnswer;
  assign tgt_rdata_o  = rdata_q;

  assign quiet_o = core_rst_ni && card_quiet_settled && rd_state_q == RdIdle && !tgt_rvalid_i &&
      !write_accept && !(|irq_set);

endmodule
