// SPDX-License-Identifier: Apache-2.0

// State of the work queues, a send and a receive queue per VI: the number of descriptors posted and
// not yet taken, and the address of the next one. Queues are linked lists in host memory; the
// provider links a descriptor to its predecessor before it rings. So a doorbell's address matters
// only when the queue is empty; otherwise the successor is the link in the predecessor, which the
// fetch reads anyway. The count falls before the read is requested: a later doorbell finds 0 and
// brings the address itself, and the link of an earlier one is already in memory.
//
// A send queue is ready for the next descriptor as soon as its link is known. A receive queue has
// one descriptor on the chip at a time: the one before must be released, too. Each kind has a ready
// list. A list holds each VI at most once and rotates by descriptor, so no VI starves another. Each
// list has a separate offer: a send descriptor that waits for space never blocks a receive
// descriptor.
//
// A held send queue (the ledger has no space for more of that VI) is parked when its turn in the
// list comes, and re-enters the list when the hold ends.
//
// With `on_arrival_i` a receive queue enters its list only when the receive engine waits for its
// descriptor, or when it is flushed. One of a VI that was reset enters at once, to be dropped.
module hvia_work_queue #(
    parameter int unsigned DepthLog2 = 10
) (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        on_arrival_i,  // strap ReceiveFetchOnArrival
    input  hvia_params_pkg::vis_t live_i,       // VIs that are not Free
    // Commits of the doorbell.
    input  logic        db_valid_i,
    output logic        db_ready_o,
    input  logic        db_receive_i,
    input  hvia_params_pkg::vi_t db_vi_i,
    input  logic [63:0] db_va_i,
    input  logic [31:0] db_handle_i,
    // The next descriptor to fetch.
    output logic        take_valid_o,
    input  logic        take_ready_i,
    output logic        take_receive_o,
    output hvia_params_pkg::vi_t take_vi_o,
    output logic [63:0] take_va_o,
    output logic [31:0] take_handle_o,
    output logic        take_more_o,
    output logic [15:0] take_seq_o,
    // VIs whose send queue is held, and one to offer anew, after its bit fell.
    input  hvia_params_pkg::vis_t send_hold_i,
    input  logic        unhold_valid_i,
    output logic        unhold_ready_o,
    input  hvia_params_pkg::vi_t unhold_vi_i,
    // The fetch has space for a send descriptor; falls only by a take.
    input  logic        send_space_i,
    // The link found in a descriptor that had successors.
    input  logic        link_valid_i,
    output logic        link_ready_o,
    input  logic        link_bad_i,
    input  logic        link_receive_i,
    input  hvia_params_pkg::vi_t link_vi_i,
    input  logic [63:0] link_va_i,
    input  logic [31:0] link_handle_i,
    // The receive descriptor of a VI has left the chip: 0 rx_engine, 1 descriptor_fetch.
    input  logic [1:0]  release_valid_i,
    output logic [1:0]  release_ready_o,
    input  logic [2*hvia_params_pkg::VICountLog2-1:0] release_vi_i,
    // Clear both queues. The VI is Free before and until it has drained: a link still due from the
    // fetch, or a doorbell in flight, may add an entry, which the fetch then drops unread.
    input  logic        clear_valid_i,
    output logic        clear_ready_o,
    input  hvia_params_pkg::vi_t clear_vi_i,
    // The receive queue of this VI has a descriptor posted, or one in flight to the fetch.
    input  hvia_params_pkg::vi_t coming_vi_i,
    output logic        coming_o,
    input  logic        wanted_i,  // and a message waits for it
    // Draining. Receive descriptors that wait for a message are work only during a flush.
    input  hvia_params_pkg::vi_t drain_vi_i,
    input  logic        drain_receive_i,
    output logic        vi_busy_o,
    output logic        overrun_valid_o,
    output logic [7:0]  overrun_vi_o,
    output logic        stat_doorbell_overrun_o,
    output logic        quiet_o
);

  localparam int unsigned CountWidth = DepthLog2 + 1;
  localparam int unsigned VIW        = hvia_params_pkg::VICountLog2;
  localparam int unsigned Queues     = 2 * hvia_params_pkg::VICount;
  localparam logic [CountWidth-1:0] Full = {1'b1, {DepthLog2{1'b0}}};

  // Queue number: {receive, VI}.
  logic [95:0]           next_mem  [Queues];
  logic [CountWidth-1:0] count_mem [Queues];
  logic [15:0]           seq_mem   [Queues];
  // Ready lists, FIFOs of VI numbers with capacity for all: 0 send, 1 receive.
  hvia_params_pkg::vi_t ready_mem [Queues];

  // Memories without reset: a count or a sequence is 0 while its bit here is 0.
  logic [Queues-1:0] pending_q, known_q;
  // The queue is in its ready list. A cleared one may still be, and must not enter twice.
  logic [Queues-1:0] listed_q;
  // Receive queues only: a descriptor was taken and not released; its link is still due.
  hvia_params_pkg::vis_t held_q, owed_q;
  // Send queues in no list because they were held when their turn came.
  hvia_params_pkg::vis_t parked_q;

  typedef enum logic [3:0] {Idle, Commit, Link, Release, Clear, ClearReceive, Take, Wake,
      Unhold} op_e;
  op_e op_q, op_d;
  logic [VIW:0] op_queue_d, op_queue_q;
  logic       op_receive;
  hvia_params_pkg::vi_t op_vi;
  assign op_receive = op_queue_q[VIW];
  assign op_vi      = op_queue_q[VIW-1:0];

  // Slots in the ready lists, kind n in slice n.
  logic [2*(VIW+1)-1:0] head_q, tail_q;
  logic [1:0]     ready_any;
  logic           push, pop;

  // Offers: 0 send, 1 receive. The VI is in the upper bits.
  localparam int unsigned OfferWidth = VIW + 96 + 1 + 16;
  logic [1:0]              offer_valid_q, offer_free, offer_taken;
  logic [2*OfferWidth-1:0] offer_q;
  hvia_params_pkg::vi_t offer_send_vi, offer_receive_vi;
  assign offer_send_vi    = offer_q[OfferWidth-VIW +: VIW];
  assign offer_receive_vi = offer_q[2*OfferWidth-VIW +: VIW];

  // One operation at a time: read in the clock in which it is chosen, write in the next. A clear is
  // two of them, one per queue.
  logic [1:0] take_can;
  logic       take_receive_d, took_receive_q, release_which_d, release_which_q;

  // Receive queues that should be in the ready list and are not: 0 of the VI that a message waits
  // for, 1 of the flushed one. The next descriptor's address is known unless the link is due.
  logic [1:0] wake_can;
  logic [VIW:0] wanted_queue, flushed_queue;
  assign wanted_queue  = {1'b1, coming_vi_i};
  assign flushed_queue = {1'b1, drain_vi_i};
  assign wake_can[0] = on_arrival_i && wanted_i && pending_q[wanted_queue] &&
      !listed_q[wanted_queue] &&
                       !held_q[coming_vi_i] && !owed_q[coming_vi_i];
  assign wake_can[1] = on_arrival_i && drain_receive_i && pending_q[flushed_queue] &&
      !listed_q[flushed_queue] &&
                       !held_q[drain_vi_i] && !owed_q[drain_vi_i];

  assign take_can        = ready_any & offer_free;
  assign take_receive_d  = take_can[1] && !(take_can[0] && took_receive_q);
  assign release_which_d = !release_valid_i[0];

  always_comb begin
    op_d       = Idle;
    op_queue_d = {db_receive_i, db_vi_i};
    if (op_q == Clear) begin
      op_d       = ClearReceive;
      op_queue_d = {1'b1, op_vi};
    end else if (op_q == Idle) begin
      if (clear_valid_i) begin
        op_d       = Clear;
        op_queue_d = {1'b0, clear_vi_i};
      end else if (link_valid_i) begin
        op_d       = Link;
        op_queue_d = {link_receive_i, link_vi_i};
      end else if (release_valid_i != 2'b00) begin
        op_d       = Release;
        op_queue_d = {1'b1, release_which_d ? release_vi_i[VIW +: VIW] : release_vi_i[0 +: VIW]};
      end else if (wake_can != 2'b00) begin
        op_d       = Wake;
        op_queue_d = wake_can[0] ? wanted_queue : flushed_queue;
      end else if (unhold_valid_i) begin
        op_d       = Unhold;
        op_queue_d = {1'b0, unhold_vi_i};
      end else if (db_valid_i) begin
        op_d       = Commit;
        op_queue_d = {db_receive_i, db_vi_i};
      end else if (take_can != 2'b00) begin
        op_d       = Take;
        op_queue_d = {take_receive_d,
                      ready_mem[{take_receive_d, take_receive_d ?
                          head_q[VIW+1 +: VIW] : head_q[0 +: VIW]}]};
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      op_q            <= Idle;
      op_queue_q      <= '0;
      release_which_q <= 1'b0;
      took_receive_q  <= 1'b0;
    end else if (op_q != Idle || op_d != Idle) begin
      op_q            <= op_d;
      op_queue_q      <= op_queue_d;
      release_which_q <= release_which_d;
      if (op_d == Take) took_receive_q <= take_receive_d;
    end
  end

  logic [CountWidth-1:0] count_rd_q, count, count_new, count_all;
  logic [95:0]           next_rd_q;
  logic [15:0]           seq_rd_q, seq;

  always_ff @(posedge clk_i) begin
    if (op_d != Idle) begin
      count_rd_q <= count_mem[op_queue_d];
      next_rd_q  <= next_mem[op_queue_d];
      seq_rd_q   <= seq_mem[op_queue_d];
    end
  end

  logic held, owed;
  assign held  = op_receive && held_q[op_vi];
  assign owed  = op_receive && owed_q[op_vi];
  assign count = pending_q[op_queue_q] ? count_rd_q : '0;
  assign seq   = known_q[op_queue_q] ? seq_rd_q : 16'd0;
  // A descriptor on the chip is still in its queue.
  assign count_all = count + {{CountWidth - 1{1'b0}}, held};

  // A queue cleared while its VI was in the ready list has nothing to offer.
  logic taken, parks, parked;
  assign parks  = op_q == Take && count != '0 && !op_receive && send_hold_i[op_vi];
  assign taken  = op_q == Take && count != '0 && !parks;
  assign parked = !op_receive && parked_q[op_vi] && op_q != Unhold;

  logic write_count, write_next, enter, by_itself, woken;
  logic [95:0] next_new;

  // `enter`: the queue has a descriptor with a known address, and its predecessor was released.
  assign by_itself = !op_receive || !on_arrival_i || !live_i[op_vi];
  assign woken     = op_q == Wake;
  assign push      = enter && (by_itself || woken) && !listed_q[op_queue_q] && !parked;

  always_comb begin
    write_count = 1'b0;
    write_next  = 1'b0;
    count_new   = count;
    next_new    = {db_handle_i, db_va_i};
    enter       = 1'b0;
    pop         = 1'b0;
    stat_doorbell_overrun_o = 1'b0;
    unique case (op_q)
      Commit: begin
        if (count_all == Full) begin
          stat_doorbell_overrun_o = 1'b1;
        end else begin
          write_count = 1'b1;
          count_new   = count + 1'b1;
          if (count == '0) begin
            write_next = 1'b1;
            enter      = !held;
          end
        end
      end
      Link: begin
        // An unreadable descriptor hides its successors: the queue is lost with it.
        next_new = {link_handle_i, link_va_i};
        if (count != '0) begin
          if (link_bad_i) begin
            write_count = 1'b1;
            count_new   = '0;
          end else begin
            write_next = 1'b1;
            enter      = !held;
          end
        end
      end
      Release: enter = count != '0 && !owed;
      Wake:    enter = 1'b1;
      Unhold:  enter = parked_q[op_vi];
      Clear, ClearReceive: begin
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
    if (write_count) count_mem[op_queue_q] <= count_new;
    if (write_next) next_mem[op_queue_q] <= next_new;
    if (taken) seq_mem[op_queue_q] <= seq + 16'd1;
    if (push) begin
      ready_mem[{op_receive, op_receive ? tail_q[VIW+1 +: VIW] : tail_q[0 +: VIW]}] <= op_vi;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      pending_q <= '0;
      known_q   <= '0;
      listed_q  <= '0;
      held_q    <= '0;
      owed_q    <= '0;
      parked_q  <= '0;
    end else begin
      if (write_count) pending_q[op_queue_q] <= count_new != '0;
      if (taken) known_q[op_queue_q] <= 1'b1;
      if (push) listed_q[op_queue_q] <= 1'b1;
      if (pop) listed_q[op_queue_q] <= 1'b0;
      if (taken && op_receive) begin
        held_q[op_vi] <= 1'b1;
        owed_q[op_vi] <= count_new != '0;
      end
      if (parks) parked_q[op_vi] <= 1'b1;
      if (op_q == Unhold || op_q == Clear) parked_q[op_vi] <= 1'b0;
      if (op_q == Release || op_q == ClearReceive) held_q[op_vi] <= 1'b0;
      if ((op_q == Link && op_receive) || op_q == ClearReceive) owed_q[op_vi] <= 1'b0;
    end
  end

  for (genvar g = 0; g < 2; g++) begin : g_kind
    logic mine;
    assign mine          = op_receive == (g == 1);
    assign ready_any[g]  = head_q[(VIW+1)*g +: VIW+1] != tail_q[(VIW+1)*g +: VIW+1];
    assign offer_free[g] = !offer_valid_q[g] || offer_taken[g];

    always_ff @(posedge clk_i) begin
      if (!rst_ni) begin
        head_q[(VIW+1)*g +: VIW+1] <= '0;
        tail_q[(VIW+1)*g +: VIW+1] <= '0;
        offer_valid_q[g] <= 1'b0;
      end else begin
        if (push && mine) tail_q[(VIW+1)*g +: VIW+1] <= tail_q[(VIW+1)*g +: VIW+1] + 1'b1;
        if (pop && mine) head_q[(VIW+1)*g +: VIW+1] <= head_q[(VIW+1)*g +: VIW+1] + 1'b1;
        if (taken && mine) offer_valid_q[g] <= 1'b1;
        else if (offer_taken[g]) offer_valid_q[g] <= 1'b0;
      end
    end

    always_ff @(posedge clk_i) begin
      if (taken && mine) begin
        offer_q[OfferWidth*g +: OfferWidth] <= {op_vi, next_rd_q, count_new != '0, seq};
      end
    end
  end

  // The kinds take turns; a shown offer stays until taken.
  logic offered_q, offered_receive_q, show_receive, show_send;
  assign show_send    = offer_valid_q[0] && send_space_i;
  assign show_receive = offered_q ? offered_receive_q :
                        offer_valid_q[1] && !(show_send && offered_receive_q);

  // `offered_q`: the last offer shown was not taken yet; its kind is kept for the turn.
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      offered_q         <= 1'b0;
      offered_receive_q <= 1'b0;
    end else if (take_valid_o) begin
      offered_q         <= !take_ready_i;
      offered_receive_q <= show_receive;
    end
  end

  assign take_valid_o = show_receive || show_send;
  assign offer_taken  = {show_receive, !show_receive} & {2{take_valid_o && take_ready_i}};

  assign take_receive_o = show_receive;
  assign {take_vi_o, take_handle_o, take_va_o, take_more_o, take_seq_o} =
      show_receive ? offer_q[OfferWidth +: OfferWidth] : offer_q[0 +: OfferWidth];

  assign db_ready_o      = op_q == Commit;
  assign link_ready_o    = op_q == Link;
  assign release_ready_o = {release_which_q, !release_which_q} & {2{op_q == Release}};
  assign clear_ready_o   = op_q == ClearReceive;
  assign unhold_ready_o  = op_q == Unhold;

  assign overrun_valid_o = stat_doorbell_overrun_o;
  assign overrun_vi_o    = 8'(op_vi);

  assign coming_o = pending_q[{1'b1, coming_vi_i}] ||
                    (offer_valid_q[1] && offer_receive_vi == coming_vi_i) ||
                    (db_valid_i && db_receive_i && db_vi_i == coming_vi_i);

  // A queue in a ready list counts as busy; its work ends without a message.
  assign vi_busy_o = pending_q[{1'b0, drain_vi_i}] || listed_q[{1'b1, drain_vi_i}] ||
                     (drain_receive_i && pending_q[{1'b1, drain_vi_i}]) ||
                     (offer_valid_q[0] && offer_send_vi == drain_vi_i) ||
                     (offer_valid_q[1] && offer_receive_vi == drain_vi_i) ||
                     (db_valid_i && db_vi_i == drain_vi_i) ||
                     (op_q != Idle && op_vi == drain_vi_i);

  assign quiet_o = op_q == Idle && take_can == 2'b00 && wake_can == 2'b00 && !take_valid_o &&
      !db_valid_i &&
                   !link_valid_i && release_valid_i == 2'b00 && !clear_valid_i && !unhold_valid_i;

endmodule
