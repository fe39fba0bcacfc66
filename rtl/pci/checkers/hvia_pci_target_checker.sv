// SPDX-License-Identifier: Apache-2.0

// Properties of `pci_target`: its contract with the core, which answers a read within 12 clocks; no
// posted write is lost; no state changes while `quiet_o` is 1.
module hvia_pci_target_checker (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        quiet_o,
    input logic        tgt_wvalid_o,
    input logic        tgt_wready_i,
    input logic        tgt_wbar_o,
    input logic [19:0] tgt_waddr_o,
    input logic [31:0] tgt_wdata_o,
    input logic [3:0]  tgt_wbe_o,
    input logic        tgt_rvalid_o,
    input logic [19:0] tgt_raddr_o,
    input logic        tgt_rbar_o,
    input logic        tgt_rready_i,
    input logic [3:0]  state_q,
    input logic        frame_prev_q,
    input logic [31:0] addr_q,
    input logic        trdy_n_q,
    input logic        stop_n_q,
    input logic        devsel_n_q,
    input logic        sel_oe_q,
    input logic        ad_oe_q,
    input logic        par_oe_q,
    input logic        pcheck_q,
    input logic        rdrop_q,
    input logic        fpush,
    input logic        fpop,
    input logic [3:0]  fcnt_q,
    input logic [2:0]  frd_q
);

  localparam logic [3:0] ReadLimit = 4'd12;
  logic [52:0] now, was_q;
  logic        quiet_q, wstalled_q, rstalled_q;
  logic [56:0] wbeat_q;
  logic [20:0] read_q;
  logic [3:0]  read_wait_q;

  assign now = {state_q, frame_prev_q, addr_q, trdy_n_q, stop_n_q, devsel_n_q, sel_oe_q, ad_oe_q,
                par_oe_q, pcheck_q, rdrop_q, fcnt_q, frd_q, tgt_rvalid_o};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q     <= 1'b0;
      wstalled_q  <= 1'b0;
      rstalled_q  <= 1'b0;
      read_wait_q <= 4'd0;
    end else begin
      quiet_q    <= quiet_o;
      was_q      <= now;
      wstalled_q <= tgt_wvalid_o & ~tgt_wready_i;
      wbeat_q    <= {tgt_wbar_o, tgt_waddr_o, tgt_wbe_o, tgt_wdata_o};
      rstalled_q <= tgt_rvalid_o & ~tgt_rready_i;
      read_q     <= {tgt_rbar_o, tgt_raddr_o};
      if (tgt_rvalid_o & ~tgt_rready_i) read_wait_q <= read_wait_q + 4'd1;
      else                              read_wait_q <= 4'd0;

      if (quiet_q) begin
        assert (now == was_q) else $error("pci_target: changed after it said quiet");
      end
      if (wstalled_q) begin
        assert (tgt_wvalid_o &
                (wbeat_q == {tgt_wbar_o, tgt_waddr_o, tgt_wbe_o, tgt_wdata_o}))
        else $error("pci_target: write changed before it was taken");
      end
      if (rstalled_q) begin
        assert (tgt_rvalid_o & (read_q == {tgt_rbar_o, tgt_raddr_o}))
        else $error("pci_target: read changed before it was answered");
      end
      assert (~(tgt_wvalid_o & tgt_rvalid_o))
      else $error("pci_target: read overtakes a posted write");
      assert (~(fpush & ~fpop & (fcnt_q == 4'd8)) & ~(fpop & (fcnt_q == 4'd0)))
      else $error("pci_target: posted write buffer overflow or underflow");
      if (tgt_rvalid_o) begin
        assert (read_wait_q < ReadLimit)
        else $error("pci_target: the core has not answered a read of %h within %0d clocks",
                    tgt_raddr_o, ReadLimit);
      end
    end
  end

endmodule

bind hvia_pci_target hvia_pci_target_checker u_checker (.*);
