// SPDX-License-Identifier: Apache-2.0

// State of the send queues: per VI the number of descriptors posted and not yet taken, and the
// address of the next one. Queues are linked lists in host memory; the provider links a descriptor
// to its predecessor before it rings. So an address in a doorbell matters only when the queue is
// empty; otherwise the successor is the link in the predecessor, which the fetch reads anyway.
// The count falls before the read is requested: a doorbell that comes later finds 0 and brings its
// own address, one that came earlier has its link in memory already.
//
// The ready list holds each VI at most once and turns by descriptor, so that no VI starves another.
module send_queue #(
    parameter int unsigned DepthLog2 = 10
) (
    input  logic        clk_i,
    input  logic        rst_ni,
    // Commits of the doorbell.
    input  logic        db_valid_i,
    output logic        db_ready_o,
    input  logic [7:0]  db_vi_i,
    input  logic [63:0] db_va_i,
    input  logic [31:0] db_handle_i,
    // The next descriptor to fetch.
    output logic        take_valid_o,
    input  logic        take_ready_i,
    output logic [7:0]  take_vi_o,
    output logic [63:0] take_va_o,
    output logic [31:0] take_handle_o,
    output logic        take_more_o,
    output logic [15:0] take_seq_o,
    // The link found in a descriptor that had successors.
    input  logic        link_valid_i,
    output logic        link_ready_o,
    input  logic        link_bad_i,
    input  logic [7:0]  link_vi_i,
    input  logic [63:0] link_va_i,
    input  logic [31:0] link_handle_i,
    // Forget a queue. The VI is Free before and until it has drained: a link that the fetch still
    // owes, or a doorbell that was under way, may bring an entry back, which the fetch then drops
    // unread.
    input  logic        clear_valid_i,
    output logic        clear_ready_o,
    input  logic [7:0]  clear_vi_i,
    // Draining.
    input  logic [7:0]  drain_vi_i,
    output logic        vi_busy_o,
    output logic        overrun_valid_o,
    output logic [7:0]  overrun_vi_o,
    output logic        stat_doorbell_overrun_o,
    output logic        quiet_o
);

  localparam int unsigned CountWidth = DepthLog2 + 1;
  localparam logic [CountWidth-1:0] Full = {1'b1, {DepthLog2{1'b0}}};

  logic [95:0]           next_mem  [256];
  logic [CountWidth-1:0] count_mem [256];
  logic [15:0]           seq_mem   [256];
  logic [7:0]            ready_mem [256];

  // Memories are not reset: a count or a sequence is 0 while its bit here is 0.
  logic [255:0] pending_q, known_q;
  // The VI stands in the ready list. A queue that was cleared may still, and must not enter twice.
  logic [255:0] listed_q;

  typedef enum logic [2:0] {Idle, Commit, Link, Clear, Take} op_e;
  op_e op_q, op_d;
  logic [7:0] op_vi_d, op_vi_q;

  // Ready list, a FIFO of VI numbers with room for all of them.
  logic [8:0] head_q, tail_q;
  logic       ready_any, push, pop;
  logic [7:0] ready_vi;

  assign ready_any = head_q != tail_q;
  assign ready_vi  = ready_mem[head_q[7:0]];

  logic        take_valid_q, take_more_q;
  logic [7:0]  take_vi_q;
  logic [95:0] take_next_q;
  logic [15:0] take_seq_q;

  logic take_free;
  assign take_free = !take_valid_q || take_ready_i;

  // One operation at a time: read in the cycle in which it is chosen, write in the next.
  always_comb begin
    op_d    = Idle;
    op_vi_d = db_vi_i;
    if (op_q == Idle) begin
      if (clear_valid_i) begin
        op_d    = Clear;
        op_vi_d = clear_vi_i;
      end else if (link_valid_i) begin
        op_d    = Link;
        op_vi_d = link_vi_i;
      end else if (db_valid_i) begin
        op_d    = Commit;
        op_vi_d = db_vi_i;
      end else if (ready_any && take_free) begin
        op_d    = Take;
        op_vi_d = ready_vi;
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      op_q    <= Idle;
      op_vi_q <= 8'd0;
    end else if (op_q != Idle || op_d != Idle) begin
      op_q    <= op_d;
      op_vi_q <= op_vi_d;
    end
  end

  logic [CountWidth-1:0] count_rd_q, count, count_new;
  logic [95:0]           next_rd_q;
  logic [15:0]           seq_rd_q, seq;

  always_ff @(posedge clk_i) begin
    if (op_d != Idle) begin
      count_rd_q <= count_mem[op_vi_d];
      next_rd_q  <= next_mem[op_vi_d];
      seq_rd_q   <= seq_mem[op_vi_d];
    end
  end

  assign count = pending_q[op_vi_q] ? count_rd_q : '0;
  assign seq   = known_q[op_vi_q] ? seq_rd_q : 16'd0;

  // A queue that was cleared while its VI stood in the ready list has nothing to offer.
  logic taken;
  assign taken = op_q == Take && count != '0;

  logic write_count, write_next;
  logic [95:0] next_new;

  always_comb begin
    write_count = 1'b0;
    write_next  = 1'b0;
    count_new   = count;
    next_new    = {db_handle_i, db_va_i};
    push        = 1'b0;
    pop         = 1'b0;
    stat_doorbell_overrun_o = 1'b0;
    unique case (op_q)
      Commit: begin
        if (count == Full) begin
          stat_doorbell_overrun_o = 1'b1;
        end else begin
          write_count = 1'b1;
          count_new   = count + 1'b1;
          if (count == '0) begin
            write_next = 1'b1;
            push       = !listed_q[op_vi_q];
          end
        end
      end
      Link: begin
        // A descriptor that could not be read hides its successors: the queue is lost with it.
        next_new = {link_handle_i, link_va_i};
        if (count != '0) begin
          if (link_bad_i) begin
            write_count = 1'b1;
            count_new   = '0;
          end else begin
            write_next = 1'b1;
            push       = !listed_q[op_vi_q];
          end
        end
      end
      Clear: begin
        write_count = 1'b1;
        count_new   = '0;
      end
      Take: begin
        pop = 1'b1;
        if (taken) begin
          write_count = 1'b1;
          count_new   = count - 1'b1;
        end
      end
      default: ;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (write_count) count_mem[op_vi_q] <= count_new;
    if (write_next) next_mem[op_vi_q] <= next_new;
    if (taken) seq_mem[op_vi_q] <= seq + 16'd1;
    if (push) ready_mem[tail_q[7:0]] <= op_vi_q;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      pending_q <= '0;
      known_q   <= '0;
      listed_q  <= '0;
      head_q    <= '0;
      tail_q    <= '0;
    end else begin
      if (write_count) pending_q[op_vi_q] <= count_new != '0;
      if (taken) known_q[op_vi_q] <= 1'b1;
      if (push) begin
        tail_q            <= tail_q + 9'd1;
        listed_q[op_vi_q] <= 1'b1;
      end
      if (pop) begin
        head_q            <= head_q + 9'd1;
        listed_q[op_vi_q] <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      take_valid_q <= 1'b0;
      take_more_q  <= 1'b0;
      take_vi_q    <= 8'd0;
      take_next_q  <= '0;
      take_seq_q   <= 16'd0;
    end else begin
      if (take_ready_i) take_valid_q <= 1'b0;
      if (taken) begin
        take_valid_q <= 1'b1;
        take_more_q  <= count_new != '0;
        take_vi_q    <= op_vi_q;
        take_next_q  <= next_rd_q;
        take_seq_q   <= seq;
      end
    end
  end

  assign db_ready_o    = op_q == Commit;
  assign link_ready_o  = op_q == Link;
  assign clear_ready_o = op_q == Clear;

  assign take_valid_o  = take_valid_q;
  assign take_vi_o     = take_vi_q;
  assign take_va_o     = take_next_q[63:0];
  assign take_handle_o = take_next_q[95:64];
  assign take_more_o   = take_more_q;
  assign take_seq_o    = take_seq_q;

  assign overrun_valid_o = stat_doorbell_overrun_o;
  assign overrun_vi_o    = op_vi_q;

  assign vi_busy_o = pending_q[drain_vi_i] || (take_valid_q && take_vi_q == drain_vi_i) ||
                     (db_valid_i && db_vi_i == drain_vi_i) ||
                     (op_q != Idle && op_vi_q == drain_vi_i);

  assign quiet_o = op_q == Idle && !ready_any && !take_valid_q && !db_valid_i && !link_valid_i &&
                   !clear_valid_i;

endmodule
