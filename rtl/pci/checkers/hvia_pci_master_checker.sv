// SPDX-License-Identifier: Apache-2.0

// Properties of `pci_master`: both neighbours keep the host-bus contract; the beats promised to a
// data phase are there; the pins obey the master's rules that need no view of the whole bus (the
// bus model checks the others); no state changes while `quiet_o` is 1.
module hvia_pci_master_checker #(
    parameter int unsigned W = 32
) (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        quiesce_i,
    input logic        quiet_o,
    input logic        req_valid_i,
    input logic        req_ready_o,
    input logic        req_write_i,
    input logic [31:0] req_addr_i,
    input logic [9:0]  req_len_i,
    input logic [W-1:0] wdata_i,
    input logic [W/8-1:0] wstrb_i,
    input logic        wvalid_i,
    input logic        wready_o,
    input logic [W-1:0] rdata_o,
    input logic        rvalid_o,
    input logic        rready_i,
    input logic        rlast_o,
    input logic        rerr_o,
    input logic [1:0]  state_q,
    input logic        cur_valid_q,
    input logic        cur_write_q,
    input logic [29:0] cur_addr_q,
    input logic [7:0]  cur_cnt_q,
    input logic        nxt_valid_q,
    input logic [W-1:0] ad_q,
    input logic [W/8-1:0] cbe_q,
    input logic        ad_oe_q,
    input logic        cbe_oe_q,
    input logic        par_q,
    input logic        par_oe_q,
    input logic        par64_q,
    input logic        ask64_q,
    input logic        ack64_q,
    input logic        req64_n_q,
    input logic        wide,
    input logic        next_odd,
    input logic        frame_n_q,
    input logic        frame_oe_q,
    input logic        irdy_n_q,
    input logic        irdy_oe_q,
    input logic        req_n_q,
    input logic        err_q,
    input logic [1:0]  backoff_q,
    input logic        drop,
    input logic        drop_q,
    input logic        idle_o,
    input logic        wdone_q,
    input logic        werr_q,
    input logic        pcheck_q,
    input logic        xfer,
    input logic        last_phase,
    input logic        wpush,
    input logic        wpop,
    input logic        rpush,
    input logic        rpop,
    input logic [2:0]  wcnt_q,
    input logic [2:0]  rcnt_q,
    input logic [1:0]  wrd_q,
    input logic [1:0]  rrd_q
);

  localparam int unsigned StateW = 73 + W + W / 8;
  // Clocks for two requests of 512 unaligned bytes at a beat per clock, and the gap between.
  localparam int unsigned DropLimit = 2 * (4096 / W + 1) + 16;
  logic [StateW-1:0] was_q;
  logic              quiet_q, stalled_q, wstalled_q, rstalled_q;
  logic [42:0]       req_q;
  logic [W+W/8-1:0]  wbeat_q;
  logic [W+1:0]      rbeat_q;
  logic              frame_was_n_q, owed;
  int unsigned       drop_age_q;

  // The master waits for the requester.
  assign owed = cur_write_q ? (wcnt_q == 3'd0) : (rvalid_o & ~rready_i);

  // A function is evaluated only where used.
  function automatic logic [StateW-1:0] now();
    now = {state_q, cur_valid_q, cur_write_q, cur_addr_q, cur_cnt_q, nxt_valid_q, ad_q, cbe_q,
           ad_oe_q, cbe_oe_q, par_q, par_oe_q, frame_n_q, frame_oe_q, irdy_n_q, irdy_oe_q,
           req_n_q, err_q, backoff_q, drop_q, wdone_q, werr_q, pcheck_q, wcnt_q, rcnt_q, wrd_q,
               rrd_q,
           par64_q, ask64_q, ack64_q, req64_n_q};
  endfunction

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q       <= 1'b0;
      stalled_q     <= 1'b0;
      wstalled_q    <= 1'b0;
      rstalled_q    <= 1'b0;
      frame_was_n_q <= 1'b1;
      drop_age_q    <= 0;
    end else begin
      quiet_q       <= quiet_o;
      stalled_q     <= req_valid_i & ~req_ready_o & ~quiesce_i;
      req_q         <= {req_write_i, req_addr_i, req_len_i};
      wstalled_q    <= wvalid_i & ~wready_o;
      wbeat_q       <= {wstrb_i, wdata_i};
      rstalled_q    <= rvalid_o & ~rready_i;
      rbeat_q       <= {rerr_o, rlast_o, rdata_o};
      frame_was_n_q <= frame_n_q;

      if (quiet_q) begin
        assert (now() == was_q) else $error("pci_master: changed after it said quiet");
      end
      if (stalled_q & ~quiesce_i) begin
        assert (req_valid_i & (req_q == {req_write_i, req_addr_i, req_len_i}))
        else $error("pci_master: the requester changed a request that was not taken");
      end
      if (req_valid_i) begin
        assert ((req_len_i != 10'd0) & (req_len_i <= 10'd512))
        else $error("pci_master: request of %0d bytes, want 1 to 512", req_len_i);
        assert ({1'b0, req_addr_i[11:0]} + {3'd0, req_len_i} <= 13'd4096)
        else $error("pci_master: request at %h of %0d bytes crosses a page", req_addr_i, req_len_i);
      end
      if (wstalled_q) begin
        assert (wvalid_i & (wbeat_q == {wstrb_i, wdata_i}))
        else $error("pci_master: the requester changed a beat that was not taken");
      end
      if (rstalled_q) begin
        assert (rvalid_o & (rbeat_q == {rerr_o, rlast_o, rdata_o}))
        else $error("pci_master: read beat changed before it was taken");
      end
      if (xfer & cur_write_q) begin
        // The beat of the next phase is buffered, or it is the other half of this beat.
        assert ((wcnt_q != 3'd0) & (last_phase | (wcnt_q >= 3'd2) | next_odd))
        else $error("pci_master: data phase without its beat");
      end
      assert (~(wpush & (wcnt_q == 3'd4)) & ~(wpop & (wcnt_q == 3'd0)))
      else $error("pci_master: write buffer overflow or underflow");
      assert (~(rpush & ~rpop & (rcnt_q == 3'd4)) & ~(rpop & (rcnt_q == 3'd0)))
      else $error("pci_master: read buffer overflow or underflow");
      if (~req64_n_q) begin
        assert ((W == 64) & ~frame_n_q) else $error("pci_master: REQ64# without FRAME#");
      end
      if (xfer & wide) begin
        assert (~cur_addr_q[0] & ~cur_cnt_q[0])
        else $error("pci_master: 64-bit phase in the middle of a beat");
      end
      if (frame_n_q & ~frame_was_n_q) begin
        assert (~irdy_n_q) else $error("pci_master: FRAME# went away without IRDY#");
      end
      // A soft reset with BusMaster off ends within DropLimit, except that a transaction on the bus
      // ends first.
      if (~drop | idle_o | ~frame_n_q | ~irdy_n_q) drop_age_q <= 0;
      else if (~owed)                              drop_age_q <= drop_age_q + 1;
      assert (drop_age_q <= DropLimit)
      else $error("pci_master: not idle %0d clocks into a soft reset with BusMaster off",
          DropLimit);
      if (drop_q) begin
        assert (frame_n_q | ~frame_was_n_q)
        else $error("pci_master: a transaction began in a soft reset with BusMaster off");
      end
      // State at the start of a quiescent span.
      if (quiet_o && !quiet_q) was_q <= now();
    end
  end

endmodule

bind hvia_pci_master hvia_pci_master_checker #(.W(W)) u_checker (.*);
