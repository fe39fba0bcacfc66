// SPDX-License-Identifier: Apache-2.0

// Properties of `host_arbiter`: the bound on lost grants, counted from the ports alone; one grant
// at a time and only to a requester that asks; a shown request is stable; at most one read and one
// write outstanding per requester; low-priority requesters give way; no state changes while
// `quiet_o` is 1.
module hvia_host_arbiter_checker #(
    parameter int unsigned N = 5,
    parameter int unsigned Bound = 2 * N,
    localparam int unsigned IdW = (N > 1) ? $clog2(N) : 1
) (
    input logic            clk_i,
    input logic            rst_ni,
    input logic            quiesce_i,
    input logic            quiet_o,
    input logic            idle_o,
    input logic [N-1:0]    req_valid_i,
    input logic [N-1:0]    req_ready_o,
    input logic [N-1:0]    req_low_priority_i,
    input logic [N-1:0]    req_more_i,
    input logic [N-1:0]    req_write_i,
    input logic [N-1:0]    wdone_o,
    input logic [N-1:0]    rvalid_o,
    input logic [N-1:0]    rready_i,
    input logic            rlast_o,
    input logic            bus_req_valid_o,
    input logic            bus_req_ready_i,
    input logic [31:0]     bus_req_addr_o,
    input logic [9:0]      bus_req_len_o,
    input logic            bus_req_write_o,
    input logic            lock_q,
    input logic [IdW-1:0]  id
);

  logic [N-1:0] take;
  logic         quiet_q, shown_q;
  logic [42:0]  request_q;
  logic [1:0]   state_q;
  assign take = req_valid_i & req_ready_o;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q <= 1'b0;
      shown_q <= 1'b0;
    end else begin
      quiet_q   <= quiet_o;
      state_q   <= {idle_o, lock_q};
      shown_q   <= bus_req_valid_o & ~bus_req_ready_i;
      request_q <= {bus_req_write_o, bus_req_addr_o, bus_req_len_o};
      if (quiet_q) begin
        assert (state_q == {idle_o, lock_q})
        else $error("host_arbiter: changed after it said quiet");
      end
      if (shown_q & ~quiesce_i) begin
        assert (bus_req_valid_o & (request_q == {bus_req_write_o, bus_req_addr_o, bus_req_len_o}))
        else $error("host_arbiter: changed a request that the bus had not taken");
      end
      assert ($onehot0(take)) else $error("host_arbiter: two grants at once: %b", take);
      assert ((|take) == (bus_req_valid_o & bus_req_ready_i))
      else $error("host_arbiter: grant and bus request disagree");
      assert ($onehot0(rvalid_o) & $onehot0(wdone_o))
      else $error("host_arbiter: a response for two requesters");
    end
  end

  logic [N-1:0] asked_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) asked_q <= '0;
    else asked_q <= asked_q | req_valid_i;
  end

  for (genvar i = 0; i < N; i++) begin : gen_requester
    // A requester loses at most `Bound` grants until promoted, then one to each lower index.
    // Requesters that never asked do not count.
    int unsigned lost_q, lower, limit;
    always_comb begin
      lower = $countones(asked_q & N'((1 << i) - 1));
      limit = (lower == 0) ? $countones(asked_q & ~(N'(1) << i)) : Bound + lower;
    end
    logic        reading_q, writing_q;
    always_ff @(posedge clk_i) begin
      if (!rst_ni) begin
        lost_q    <= 0;
        reading_q <= 1'b0;
        writing_q <= 1'b0;
      end else begin
        if (take[i] | ~req_valid_i[i]) lost_q <= 0;
        else if (|take)                lost_q <= lost_q + 1;
        assert (lost_q <= limit)
        else $error("host_arbiter: requester %0d has lost %0d grants in a row", i, lost_q);

        // Checked only when a request is first shown, because later requests do not replace it.
        assert (~(bus_req_valid_o & ~lock_q & (id == IdW'(i)) & req_low_priority_i[i] &
            (lost_q < Bound)) |
                (((req_valid_i & ~req_low_priority_i) | req_more_i) == '0))
        else $error("host_arbiter: low-priority requester %0d went before another", i);

        if (take[i] & ~req_write_i[i])                      reading_q <= 1'b1;
        else if (rvalid_o[i] & rready_i[i] & rlast_o)       reading_q <= 1'b0;
        if (take[i] & req_write_i[i])                       writing_q <= 1'b1;
        else if (wdone_o[i])                                writing_q <= 1'b0;
        assert (~(take[i] & ~req_write_i[i] & reading_q & ~(rvalid_o[i] & rready_i[i] & rlast_o)))
        else $error("host_arbiter: requester %0d has two reads outstanding", i);
        assert (~(take[i] & req_write_i[i] & writing_q & ~wdone_o[i]))
        else $error("host_arbiter: requester %0d has two writes outstanding", i);
        assert (~(rvalid_o[i] & ~reading_q) & ~(wdone_o[i] & ~writing_q))
        else $error("host_arbiter: response for requester %0d, which awaits none", i);
      end
    end
  end

endmodule

bind hvia_host_arbiter hvia_host_arbiter_checker #(.N(N), .Bound(Bound)) u_checker (.*);
