// SPDX-License-Identifier: Apache-2.0

// Shares the host-bus port between the requesters of the core: fixed-priority arbiter with bounded
// starvation. The lowest index wins; a requester that lost `Bound` grants in a row is promoted
// above the others, and among the promoted the lowest index wins. So requester i loses at most
// Bound + i grants in a row, and requester 0, which loses only to promoted ones, N - 1. Requesters
// that never ask count neither in i nor in N.
//
// A low-priority requester (`req_low_priority_i`) yields to all others, and to those that announce
// further requests (`req_more_i`), until it is promoted: nothing waits for its data, so its
// requests go between transfers and not inside one.
//
// Requests pass through combinationally. A shown request is stable until the bus takes it. Beats
// and responses are routed by the order of the grants.
module hvia_host_arbiter #(
    parameter int unsigned N = 5,
    parameter int unsigned DataW = 32,
    parameter int unsigned Bound = 2 * N,
    localparam int unsigned StrbW = DataW / 8
) (
    input  logic               clk_i,
    input  logic               rst_ni,

    // Soft reset: with quiesce no new request is taken; idle means none is in flight.
    input  logic               quiesce_i,
    output logic               idle_o,
    output logic               quiet_o,

    // Requesters; read data, last and error are shared, valid selects the requester.
    input  logic [N-1:0]       req_valid_i,
    output logic [N-1:0]       req_ready_o,
    input  logic [N-1:0]       req_low_priority_i,  // changes freely; read at the grant
    input  logic [N-1:0]       req_more_i,          // inside a transfer: will request more
    input  logic [N-1:0]       req_write_i,
    input  logic [N*32-1:0]    req_addr_i,
    input  logic [N*10-1:0]    req_len_i,
    input  logic [N*DataW-1:0] wdata_i,
    input  logic [N*StrbW-1:0] wstrb_i,
    input  logic [N-1:0]       wvalid_i,
    output logic [N-1:0]       wready_o,
    output logic [N-1:0]       wdone_o,
    output logic [N-1:0]       werr_o,
    output logic [DataW-1:0]   rdata_o,
    output logic [N-1:0]       rvalid_o,
    input  logic [N-1:0]       rready_i,
    output logic               rlast_o,
    output logic               rerr_o,

    // Bus
    output logic               bus_req_valid_o,
    input  logic               bus_req_ready_i,
    output logic               bus_req_write_o,
    output logic [31:0]        bus_req_addr_o,
    output logic [9:0]         bus_req_len_o,
    output logic [DataW-1:0]   bus_wdata_o,
    output logic [StrbW-1:0]   bus_wstrb_o,
    output logic               bus_wvalid_o,
    input  logic               bus_wready_i,
    input  logic               bus_wdone_i,
    input  logic               bus_werr_i,
    input  logic [DataW-1:0]   bus_rdata_i,
    input  logic               bus_rvalid_i,
    output logic               bus_rready_o,
    input  logic               bus_rlast_i,
    input  logic               bus_rerr_i
);

  localparam int unsigned LossW    = $clog2(Bound + 1);
  localparam int unsigned IdW      = (N > 1) ? $clog2(N) : 1;
  localparam int unsigned ByteW    = $clog2(StrbW);
  localparam int unsigned BeatW    = 10 - ByteW + 1;
  localparam int unsigned QueueW   = IdW + 1;  // each requester has at most one read and one write
  localparam int unsigned QueueLen = 1 << IdW;

  logic [N*LossW-1:0] loss_d, loss_q;
  logic [N-1:0]       starved, low_priority, asked, choose_from;
  logic               lock_q;
  logic [IdW-1:0]     lock_id_q, choice, id;
  logic               grant;
  logic [9:0]         len;
  logic [31:0]        addr;
  logic [ByteW-1:0]   unused_span;
  logic [BeatW-1:0]   beats;

  // Owners of the next write beats, write responses and read beats. Write beats and write responses
  // share the queue of ids; they leave it at different times.
  logic [IdW-1:0]     wid_q [QueueLen];
  logic [BeatW-1:0]   wbeats_q [QueueLen];
  logic [IdW-1:0]     rid_q [QueueLen];
  logic [QueueW-1:0]  wput_q, wtake_q, wdone_q, rput_q, rtake_q;
  logic [BeatW-1:0]   wcount_q;  // beats of the present write that passed
  logic [IdW-1:0]     wid, did, rid;
  logic               wactive, wbeat, wbeat_last, ractive;

  // Grant
  always_comb begin
    for (int unsigned i = 0; i < N; i++) starved[i] = loss_q[i*LossW +: LossW] == LossW'(Bound);
    low_priority = req_low_priority_i & ~starved;
    asked        = |req_more_i ? req_valid_i & ~low_priority : req_valid_i;
    if (|(req_valid_i & starved))        choose_from = req_valid_i & starved;
    else if (|(req_valid_i & ~low_priority)) choose_from = req_valid_i & ~low_priority;
    else                                choose_from = asked;
    choice = '0;
    for (int unsigned i = N; i > 0; i--) begin
      if (choose_from[i-1]) choice = IdW'(i - 1);
    end
  end

  assign id    = lock_q ? lock_id_q : choice;
  assign grant = bus_req_valid_o & bus_req_ready_i;
  assign addr  = req_addr_i[id*32 +: 32];
  assign len   = req_len_i[id*10 +: 10];
  // ceil((addr % StrbW + len) / StrbW)
  assign {beats, unused_span} = {1'b0, len} + 11'(StrbW - 1) +
      {{(11-ByteW){1'b0}}, addr[ByteW-1:0]};

  assign bus_req_valid_o = (lock_q | (|asked)) & ~quiesce_i;
  assign bus_req_write_o = req_write_i[id];
  assign bus_req_addr_o  = addr;
  assign bus_req_len_o   = len;

  always_comb begin
    req_ready_o     = '0;
    req_ready_o[id] = bus_req_ready_i & ~quiesce_i;
  end

  // A grant is a loss for all other requesters that ask.
  always_comb begin
    loss_d = loss_q;
    if (grant) begin
      for (int unsigned i = 0; i < N; i++) begin
        if (id == IdW'(i)) loss_d[i*LossW +: LossW] = '0;
        else if (req_valid_i[i] & ~starved[i]) begin
          loss_d[i*LossW +: LossW] = loss_q[i*LossW +: LossW] + 1'b1;
        end
      end
    end
  end

  // Write beats
  assign wactive      = wput_q != wtake_q;
  assign wid          = wid_q[wtake_q[IdW-1:0]];
  assign bus_wdata_o  = wdata_i[wid*DataW +: DataW];
  assign bus_wstrb_o  = wstrb_i[wid*StrbW +: StrbW];
  assign bus_wvalid_o = wactive & wvalid_i[wid];
  assign wbeat        = bus_wvalid_o & bus_wready_i;
  assign wbeat_last   = wcount_q + 1'b1 == wbeats_q[wtake_q[IdW-1:0]];
  always_comb begin
    wready_o = '0;
    if (wactive) wready_o[wid] = bus_wready_i;
  end

  // Write responses
  assign did = wid_q[wdone_q[IdW-1:0]];
  always_comb begin
    wdone_o      = '0;
    werr_o       = '0;
    wdone_o[did] = bus_wdone_i;
    werr_o[did]  = bus_werr_i;
  end

  // Read beats
  assign ractive      = rput_q != rtake_q;
  assign rid          = rid_q[rtake_q[IdW-1:0]];
  assign rdata_o      = bus_rdata_i;
  assign rlast_o      = bus_rlast_i;
  assign rerr_o       = bus_rerr_i;
  assign bus_rready_o = ractive & rready_i[rid];
  always_comb begin
    rvalid_o = '0;
    if (ractive) rvalid_o[rid] = bus_rvalid_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      loss_q    <= '0;
      lock_q    <= 1'b0;
      lock_id_q <= '0;
      wput_q    <= '0;
      wtake_q   <= '0;
      wdone_q   <= '0;
      rput_q    <= '0;
      rtake_q   <= '0;
      wcount_q  <= '0;
    end else begin
      lock_q <= bus_req_valid_o & ~bus_req_ready_i;
      if (bus_req_valid_o) lock_id_q <= id;
      if (grant) begin
        loss_q <= loss_d;
        if (bus_req_write_o) wput_q <= wput_q + 1'b1;
        else                 rput_q <= rput_q + 1'b1;
      end
      if (wbeat) begin
        wcount_q <= wbeat_last ? '0 : wcount_q + 1'b1;
        if (wbeat_last) wtake_q <= wtake_q + 1'b1;
      end
      if (bus_wdone_i) wdone_q <= wdone_q + 1'b1;
      if (bus_rvalid_i & bus_rready_o & bus_rlast_i) rtake_q <= rtake_q + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (grant & bus_req_write_o) begin
      wid_q[wput_q[IdW-1:0]]    <= id;
      wbeats_q[wput_q[IdW-1:0]] <= beats;
    end
    if (grant & ~bus_req_write_o) rid_q[rput_q[IdW-1:0]] <= id;
  end

  assign idle_o  = (wput_q == wdone_q) & ~ractive;
  assign quiet_o = idle_o & ~bus_req_valid_o & ~lock_q;

endmodule
