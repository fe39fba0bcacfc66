// SPDX-License-Identifier: Apache-2.0

// Checks of every tx_engine: a completion stays until it was taken, a DMA job meets a free engine, a
// frame begins only when a slot is free and leaves it whole or aborted, and quiet means at rest.

module tx_engine_checker (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        cpl_valid_o,
    input logic        cpl_ready_i,
    input logic [31:0] cpl_pa_o,
    input logic [31:0] cpl_status_o,
    input logic        job_valid,
    input logic        job_ready,
    input logic        job_bad,
    input logic        built,
    input logic        framed,
    input logic        start,
    input logic        start_raw,
    input logic        take_desc,
    input logic        take_raw,
    input logic        tx_slot_ready_i,
    input logic        tx_wvalid_o,
    input logic        tx_wready_i,
    input logic        trace_valid_o,
    input logic        job_translated,
    input logic        payload_read,
    input logic        frame_end,
    input logic [2:0]  state_q,
    input logic        quiet_o
);

  logic held_q, quiet_q;
  logic [2:0] last_state_q;
  logic [63:0] cpl_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      held_q  <= 1'b0;
      quiet_q <= 1'b0;
    end else begin
      held_q       <= cpl_valid_o && !cpl_ready_i;
      cpl_q        <= {cpl_pa_o, cpl_status_o};
      quiet_q      <= quiet_o;
      last_state_q <= state_q;
      if (held_q) begin
        assert (cpl_valid_o && cpl_q == {cpl_pa_o, cpl_status_o})
        else $error("tx_engine: a completion changed or vanished before it was taken");
      end
      if (cpl_valid_o) begin
        assert (cpl_status_o[hvia_pkg::DescriptorStatusDoneBit])
        else $error("tx_engine: a completion without Done");
      end
      if (job_valid) begin
        assert (job_ready)
        else $error("tx_engine: a job while the DMA is busy");
      end
      assert (!(take_desc && take_raw))
      else $error("tx_engine: two jobs taken at once");
      if (start || start_raw) begin
        assert (tx_slot_ready_i && !tx_wvalid_o)
        else $error("tx_engine: a frame begins without a slot");
      end
      if (tx_wvalid_o) begin
        assert (framed)
        else $error("tx_engine: a beat outside a frame");
      end
      assert (!(job_bad && built))
      else $error("tx_engine: a frame was committed whose DMA failed");
      if (tx_wvalid_o) begin
        assert (tx_wready_i)
        else $error("tx_engine: the packet buffer stalls a frame under construction");
      end
      if (trace_valid_o) begin
        assert ($onehot({job_translated, payload_read, frame_end}))
        else $error("tx_engine: two trace events in one clock");
      end
      if (quiet_q) begin
        // Something new may have come in, but nothing moved by itself.
        assert (!quiet_o || state_q == last_state_q)
        else $error("tx_engine: changed after it said quiet");
      end
    end
  end

endmodule

bind tx_engine tx_engine_checker u_checker (.*);
