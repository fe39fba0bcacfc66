// SPDX-License-Identifier: Apache-2.0

// Properties of `doorbell`: the target port keeps its contract; a commit consists of the three
// dwords written to its queue in order since the VI was created (counted from the ports alone); it
// is stable until taken and has a legal descriptor address; every third dword counts as good or as
// malformed; no state changes while `quiet_o` is 1.
module hvia_doorbell_checker (
    input logic         clk_i,
    input logic         rst_ni,
    input logic         enable_i,
    input logic         forget_valid_i,
    input hvia_params_pkg::vi_t forget_vi_i,
    input logic         db_wvalid_i,
    input logic         db_wready_o,
    input logic [19:0]  db_waddr_i,
    input logic [31:0]  db_wdata_i,
    input logic [3:0]   db_wbe_i,
    input logic         db_valid_o,
    input logic         db_ready_i,
    input logic         db_receive_o,
    input hvia_params_pkg::vi_t db_vi_o,
    input logic [63:0]  db_va_o,
    input logic [31:0]  db_handle_o,
    input logic         async_valid_o,
    input logic         stat_doorbell_send_o,
    input logic         stat_doorbell_receive_o,
    input logic         stat_doorbell_malformed_o,
    input logic         quiet_o,
    input logic [1:0]   phase_q,
    input logic         receive_q,
    input hvia_params_pkg::vi_t vi_q,
    input logic [31:0]  low_q,
    input logic [31:0]  high_q,
    input logic         third,
    input logic         walking_q,
    input logic         load_q,
    input logic         began_q,
    input logic         owed_q
);

  logic         quiet_q, stalled_q, waiting_q;
  logic         good;
  logic [168+2*hvia_params_pkg::VICountLog2:0] was_q;
  logic [55:0]  beat_q;
  logic [96+hvia_params_pkg::VICountLog2:0] commit, commit_q;

  assign good   = stat_doorbell_send_o || stat_doorbell_receive_o;
  assign commit = {db_receive_o, db_vi_o, db_va_o, db_handle_o};
  // A function is evaluated only where used.
  function automatic logic [168+2*hvia_params_pkg::VICountLog2:0] now();
    now = {walking_q, load_q, began_q, owed_q, phase_q, receive_q, vi_q, low_q, high_q, db_valid_o,
        commit};
  endfunction

  // Dwords of each queue, indexed by its address on the bus.
  logic [2*hvia_params_pkg::VICount-1:0][1:0] has_phase;
  logic [63:0] has_va[2*hvia_params_pkg::VICount];
  logic [hvia_params_pkg::VICountLog2:0] queue;
  logic [1:0]  dword;
  logic        place;
  assign queue = {db_waddr_i[6], db_waddr_i[12 +: hvia_params_pkg::VICountLog2]};
  assign dword = db_waddr_i[3:2];
  assign place = dword != 2'd3 && 32'(db_waddr_i[19:12]) < hvia_params_pkg::VICount &&
                 (db_waddr_i[11:0] - {8'd0, dword, 2'd0} == hvia_pkg::DoorbellSend ||
                               db_waddr_i[11:0] - {8'd0, dword, 2'd0} == hvia_pkg::DoorbellReceive);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      has_phase <= '0;
    end else begin
      if (forget_valid_i) begin
        has_phase[{1'b0, forget_vi_i}] <= 2'd0;
        has_phase[{1'b1, forget_vi_i}] <= 2'd0;
      end
      if (db_wvalid_i && db_wready_o && place && !walking_q) begin
        if (db_wbe_i == 4'hf && (dword == 2'd0 || dword == has_phase[queue]) && dword != 2'd2) begin
          has_phase[queue] <= dword + 2'd1;
          has_va[queue][32*dword[0] +: 32] <= db_wdata_i;
        end else begin
          has_phase[queue] <= 2'd0;
        end
      end
      if (third) begin
        assert (place && db_wbe_i == 4'hf && dword == 2'd2 && has_phase[queue] == 2'd2 &&
            !walking_q &&
                has_va[queue] == {high_q, low_q} && queue == {receive_q, vi_q})
        else $error("doorbell: a third dword for queue %h, which has %0d dwords", queue,
            has_phase[queue]);
      end
      if (db_wvalid_i && db_wready_o && place && db_wbe_i == 4'hf && dword == 2'd2 &&
          !walking_q) begin
        assert (third == (has_phase[queue] == 2'd2))
        else $error("doorbell: the third dword of queue %h was not taken for it", queue);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q   <= 1'b0;
      stalled_q <= 1'b0;
      waiting_q <= 1'b0;
    end else begin
      quiet_q   <= quiet_o;
      stalled_q <= db_wvalid_i && !db_wready_o;
      waiting_q <= db_valid_o && !db_ready_i;
      if (db_wvalid_i) beat_q <= {db_waddr_i, db_wdata_i, db_wbe_i};
      if (db_valid_o) commit_q <= commit;

      if (quiet_q) begin
        assert (now() == was_q)
        else $error("doorbell: a register changed after it said quiet");
      end
      if (stalled_q) begin
        assert (db_wvalid_i && {db_waddr_i, db_wdata_i, db_wbe_i} == beat_q)
        else $error("doorbell: the target port withdrew or changed a dword before it was taken");
      end
      if (waiting_q) begin
        assert (db_valid_o && commit == commit_q)
        else $error("doorbell: a commit changed or vanished before it was taken");
      end
      if (db_valid_o) begin
        assert (db_va_o % 64'(hvia_pkg::DescriptorAlignment) == 64'd0)
        else $error("doorbell: commit of the misaligned address %h", db_va_o);
      end
      assert (phase_q != 2'd3)
      else $error("doorbell: phase 3 does not exist");
      if (third && !good) begin
        assert (stat_doorbell_malformed_o)
        else $error("doorbell: a third dword is neither a doorbell nor malformed");
      end
      assert (!(good && (async_valid_o || !enable_i || !third)))
      else $error("doorbell: committed while disabled or in error");
      assert (!(forget_valid_i && db_wvalid_i && db_wready_o))
      else $error("doorbell: a dword taken in the clock in which a VI is forgotten");
      assert (!(stat_doorbell_send_o && stat_doorbell_receive_o))
      else $error("doorbell: one doorbell for two queues");
      // State at the start of a quiescent span.
      if (quiet_o && !quiet_q) was_q <= now();
    end
  end

endmodule

bind hvia_doorbell hvia_doorbell_checker u_checker (.*);
