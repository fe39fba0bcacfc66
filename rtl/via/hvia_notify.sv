// SPDX-License-Identifier: Apache-2.0

// Notifications. Software arms a work queue or a completion queue; the next completion or entry for
// it raises one interrupt, and its name enters a queue that software reads, one name per read.
//
// Each queue of the card has two bits. *Armed* is set by the arming and cleared by the next event.
// *Queued* means that its name waits to be read, so each name is queued at most once and the queue
// cannot overflow. A queue may be armed again while its name waits. The name then also reports an
// event that comes before it is read, because that event is in memory by then; without such an
// event the queue is still armed after the read. So no arming is lost, and none is reported twice.
// An event in the clock of an arming precedes it. An arming outlives its VI or ring: it stays until
// an event for the index, or a reset.
module hvia_notify (
    input  logic        clk_i,
    input  logic        rst_ni,
    // Events from `completion`: in host memory by now.
    input  logic        done_valid_i,
    input  logic [1:0]  done_kind_i,
    input  logic [7:0]  done_index_i,
    // From `registers`. A read removes the shown name; the next one is valid two clocks later.
    input  logic        arm_valid_i,
    input  logic [1:0]  arm_kind_i,
    input  logic [7:0]  arm_index_i,
    input  logic        info_read_i,
    output logic [31:0] info_data_o,
    output logic        irq_notify_o,
    output logic        stat_notify_o,
    output logic        quiet_o
);

  // A name is kind and index; the width of each.
  localparam int unsigned KindBits = hvia_pkg::NotifyKindBits;
  localparam int unsigned NameBits = KindBits + 8;
  localparam int unsigned Queues   = 1 << hvia_params_pkg::CompletionQueuesLog2;
  localparam int unsigned Names    = (32'(hvia_pkg::NotifyKindCompletionQueue) << 8) + Queues;

  logic [Names-1:0]    armed_q, queued_q;
  logic [NameBits-1:0] done_name, arm_name, name_q;
  logic [NameBits-1:0] queue_mem [1 << NameBits];
  logic [NameBits-1:0] put_q, take_q;
  logic                shown_q, arm, hit, put, taken, load;

  assign done_name = {done_kind_i, done_index_i};
  assign arm_name  = {arm_kind_i, arm_index_i};

  // Names from `Names` on do not exist.
  assign arm   = arm_valid_i && 32'(arm_name) < Names;
  assign hit   = done_valid_i && 32'(done_name) < Names && armed_q[done_name];
  assign taken = info_read_i && shown_q;
  assign put   = hit && (!queued_q[done_name] || (taken && name_q == done_name));
  assign load  = !shown_q && take_q != put_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      armed_q  <= '0;
      queued_q <= '0;
      put_q    <= '0;
      take_q   <= '0;
      shown_q  <= 1'b0;
    end else begin
      if (hit) armed_q[done_name] <= 1'b0;
      if (arm) armed_q[arm_name] <= 1'b1;
      if (taken) queued_q[name_q] <= 1'b0;
      if (put) queued_q[done_name] <= 1'b1;
      if (put) put_q <= put_q + 1'b1;
      if (load) take_q <= take_q + 1'b1;
      if (load) shown_q <= 1'b1;
      else if (taken) shown_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (put) queue_mem[put_q] <= done_name;
    if (load) name_q <= queue_mem[take_q];
  end

  always_comb begin
    info_data_o = '0;
    if (shown_q) begin
      info_data_o[hvia_pkg::RegisterNotifyInfoIndexLsb +: hvia_pkg::RegisterNotifyInfoIndexWidth] =
          name_q[7:0];
      info_data_o[hvia_pkg::RegisterNotifyInfoKindLsb +: hvia_pkg::RegisterNotifyInfoKindWidth] =
          name_q[8 +: KindBits];
      info_data_o[hvia_pkg::RegisterNotifyInfoValidBit] = 1'b1;
    end
  end

  assign irq_notify_o  = put;
  assign stat_notify_o = put;

  assign quiet_o = !hit && !(arm && !armed_q[arm_name]) && !taken && !load;

endmodule
